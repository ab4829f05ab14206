"""Shared by the scripts of this folder: numbers by rule, a fixed batch, digests, and the names of the models."""
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import zlib

import numpy as np
import torch


def values(seed, name, shape):
    """The float32 rule of testdata/new_stack."""
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        key = np.uint64((zlib.crc32(name.encode()) << 16) ^ ((seed * 0x9E3779B1) & 0xFFFFFFFF))
        x = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    sign, exponent = x & np.uint64(1), np.uint64(112) + (x >> np.uint64(1)) % np.uint64(12)
    bits = (sign << np.uint64(31)) | (exponent << np.uint64(23)) | ((x >> np.uint64(20)) & np.uint64(0x7FFFFF))
    return torch.from_numpy(bits.astype(np.uint32).view(np.float32).reshape(shape).copy())


def weight(seed, name, shape):
    """The rule; norms are 1 and the rule, or the loss would hardly depend on anything."""
    v = values(seed, name, shape)
    return v + 1 if len(shape) == 1 else v


def gradient(seed, name, shape, step):
    return values(seed, f"{name}.grad{step}", shape)


def batch(step, rows, length, vocab):
    """Tokens [rows, length + 1] of a step; rows are those of the whole job, rank r of n has the r-th n-th part."""
    row, k = np.arange(rows)[:, None], np.arange(length + 1)[None, :]
    return torch.from_numpy((step * 101 + row * 37 + k * k * 7 + k * 13 + 5) % vocab)


def digest(t):
    t = t.detach().contiguous()
    if t.dtype == torch.bfloat16:
        t = t.view(torch.uint16)
    return hashlib.sha256(t.numpy().tobytes()).hexdigest()[:24]


def describe(t):
    return {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "sha256": digest(t)}


def hf_shapes(c):
    """Names and shapes of a Hugging Face checkpoint, one name for each expert."""
    h, d = c["hidden_size"], c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    q, kv, i = c["num_attention_heads"] * d, c["num_key_value_heads"] * d, c["intermediate_size"]
    s = {"model.embed_tokens.weight": (c["vocab_size"], h)}
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        s |= {p + "self_attn.q_proj.weight": (q, h), p + "self_attn.k_proj.weight": (kv, h),
              p + "self_attn.v_proj.weight": (kv, h), p + "self_attn.o_proj.weight": (h, q)}
        if c["model_type"].startswith("qwen3"):
            s |= {p + "self_attn.q_norm.weight": (d,), p + "self_attn.k_norm.weight": (d,)}
        if c["model_type"] == "qwen3_moe":
            m = c["moe_intermediate_size"]
            s[p + "mlp.gate.weight"] = (c["num_experts"], h)
            for e in range(c["num_experts"]):
                x = f"{p}mlp.experts.{e}."
                s |= {x + "gate_proj.weight": (m, h), x + "up_proj.weight": (m, h), x + "down_proj.weight": (h, m)}
        else:
            s |= {p + "mlp.gate_proj.weight": (i, h), p + "mlp.up_proj.weight": (i, h), p + "mlp.down_proj.weight": (h, i)}
        s |= {p + "input_layernorm.weight": (h,), p + "post_attention_layernorm.weight": (h,)}
    s["model.norm.weight"] = (h,)
    if not c["tie_word_embeddings"]:
        s["lm_head.weight"] = (c["vocab_size"], h)
    return s


def hf_weights(seed, c):
    return {n: weight(seed, n, s) for n, s in hf_shapes(c).items()}


def hf_gradients(seed, c, step):
    return {n: gradient(seed, n, s, step) for n, s in hf_shapes(c).items()}


# Hugging Face <-> torchtitan, for weights, gradients and moments alike.
NAMES = [("model.embed_tokens.", "tok_embeddings."), ("model.layers.", "layers."), ("model.norm.", "norm."),
         ("self_attn.o_proj.", "attention.wo."), ("self_attn.q_norm.", "attention.q_norm."),
         ("self_attn.k_norm.", "attention.k_norm."), ("mlp.gate_proj.", "feed_forward.w1."),
         ("mlp.up_proj.", "feed_forward.w3."), ("mlp.down_proj.", "feed_forward.w2."),
         ("mlp.gate.weight", "moe.router.gate.weight"),
         ("post_attention_layernorm.", "ffn_norm."), ("input_layernorm.", "attention_norm.")]


