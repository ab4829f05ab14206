"""train_peer.py MODEL THREADS f32|bf16 ROWS PROMPT RESPONSE [ROUNDS]: what bench/train_bench.cc measures,
done by transformers: padded to equal rows, log-probabilities of the responses, backward."""

import sys
import time

import torch
import transformers

model_path, threads, dtype, rows, prompt, response = sys.argv[1], *sys.argv[2:7]
threads, rows, prompt, response = int(threads), int(rows), int(prompt), int(response)
rounds = int(sys.argv[7]) if len(sys.argv) > 7 else 5
torch.set_num_threads(threads)
model = transformers.AutoModelForCausalLM.from_pretrained(
    model_path, dtype=torch.bfloat16 if dtype == "bf16" else torch.float32)
model.train()
ids = torch.randint(0, model.config.vocab_size, (rows, prompt + response))
best = 1e9
for _ in range(rounds):
    model.zero_grad(set_to_none=False)
    start = time.perf_counter()
    # Logits of the responses only, as the trainer does.
    logits = model(ids, use_cache=False, logits_to_keep=response + 1).logits[:, :-1].float()
    labels = ids[:, prompt:]
    log_probs = torch.log_softmax(logits, -1).gather(-1, labels[..., None])
    log_probs.mul(0.01).sum().backward()
    best = min(best, time.perf_counter() - start)
print(f"{rows * (prompt + response) / best:.0f} tokens/s forward and backward (torch "
      f"{torch.__version__}, {threads} threads)")
