#!/usr/bin/python3
"""Writes the NxD shard sets of this folder with the real torch.

Usage: python3 make.py OUTPUT_FOLDER     (Debian 12's python3-torch; see SOURCES.md)

The sharding below is written from the facts of formats/nxd/FORMAT.md alone and shares nothing with
the C++ code: it cuts whole matrices with numpy-like slicing, head by head.
"""

import collections
import json
import os
import sys
import types

import torch


class TensorReference:
    """Stands in for torch_xla.utils.serialization.TensorReference, which pickles the same way."""

    def __init__(self, tid):
        self.tid = tid


def install_torch_xla():
    names = ["torch_xla", "torch_xla.utils", "torch_xla.utils.serialization"]
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    TensorReference.__module__ = names[-1]
    TensorReference.__qualname__ = "TensorReference"
    sys.modules[names[-1]].TensorReference = TensorReference


# --- models -------------------------------------------------------------------------------------

BASE = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 8, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16"}

CONFIGS = {
    "llama": {**BASE, "model_type": "llama", "num_hidden_layers": 1},
    "llama-2-layers": {**BASE, "model_type": "llama", "num_hidden_layers": 2},
    "qwen2-mha": {**BASE, "model_type": "qwen2", "num_hidden_layers": 1, "num_key_value_heads": 4},
    "qwen3-tied": {**BASE, "model_type": "qwen3", "num_hidden_layers": 2,
                   "tie_word_embeddings": True},
}


def shapes(c):
    hidden, rows = c["hidden_size"], c["num_attention_heads"] * c["head_dim"]
    key_rows, wide = c["num_key_value_heads"] * c["head_dim"], c["intermediate_size"]
    out = {"model.embed_tokens.weight": (c["vocab_size"], hidden)}
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        for letter, n in (("q", rows), ("k", key_rows), ("v", key_rows)):
            out[f"{p}self_attn.{letter}_proj.weight"] = (n, hidden)
            if c["model_type"] == "qwen2":
                out[f"{p}self_attn.{letter}_proj.bias"] = (n,)
        out[p + "self_attn.o_proj.weight"] = (hidden, rows)
        if c["model_type"] == "qwen3":
            out[p + "self_attn.q_norm.weight"] = (c["head_dim"],)
            out[p + "self_attn.k_norm.weight"] = (c["head_dim"],)
        out[p + "mlp.gate_proj.weight"] = (wide, hidden)
        out[p + "mlp.up_proj.weight"] = (wide, hidden)
        out[p + "mlp.down_proj.weight"] = (hidden, wide)
        out[p + "input_layernorm.weight"] = (hidden,)
        out[p + "post_attention_layernorm.weight"] = (hidden,)
    out["model.norm.weight"] = (hidden,)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (c["vocab_size"], hidden)
    return out


def make_model(c, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator).to(torch.bfloat16)
            for name, shape in shapes(c).items()}


# --- sharding -----------------------------------------------------------------------------------

def heads_of(hardware, q, kv, m, tp):
    """For each rank its query heads and its key heads."""
    slots_per_rank, per_slot, group = kv * m // tp, q // (kv * m), q // kv
    ranks = []
    for t in range(tp):
        queries, keys = [], []
        for slot in range(t * slots_per_rank, (t + 1) * slots_per_rank):
            if hardware == "trn1":
                key, replica = slot % kv, slot // kv
            else:
                key, replica = slot // m, slot % m
            keys.append(key)
            queries += range(key * group + replica * per_slot,
                             key * group + (replica + 1) * per_slot)
        ranks.append((queries, keys))
    return ranks


def pick(tensor, heads, head_dim, dim=0):
    return torch.cat([tensor.narrow(dim, h * head_dim, head_dim) for h in heads], dim)


def part(tensor, t, tp, dim=0):
    size = tensor.shape[dim] // tp
    return tensor.narrow(dim, t * size, size)


def own(tensor):
    return tensor.contiguous().clone()


def column_major(tensor):
    """As the reference converter leaves o_proj: un-transposed, then cloned with its strides."""
    return tensor.t().contiguous().clone().t()


