"""Models as TorchTitan and scripts over transformers have them, cut by FSDP2, tensor and expert
parallelism: what the scripts on distributed checkpoints load into and save from."""

import torch

TITAN = [("model.embed_tokens.", "tok_embeddings."), ("model.layers.", "layers."),
         ("model.norm.", "norm."), ("self_attn.q_proj.", "attention.qkv_linear.wq."),
         ("self_attn.k_proj.", "attention.qkv_linear.wk."),
         ("self_attn.v_proj.", "attention.qkv_linear.wv."),
         ("self_attn.o_proj.", "attention.wo."), ("self_attn.q_norm.", "attention.q_norm."),
         ("self_attn.k_norm.", "attention.k_norm."), ("mlp.gate_proj.", "feed_forward.w1."),
         ("mlp.up_proj.", "feed_forward.w3."), ("mlp.down_proj.", "feed_forward.w2."),
         ("mlp.gate.", "moe.router.gate."), ("post_attention_layernorm.", "ffn_norm."),
         ("input_layernorm.", "attention_norm.")]
STACKS = {"gate_proj": "w1_EFD", "up_proj": "w3_EFD", "down_proj": "w2_EDF"}
# The matrices of a layer that are cut by columns: their input comes in parts from the layer before.
ROWWISE = ("wo", "w2", "o_proj", "down_proj", "w2_EDF")
REPLICATED = ("gate", "q_norm", "k_norm")


def titan_name(name):
    for old, new in TITAN:
        name = name.replace(old, new)
    return name


def old_name(name):
    """TorchTitan's name before April 2026."""
    name = name.replace("attention.qkv_linear.", "attention.").replace("lm_head.", "output.")
    name = name.replace("moe.routed_experts.inner_experts.", "moe.experts.")
    return name.removesuffix("_EFD").removesuffix("_EDF")


def in_pairs(tensor, head_dim):
    """Rows of q and k as TorchTitan's Llama has them: its own permutation, for one projection."""
    heads = tensor.shape[0] // head_dim
    return (tensor.view(heads, 2, head_dim // 2, -1).transpose(1, 2)
            .reshape(tensor.shape).contiguous())


def renamed(tensors, config, style):
    """Tensors by the names of transformers as a checkpoint of this style has them."""
    if style == "hf":
        return dict(tensors)
    if style == "hf-fused":
        return together(tensors, config["model_type"])
    out, experts = {}, {}
    for name, tensor in tensors.items():
        if ".mlp.experts." in name:
            layer, rest = name.split(".mlp.experts.")
            number, kind, _ = rest.split(".")
            key = f"{titan_name(layer + '.')}moe.routed_experts.inner_experts.{STACKS[kind]}"
            experts.setdefault(key, {})[int(number)] = tensor
            continue
        turned = config["model_type"] == "llama" and (".q_proj." in name or ".k_proj." in name)
        out[titan_name(name)] = in_pairs(tensor, config["head_dim"]) if turned else tensor
    for key, of in experts.items():
        out[key] = torch.stack([of[e] for e in sorted(of)])
    if style == "torchtitan-2025":
        return {old_name(name): tensor for name, tensor in out.items()}
    return out


EXPERTS = {"mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
           "qwen3_moe": ("mlp", "gate_proj", "up_proj", "down_proj")}


def together(tensors, family):
    """Tensors as checkpoints of transformers have them as its modules do since 5."""
    block, gate, up, down = EXPERTS[family]
    out, layers = {}, {}
    for name, tensor in tensors.items():
        layer, _, rest = name.partition(f".{block}.experts.")
        if rest:
            expert, kind, _ = rest.split(".")
            layers.setdefault(layer, {}).setdefault(int(expert), {})[kind] = tensor
        else:
            out[name.replace(f".{block}.gate.", ".mlp.gate.")] = tensor
    for layer, experts in layers.items():
        of = [experts[e] for e in sorted(experts)]
        out[f"{layer}.mlp.experts.gate_up_proj"] = torch.stack(
            [torch.cat([one[gate], one[up]]) for one in of])
        out[f"{layer}.mlp.experts.down_proj"] = torch.stack([one[down] for one in of])
    return out


def apart(tensors, family):
    """The way back."""
    block, gate, up, down = EXPERTS[family]
    out = {}
    for name, tensor in tensors.items():
        layer, _, kind = name.partition(".mlp.experts.")
        for expert, of in enumerate(tensor if kind else ()):
            halves = {gate: of.chunk(2)[0], up: of.chunk(2)[1]}
            for to, part in (halves if kind == "gate_up_proj" else {down: of}).items():
                out[f"{layer}.{block}.experts.{expert}.{to}.weight"] = part.clone()
        if not kind:
            out[name.replace(".mlp.gate.", f".{block}.gate.")] = tensor
    return out


class Node(torch.nn.Module):
    """A module that only holds others."""


class Experts(torch.nn.Module):
    """Experts of a layer, stacked along the first dimension."""


def leaf_of(leaf, of):
    """The module of these tensors, by their names in it."""
    if "weight" not in of:
        made = Experts()
        for kind, tensor in of.items():
            made.register_parameter(kind, torch.nn.Parameter(torch.empty_like(tensor)))
        return made
    weight = of["weight"]
    if "embed" in leaf:
        return torch.nn.Embedding(*weight.shape)
    if weight.dim() == 2:
        return torch.nn.Linear(weight.shape[1], weight.shape[0], bias="bias" in of)
    return torch.nn.RMSNorm(weight.shape[0])


def module_of(tensors):
    """Modules with these parameters; what they hold before it is loaded is nothing to go by."""
    leaves = {}
    for name, tensor in tensors.items():
        path, _, kind = name.rpartition(".")
        leaves.setdefault(path, {})[kind] = tensor
    root = Node()
    for path, of in leaves.items():
        *above, leaf = path.split(".")
        at = root
        for part in above:
            if not hasattr(at, part):
                at.add_module(part, Node())
            at = getattr(at, part)
        at.add_module(leaf, leaf_of(leaf, of))
    found = {name: p.shape for name, p in root.named_parameters()}
    assert found == {name: t.shape for name, t in tensors.items()}
    return root


def place(experts, mesh, placements):
    """Cuts stacked experts; `placements` of the dimension that tensor parallelism cuts."""
    from torch.distributed.tensor import distribute_tensor
    for name, p in list(experts.named_parameters(recurse=False)):
        cut = placements(2 if name in ROWWISE else 1)
        experts.register_parameter(name, torch.nn.Parameter(distribute_tensor(p.data, mesh, cut)))


def tensor_parallel(root, mesh):
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   SequenceParallel, parallelize_module)
    plan = {}
    for name, module in root.named_modules():
        leaf = name.rsplit(".", 1)[-1]
        if leaf in REPLICATED:
            continue
        if isinstance(module, torch.nn.Embedding):
            plan[name] = RowwiseParallel()
        elif isinstance(module, torch.nn.Linear):
            plan[name] = RowwiseParallel() if leaf in ROWWISE else ColwiseParallel()
        elif isinstance(module, torch.nn.RMSNorm):
            plan[name] = SequenceParallel()
    parallelize_module(root, mesh, plan)