class Names:
    """style: "0.3.0" or "0.2.2"; fused: q, k and v are one tensor, as in the optimizer of 0.3.0."""

    def __init__(self, config, style):
        self.c, self.style = config, style
        self.d = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.qkv = "attention." if style == "0.2.2" else "attention.qkv_linear."
        self.experts = "moe.experts." if style == "0.2.2" else "moe.routed_experts.inner_experts."
        self.suffix = {"w1": "", "w3": "", "w2": ""} if style == "0.2.2" else {"w1": "_EFD", "w3": "_EFD", "w2": "_EDF"}

    def _pairs(self, t, back):
        """Rows of q or k of Llama: halves of a head (Hugging Face) to pairs (torchtitan), or back."""
        if self.c["model_type"] != "llama":
            return t
        a, b = (self.d // 2, 2) if back else (2, self.d // 2)
        return t.reshape(-1, a, b, *t.shape[1:]).transpose(1, 2).reshape(t.shape).contiguous()

    def plain(self, name):
        for old, new in NAMES:
            name = name.replace(old, new)
        return name.replace("lm_head.", "output.") if self.style == "0.2.2" else name

    def to_titan(self, hf, fused, both_tied=True):
        out, experts = {}, {}
        for name, t in hf.items():
            m = re.fullmatch(r"model\.layers\.(\d+)\.self_attn\.([qkv])_proj\.weight", name)
            e = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight", name)
            if m:
                out[f"layers.{m[1]}.{self.qkv}w{m[2]}.weight"] = t if m[2] == "v" else self._pairs(t, False)
            elif e:
                w = {"gate": "w1", "up": "w3", "down": "w2"}[e[3]]
                experts.setdefault(f"layers.{e[1]}.{self.experts}{w}{self.suffix[w]}", {})[int(e[2])] = t
            else:
                out[self.plain(name)] = t
        for name, parts in experts.items():
            out[name] = torch.stack([parts[i] for i in range(len(parts))])
        if fused:
            kv, r = self.c["num_key_value_heads"], self.c["num_attention_heads"] // self.c["num_key_value_heads"]
            for n in range(self.c["num_hidden_layers"]):
                p = f"layers.{n}.{self.qkv}"
                q, k, v = (out.pop(f"{p}w{x}.weight") for x in "qkv")
                h = q.shape[1]
                out[p + "wqkv.weight"] = torch.cat([q.reshape(kv, r * self.d, h), k.reshape(kv, self.d, h),
                                                    v.reshape(kv, self.d, h)], dim=1).reshape(-1, h)
        if both_tied and self.c["tie_word_embeddings"]:
            out[self.plain("lm_head.weight")] = out["tok_embeddings.weight"]
        return out

    def to_hf(self, titan):
        """The numbers of a dict by torchtitan's names, fused or not; tied copies are left out."""
        titan, out = dict(titan), {}
        kv, r = self.c["num_key_value_heads"], self.c["num_attention_heads"] // self.c["num_key_value_heads"]
        for n in range(self.c["num_hidden_layers"]):
            p = f"layers.{n}.{self.qkv}"
            if p + "wqkv.weight" in titan:
                w = titan.pop(p + "wqkv.weight")
                q, k, v = w.reshape(kv, (r + 2) * self.d, -1).split([r * self.d, self.d, self.d], dim=1)
                titan |= {f"{p}w{x}.weight": t.reshape(-1, w.shape[1]) for x, t in zip("qkv", (q, k, v))}
        for name in hf_shapes(self.c):
            m = re.fullmatch(r"model\.layers\.(\d+)\.self_attn\.([qkv])_proj\.weight", name)
            e = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight", name)
            if m:
                t = titan[f"layers.{m[1]}.{self.qkv}w{m[2]}.weight"]
                out[name] = t if m[2] == "v" else self._pairs(t, True)
            elif e:
                w = {"gate": "w1", "up": "w3", "down": "w2"}[e[3]]
                out[name] = titan[f"layers.{e[1]}.{self.experts}{w}{self.suffix[w]}"][int(e[2])]
            else:
                out[name] = titan[self.plain(name)]
        return {n: t.contiguous() for n, t in out.items()}


def spawn(ranks):
    """Starts this script once for each rank, and ends with them; in a rank, does nothing."""
    if "RANK" in os.environ:
        return
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    children = [subprocess.Popen([sys.executable, *sys.argv], env={
        **os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}) for r in range(ranks)]
    codes = [c.wait() for c in children]
    sys.exit(next((c for c in codes if c), 0))


def whole(t):
    from torch.distributed.tensor import DTensor
    return (t.full_tensor() if isinstance(t, DTensor) else t).detach().cpu()


def like(full, p):
    """The part of a whole tensor that a parameter's rank has, placed as the parameter is."""
    from torch.distributed.tensor import DTensor, distribute_tensor
    full = full.to(p.dtype)
    return distribute_tensor(full, p.device_mesh, p.placements) if isinstance(p, DTensor) else full.clone()


def read_dcp(folder):
    """(tensors, objects) of a DCP folder by flat key, whole."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
    reader = dcp.FileSystemReader(folder)
    meta = reader.read_metadata().state_dict_metadata
    flat = {k: torch.empty(m.size, dtype=m.properties.dtype) if isinstance(m, TensorStorageMetadata) else None
            for k, m in meta.items()}
    objects = [k for k, v in flat.items() if v is None]
    _load_state_dict(flat, storage_reader=reader, no_dist=True)
    return {k: v for k, v in flat.items() if k not in objects}, {k: flat[k] for k in objects}


def scrub(folder):
    """Takes the path of the machine that wrote it out of .metadata, and nothing else."""
    import pickle
    path = os.path.join(folder, ".metadata")
    with open(path, "rb") as f:
        meta = pickle.load(f)
    meta.storage_meta.checkpoint_id = os.path.basename(folder)
    with open(path, "wb") as f:
        pickle.dump(meta, f)


def plain(v):
    if isinstance(v, bytes):
        return f"{len(v)} bytes"
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    return v if isinstance(v, (int, float, str, bool, type(None))) else repr(v)


def dump(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")
