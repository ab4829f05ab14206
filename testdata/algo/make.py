"""What torch makes of the arithmetic of EasyR1's bf16 AdamW (AnyPrecisionAdamW: moments, a Kahan compensation and the
weight in bf16; the step counted in an f32 tensor).

Usage: python make.py > adamw_bf16.json      (torch 2.13)
"""

import json

import torch

LR, BETA1, BETA2, EPS, DECAY = 3e-3, 0.9, 0.999, 1e-8, 1e-2
WEIGHTS, STEPS = 96, 50


def bits(tensor):
    return [value & 0xffff for value in tensor.view(torch.int16).tolist()]


torch.manual_seed(1)  # where corrections in f64 give other bits
p = (torch.randn(WEIGHTS) * 0.1).bfloat16()
start = p.clone()
m, v, c = torch.zeros_like(p), torch.zeros_like(p), torch.zeros_like(p)
step = torch.tensor(0.0)
gradients = (torch.randn(STEPS, WEIGHTS) * 10 ** (-3 * torch.rand(STEPS, WEIGHTS))).bfloat16()
for gradient in gradients:
    # One operation per rounding, as on a GPU; torch 2.13 on a CPU rounds `alpha` of add_ to bf16 where it
    # works on whole vectors, so that its answer depends on the length of the parameter.
    step += 1
    g = gradient.float()
    p = (p.float() * (1 - LR * DECAY)).bfloat16()
    m = ((m.float() * BETA1).bfloat16().float() + torch.tensor(1 - BETA1) * g).bfloat16()
    v = ((v.float() * BETA2).bfloat16().float() + torch.tensor(1 - BETA2) * g * g).bfloat16()
    size = LR / (1 - BETA1**step)
    correction = (1 - BETA2**step) ** 0.5
    spread = ((v.float().sqrt().bfloat16().float() / correction).bfloat16().float() + EPS).bfloat16()
    c = (c.float() - size * m.float() / spread.float()).bfloat16()
    before = p
    p = (p.float() + c.float()).bfloat16()
    c = (c.float() + (before.float() - p.float()).bfloat16().float()).bfloat16()
rows = {"start": bits(start), "gradients": [bits(row) for row in gradients], "m": bits(m), "v": bits(v), "c": bits(c),
        "weights": bits(p)}
print("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items()) + "\n}")