def shard(model, c, tp, t, style, hardware="trn1", m=1, query_hardware=None):
    """State dict of rank t, all layers. query_hardware: where the queries lie, if elsewhere."""
    q, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    keys = heads_of(hardware, q, kv, m, tp)[t][1]
    queries = heads_of(query_hardware or hardware, q, kv, m, tp)[t][0]
    out = {"model.embed_tokens.weight": own(part(model["model.embed_tokens.weight"], t, tp))}
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        a = p + "self_attn."
        for kind in ("weight", "bias"):
            if f"{a}q_proj.{kind}" not in model:
                continue
            qkv = [own(pick(model[f"{a}{letter}_proj.{kind}"], heads, d))
                   for letter, heads in (("q", queries), ("k", keys), ("v", keys))]
            if style == "linear":
                for letter, tensor in zip("qkv", qkv):
                    out[f"{a}qkv_proj.{kind}_{letter}"] = tensor
            elif style == "fused":
                out[f"{a}qkv_proj.{kind}_qkv"] = torch.cat(qkv)
            elif style == "coalesced":
                out[f"{a}qkv_proj.{kind}"] = torch.cat(qkv)
            else:
                for letter, tensor in zip("qkv", qkv):
                    out[f"{a}{letter}_proj.{kind}"] = tensor
        columns = pick(model[a + "o_proj.weight"], queries, d, 1)
        permuted = style in ("linear", "fused")
        out[a + "o_proj.weight"] = column_major(columns) if permuted else own(columns)
        for norm in ("q_norm", "k_norm"):
            if f"{a}{norm}.weight" in model:
                out[f"{a}{norm}.weight"] = model[f"{a}{norm}.weight"]
        out[p + "mlp.gate_up_proj.weight"] = torch.cat(
            [part(model[f"{p}mlp.{x}_proj.weight"], t, tp) for x in ("gate", "up")])
        out[p + "mlp.down_proj.weight"] = own(part(model[p + "mlp.down_proj.weight"], t, tp, 1))
        for norm in ("input_layernorm", "post_attention_layernorm"):
            out[f"{p}{norm}.weight"] = model[f"{p}{norm}.weight"]
    out["model.norm.weight"] = model["model.norm.weight"]
    if "lm_head.weight" in model:
        out["lm_head.weight"] = own(part(model["lm_head.weight"], t, tp))
    return out


MEGATRON = [("model.embed_tokens.weight", "language_model.embedding.word_embeddings.weight"),
            ("model.norm.weight", "language_model.encoder.final_layernorm.weight"),
            ("lm_head.weight", "language_model.output_layer.weight"),
            ("model.layers.", "language_model.encoder.layers."), ("self_attn.", "self_attention."),
            ("o_proj.weight", "dense.weight"), ("gate_up_proj.weight", "dense_h_to_4h.weight"),
            ("down_proj.weight", "dense_4h_to_h.weight")]


def megatron(state):
    out = {}
    for name, tensor in state.items():
        if name.endswith("k_proj.weight"):
            name = name.replace("k_proj", "key_value")
            tensor = torch.cat([tensor, state[name.replace("key_value", "v_proj")]])
        elif name.endswith("v_proj.weight"):
            continue
        name = name.replace("q_proj", "query")
        for old, new in MEGATRON:
            name = name.replace(old, new)
        out[name] = tensor
    return out


def on_pipeline_rank(name, layer_ranks, p, pp):
    if ".layers." in name:
        return layer_ranks[int(name.split(".layers.")[1].split(".")[0])] == p
    return p == (0 if "embed" in name else pp - 1)


# --- writing ------------------------------------------------------------------------------------

