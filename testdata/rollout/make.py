#!/usr/bin/env python3
"""Writes the rollout bundles of this folder with the real safetensors package.

Usage: python make.py OUTPUT_FOLDER     (needs torch and safetensors from PyPI; see SOURCES.md)

The rank shards are cut by the plain rules below, head by head; no code is shared with nxdkit.
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file

QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 10,
         "intermediate_size": 9, "num_hidden_layers": 1, "num_attention_heads": 6,
         "num_key_value_heads": 2, "head_dim": 2, "vocab_size": 11, "tie_word_embeddings": True,
         "torch_dtype": "bfloat16"}
QWEN2 = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 12,
         "intermediate_size": 10, "num_hidden_layers": 1, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 13, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16"}


def head_dim(c):
    return c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])


def make_model(c, seed):
    hidden, wide, d = c["hidden_size"], c["intermediate_size"], head_dim(c)
    rows, key_rows = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], hidden)}
    p = "model.layers.0."
    for letter, n in (("q", rows), ("k", key_rows), ("v", key_rows)):
        shapes[f"{p}self_attn.{letter}_proj.weight"] = (n, hidden)
        if c["model_type"] == "qwen2":
            shapes[f"{p}self_attn.{letter}_proj.bias"] = (n,)
    shapes[p + "self_attn.o_proj.weight"] = (hidden, rows)
    if c["model_type"] == "qwen3":
        shapes[p + "self_attn.q_norm.weight"] = shapes[p + "self_attn.k_norm.weight"] = (d,)
    for name, shape in (("gate", (wide, hidden)), ("up", (wide, hidden)), ("down", (hidden, wide))):
        shapes[f"{p}mlp.{name}_proj.weight"] = shape
    for norm in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"{p}{norm}.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], hidden)
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator).to(torch.bfloat16)
            for name, shape in shapes.items()}


def padded(tensor, dim, multiple):
    missing = -tensor.shape[dim] % multiple
    shape = list(tensor.shape)
    shape[dim] = missing
    return torch.cat([tensor, torch.zeros(shape, dtype=tensor.dtype)], dim)


def part(tensor, rank, tp, dim):
    tensor = padded(tensor, dim, tp)
    return tensor.chunk(tp, dim)[rank].contiguous()


def heads(tensor, order, d, dim):
    """The heads of `order`, None for a head of zeros."""
    blocks = tensor.split(d, dim)
    zero = torch.zeros_like(blocks[0])
    return torch.cat([zero if h is None else blocks[h] for h in order], dim)


def replicate(c, tp):
    """REPLICATE_TO_TP_DEGREE: queries padded group by group, each key head tp / kv times."""
    q, kv = c["num_attention_heads"], c["num_key_value_heads"]
    assert tp % kv == 0
    pad = (-q % tp) // kv
    queries = []
    for group in range(kv):
        queries += [group * (q // kv) + i for i in range(q // kv)] + [None] * pad
    return queries, [h for h in range(kv) for _ in range(tp // kv)]


def shard(model, c, tp, rank, fused, transposed=False, vocab_parallel=False):
    d = head_dim(c)
    queries, keys = replicate(c, tp)
    embedding = model["model.embed_tokens.weight"]
    out = {"embed_tokens.weight": part(embedding, rank, tp, 0 if vocab_parallel else 1),
           "lm_head.weight": part(model.get("lm_head.weight", embedding), rank, tp, 0),
           "norm.weight": model["model.norm.weight"]}
    turn = (lambda t: t.t().contiguous()) if transposed else (lambda t: t)
    old, new = "model.layers.0.", "layers.0."
    for kind in ("weight", "bias"):
        if f"{old}self_attn.q_proj.{kind}" not in model:
            continue
        qkv = [part(heads(model[f"{old}self_attn.{x}_proj.{kind}"], order, d, 0), rank, tp, 0)
               for x, order in (("q", queries), ("k", keys), ("v", keys))]
        if fused:
            whole = torch.cat(qkv)
            out[f"{new}self_attn.qkv_proj.Wqkv.{kind}"] = turn(whole) if kind == "weight" else whole
        else:
            for x, tensor in zip("qkv", qkv):
                out[f"{new}self_attn.qkv_proj.{x}_proj.{kind}"] = tensor
    output = heads(model[old + "self_attn.o_proj.weight"], queries, d, 1)
    out[new + "self_attn.o_proj.o_proj.weight"] = turn(part(output, rank, tp, 1))
    for x in "qk":
        if f"{old}self_attn.{x}_norm.weight" in model:
            out[f"{new}self_attn.{x}_layernorm.weight"] = model[f"{old}self_attn.{x}_norm.weight"]
    for name, dim in (("gate", 0), ("up", 0), ("down", 1)):
        out[f"{new}mlp.{name}_proj.weight"] = turn(
            part(model[f"{old}mlp.{name}_proj.weight"], rank, tp, dim))
    for norm in ("input_layernorm", "post_attention_layernorm"):
        out[f"{new}{norm}.weight"] = model[f"{old}{norm}.weight"]
    for name in (new + "self_attn.rank_util.rank", "rank_util.rank"):
        out[name] = torch.tensor([rank], dtype=torch.int32)
    if vocab_parallel:
        out["embed_tokens.rank_util.rank"] = torch.tensor([rank], dtype=torch.int32)
    return out


OPTIMUM = {
    "_serialized_key": "NxDNeuronConfig", "batch_size": 4, "capacity_factor": None,
    "checkpoint_id": "org/model", "checkpoint_revision": None, "continuous_batching": True,
    "ep_degree": 1, "fused_qkv": True, "glu_mlp": True, "local_ranks_size": 4, "max_batch_size": 4,
    "max_context_length": 4096, "max_topk": 256, "n_active_tokens": 4096,
    "neuronxcc_version": "2.21.33363.0+82129205", "on_device_sampling": True,
    "optimum_neuron_version": "0.4.6.dev4", "output_logits": False, "pp_degree": 1,
    "prefill_chunk_size": 1024, "sequence_length": 4096, "speculation_length": 0,
    "start_rank_id": 0, "target": "trn1", "torch_dtype": "bfloat16", "tp_degree": 4}

NXDI = {
    "batch_size": 2, "ctx_batch_size": 1, "tkg_batch_size": 2, "max_batch_size": 2, "seq_len": 2048,
    "max_context_length": 2048, "tp_degree": 4, "world_size": 4, "local_ranks_size": 4,
    "start_rank_id": 0, "pp_degree": 1, "ep_degree": 1, "cp_degree": 1, "attention_dp_degree": 1,
    "torch_dtype": "bfloat16", "cast_type": "config", "save_sharded_checkpoint": True,
    "fused_qkv": True, "vocab_parallel": True, "qkv_kernel_enabled": True,
    "out_proj_kernel_enabled": True, "mlp_kernel_enabled": True, "quantized": False,
    "attn_cls": {"__module__": "neuronx_distributed_inference.models.qwen2.modeling_qwen2",
                 "__name__": "NeuronQwen2Attention"},
    "quantize_clamp_bound": float("inf")}


def write_json(value, path):
    with open(path, "w", encoding="ascii") as out:
        out.write(json.dumps(value, indent=2, sort_keys=True) + "\n")


def main(root):
    for name, c, seed in (("qwen3", QWEN3, 1), ("qwen2", QWEN2, 2)):
        os.makedirs(f"{root}/hf-{name}", exist_ok=True)
        model = make_model(c, seed)
        save_file(model, f"{root}/hf-{name}/model.safetensors", {"format": "pt"})
        write_json(c, f"{root}/hf-{name}/config.json")

        optimum = name == "qwen3"
        bundle = f"{root}/{'optimum' if optimum else 'nxdi'}"
        weights = bundle + ("/checkpoint/weights" if optimum else "/weights")
        os.makedirs(weights, exist_ok=True)
        for rank in range(4):
            tensors = (shard(model, c, 4, rank, True) if optimum else
                       shard(model, c, 4, rank, True, transposed=True, vocab_parallel=True))
            save_file(tensors, f"{weights}/tp{rank}_sharded_checkpoint.safetensors")
        if optimum:
            write_json(OPTIMUM, bundle + "/neuron_config.json")
            write_json(c, bundle + "/config.json")
        else:
            top = {key: value for key, value in c.items() if key != "torch_dtype"}
            write_json({**top, "_name_or_path": "org/model", "fused_spec_config": None,
                        "metadata": None, "num_cores_per_group": 1, "qkv_bias": True,
                        "o_bias": False, "neuron_config": NXDI}, bundle + "/neuron_config.json")


if __name__ == "__main__":
    main(sys.argv[1])