def parallel(root, fsdp, tp=1, experts="tp"):
    """FSDP2 over tensor parallelism. Stacked experts are cut by `experts`: "tp", each like a linear
    layer; "ep", over pairs of FSDP ranks, and inside by the pairs; "ep,tp", over the FSDP ranks,
    and each like a linear layer. As TorchTitan does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard
    mesh = init_device_mesh("cpu", (fsdp, tp), mesh_dim_names=("fsdp", "tp"))
    stacked = [m for m in root.modules() if isinstance(m, Experts)]
    ignored = set()
    if tp > 1:
        tensor_parallel(root, mesh["tp"])
    for module in stacked:
        if experts == "ep":
            pairs = init_device_mesh("cpu", (fsdp // 2, 2), mesh_dim_names=("rest", "ep"))
            place(module, pairs["ep"], lambda _: [Shard(0)])
            fully_shard(module, mesh=pairs["rest"], shard_placement_fn=lambda _: Shard(1))
        elif experts == "ep,tp":
            place(module, mesh, lambda dim: [Shard(0), Shard(dim)])
            ignored |= set(module.parameters())
        elif tp > 1:
            place(module, mesh["tp"], lambda dim: [Shard(dim)])
    layers = (root.model if hasattr(root, "model") else root).layers
    for block in layers.children():
        fully_shard(block, mesh=mesh["fsdp"], ignored_params=ignored)
    fully_shard(root, mesh=mesh["fsdp"], ignored_params=ignored)
    return root


def shard(full, p):
    """The part of a whole tensor that this process has of a parameter."""
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    if not isinstance(p, DTensor):
        return full.clone()
    sizes, offsets = compute_local_shape_and_global_offset(p.shape, p.device_mesh, p.placements)
    local = full[tuple(slice(o, o + n) for o, n in zip(offsets, sizes))].clone()
    return DTensor.from_local(local, p.device_mesh, p.placements, run_check=False, shape=p.shape,
                              stride=p.stride())


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