def save(value, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    torch.save(value, path)


def write(text, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as out:
        out.write(text)


def save_xser(value, path, info):
    """torch_xla's serialization: every tensor a reference, numbered as the walk meets it."""
    tensors = []

    def walk(v):
        if isinstance(v, torch.Tensor):
            tensors.append(v)
            return TensorReference(len(tensors) - 1)
        if isinstance(v, dict):
            return {key: walk(x) for key, x in v.items()}
        return v

    save(walk(value), path)
    for tid, tensor in enumerate(tensors):
        save(tensor, f"{path}.tensors/tensor_{tid}.pt")
    if info:
        save({tid: {"dtype": x.dtype, "shape": x.shape, "expert_model_parallel": False}
              for tid, x in enumerate(tensors)}, path + ".info.pt")


def v2_name(t, p=0, e=None):
    ep = "" if e is None else f"_ep_rank_{e:02d}"
    return f"dp_rank_00{ep}_tp_rank_{t:02d}_pp_rank_{p:02d}.pt"


def markers(tag):
    write("1", tag + "/checkpoint")
    write("1", tag + "/done")


def main(root):
    install_torch_xla()
    models = {}
    for seed, (name, c) in enumerate(CONFIGS.items()):
        models[name] = make_model(c, seed)
        save(models[name], f"{root}/hf-{name}/pytorch_model.bin")
        write(json.dumps(c, indent=2, sort_keys=True) + "\n", f"{root}/hf-{name}/config.json")
    llama, c = models["llama"], CONFIGS["llama"]

    for t in range(2):
        state = shard(llama, c, 2, t, "linear")
        save(state, f"{root}/v2/step_10/model/{v2_name(t)}")
        save_xser(state, f"{root}/v2-xser/step_10/model/{v2_name(t)}", info=True)
        ordered = collections.OrderedDict(shard(llama, c, 2, t, "separate"))
        save({"model": ordered, "global_step": 10, "epoch": 0, "scheduler": {"last_epoch": 10}},
             f"{root}/v1/tp_rank_{t:02d}_pp_rank_00/checkpoint.pt")
        save_xser({"epoch": 0, "global_step": 10, "pytorch-lightning_version": "2.1.0",
                   "state_dict": shard(llama, c, 2, t, "fused")},
                  f"{root}/v1-xser/epoch=0-step=10.ckpt/tp_rank_{t:02d}_pp_rank_00", info=False)
        save({"model": shard(llama, c, 2, t, "separate")}, f"{root}/v0/tp_rank_{t:02d}")
        save(shard(models["qwen2-mha"], CONFIGS["qwen2-mha"], 2, t, "coalesced"),
             f"{root}/coalesced/step_10/model/{v2_name(t)}")
    for name in ("v2", "v2-xser", "coalesced"):
        markers(f"{root}/{name}/step_10")

    # What lies beside the weights: ZeRO-1 state of one parameter, scheduler, the user's own.
    for t in range(2):
        shard_of = {key: torch.zeros(4, 8) for key in ("exp_avg", "exp_avg_sq")}
        save({"state": {}, "param_groups": [{"lr": 1e-3, "betas": [0.9, 0.99], "params": [0]}],
              "base_state": {0: {"step": torch.tensor(10.0), **shard_of}},
              "shape_info": {0: [4, 8]}}, f"{root}/v2/step_10/optim/{v2_name(t)}")
    save({"last_epoch": 10, "_last_lr": [1e-3]}, f"{root}/v2/step_10/scheduler.pt")
    save({"epoch": 0, "global_step": 10}, f"{root}/v2/step_10/user_content.pt")

    for name, hardware, query_hardware, style in (
            ("trn1-m2", "trn1", None, "fused"), ("trn2-m2", "trn2", None, "linear"),
            ("reference-trn2-m2", "trn1", "trn2", "linear")):
        for t in range(4):
            save(shard(llama, c, 4, t, style, hardware, 2, query_hardware),
                 f"{root}/{name}/model/{v2_name(t)}")

    # Expert parallel names of a dense model: the converter leaves nothing for ranks above 0.
    save(shard(llama, c, 1, 0, "linear"), f"{root}/ep/model/{v2_name(0, e=0)}")
    save({}, f"{root}/ep/model/{v2_name(0, e=1)}")

    # A tied model as training saves it: both keys, on the first and on the last pipeline rank.
    tied, c = dict(models["qwen3-tied"]), CONFIGS["qwen3-tied"]
    tied["lm_head.weight"] = tied["model.embed_tokens.weight"].clone()
    for p in range(2):
        state = {name: tensor for name, tensor in shard(tied, c, 1, 0, "linear").items()
                 if on_pipeline_rank(name, [0, 1], p, 2)}
        save(state, f"{root}/pp2-tied/step_10/model/{v2_name(0, p)}")
    markers(f"{root}/pp2-tied/step_10")

    # neuronx-nemo-megatron: layers numbered from 0 on every pipeline rank.
    two, c = models["llama-2-layers"], CONFIGS["llama-2-layers"]
    for t in range(2):
        for p in range(2):
            state = {name: tensor for name, tensor in shard(two, c, 2, t, "separate").items()
                     if on_pipeline_rank(name, [0, 1], p, 2)}
            state = {"model." + name.replace("layers.1.", "layers.0."): tensor
                     for name, tensor in megatron(state).items()}
            save({"epoch": 0, "state_dict": state},
                 f"{root}/nnm/tp_rank_{t:02d}_pp_rank_{p:03d}/model_optim_rng.ckpt")


if __name__ == "__main__":
    main(sys.argv[1])
