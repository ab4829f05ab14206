"""rollout_peer.py MODEL THREADS f32|bf16 ROWS PROMPT NEW: what bench/rollout_bench.cc measures, done by
transformers generate with the same model (rollout_bench --folder F; MODEL is F/model)."""

import sys
import time

import torch
import transformers

model_path, threads, dtype, rows, prompt, new = sys.argv[1], *sys.argv[2:7]
threads, rows, prompt, new = int(threads), int(rows), int(prompt), int(new)
torch.set_num_threads(threads)
model = transformers.AutoModelForCausalLM.from_pretrained(
    model_path, dtype=torch.bfloat16 if dtype == "bf16" else torch.float32)
model.eval()
ids = torch.randint(0, model.config.vocab_size, (rows, prompt))
settings = transformers.GenerationConfig(
    do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=new, min_new_tokens=new,
    pad_token_id=0)
best = cpu = 1e9
for _ in range(2):
    start, start_cpu = time.perf_counter(), time.process_time()
    model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    best = min(best, time.perf_counter() - start)
    cpu = min(cpu, time.process_time() - start_cpu)
print(f"{rows * new / best:.0f} new tokens/s ({rows * new / cpu:.0f} per CPU second), prompts "
      f"included (torch {torch.__version__}, {threads} threads)")
