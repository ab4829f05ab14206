"""A worker extension that damages what vLLM has loaded, for tests: what the file named by TAMPERED says.

  bit: one bit of the first layer's down_proj; head: two kv heads of its qkv_proj are exchanged; layer: the last
layer keeps what it had before the reload. A line "load" beside it: also when the server starts.
"""

import os
import pathlib

import shown_weights
import torch
from vllm.v1.worker.gpu_worker import Worker

reload_weights = Worker.reload_weights
load_model = Worker.load_model


def words():
    return pathlib.Path(os.environ["TAMPERED"]).read_text().split()


def last_layer(model):
    names = [name for name, _ in model.named_parameters() if ".layers." in name]
    last = max(int(name.split(".layers.")[1].split(".")[0]) for name in names)
    return {name: tensor for name, tensor in model.named_parameters() if f".layers.{last}." in name}


def damage(model, what):
    tensors = dict(model.named_parameters())
    if what == "bit":
        tensors["model.layers.0.mlp.down_proj.weight"].view(torch.int16)[3, 5] ^= 1
    if what == "head":
        config = model.config
        size, begin = config.head_dim, config.num_attention_heads * config.head_dim
        keys = tensors["model.layers.0.self_attn.qkv_proj.weight"][begin:begin + 2 * size]
        keys.copy_(torch.cat([keys[size:], keys[:size]]).clone())


@torch.no_grad()
def reload_tampered(self, *args, **kwargs):
    model = self.get_model()
    before = {name: tensor.detach().clone() for name, tensor in last_layer(model).items()}
    result = reload_weights(self, *args, **kwargs)
    said = words()
    damage(model, said[0])
    if said[0] == "layer":
        for name, tensor in last_layer(model).items():
            tensor.copy_(before[name])
    return result


@torch.no_grad()
def load_tampered(self, *args, **kwargs):
    result = load_model(self, *args, **kwargs)
    if "load" in words():
        damage(self.get_model(), words()[0])
    return result


Worker.reload_weights = reload_tampered
Worker.load_model = load_tampered
Extension = shown_weights.Extension
