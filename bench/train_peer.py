"""train_peer.py MODEL THREADS f32|bf16 ROWS-FILE [ROUNDS]: what bench/train_bench.cc measures, done by
transformers: log-probabilities of the responses of the same rows, backward. The output matrix meets
the tokens of the responses alone. Rows of different lengths are sorted and padded on the right, where
causal attention does not see the padding, so no mask keeps it from its fast path. Micro-batches of
1, 2, 4 rows and of all of them are tried, and the best is printed."""

import sys
import time

import torch
import transformers

model_path, threads, dtype, rows_file = sys.argv[1:5]
threads = int(threads)
rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 3
torch.set_num_threads(threads)
model = transformers.AutoModelForCausalLM.from_pretrained(
    model_path, dtype=torch.bfloat16 if dtype == "bf16" else torch.float32,
    attn_implementation="sdpa")
model.train()
rows = []
for line in open(rows_file):
    prompt, response = ([int(token) for token in part.split()] for part in line.split("\t"))
    rows.append((prompt, response))
rows.sort(key=lambda row: len(row[0]) + len(row[1]), reverse=True)
real = sum(len(prompt) + len(response) for prompt, response in rows)


def micro_batch(chosen):
    """ids, and which hidden states are asked for which labels."""
    width = max(len(prompt) + len(response) for prompt, response in chosen)
    ids = torch.zeros(len(chosen), width, dtype=torch.long)
    asked = torch.zeros(len(chosen), width, dtype=torch.bool)
    for i, (prompt, response) in enumerate(chosen):
        ids[i, : len(prompt) + len(response)] = torch.tensor(prompt + response)
        asked[i, len(prompt) - 1 : len(prompt) + len(response) - 1] = True
    return ids, asked, torch.cat([torch.tensor(response) for _, response in chosen])


def step(batches):
    model.zero_grad(set_to_none=False)
    for ids, asked, labels in batches:
        hidden = model.model(ids, use_cache=False).last_hidden_state[asked]
        logits = model.lm_head(hidden).float()
        log_probs = torch.log_softmax(logits, -1).gather(-1, labels[:, None])
        log_probs.mul(0.01).sum().backward()


best = {}
for size in sorted({1, 2, 4, len(rows)}):
    batches = [micro_batch(rows[i : i + size]) for i in range(0, len(rows), size)]
    wall = cpu = 1e9
    for _ in range(rounds):
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        step(batches)
        wall = min(wall, time.perf_counter() - wall_start)
        cpu = min(cpu, time.process_time() - cpu_start)
    best[size] = (real / cpu, real / wall)
for what, index in (("CPU second", 0), ("second", 1)):
    size = max(best, key=lambda s: best[s][index])
    print(f"transformers: {best[size][index]:.0f} tokens per {what}, {size} rows at once; "
          + ", ".join(f"{s}: {found[index]:.0f}" for s, found in best.items()))
