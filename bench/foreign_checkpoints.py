"""The inputs of bench/foreign_checkpoints.sh: checkpoints of other trainers, made with torch alone.

    foreign_checkpoints.py make KIND OUT [--size MB] [--ranks N] [--tp N] [--pp N] [--moments]
    foreign_checkpoints.py check KIND MODEL [--size MB]

KIND is zero2 or zero3, a DeepSpeed folder of that stage in BF16 on N ranks (8), or megatron, a
torch_dist checkpoint of Megatron-Core at TP 4 and PP 2. Their model is a qwen3 whose weights are MB
megabytes in BF16. DeepSpeed's folders have master weights, and with --moments those of Adam too;
stage 2 has the weights beside them. Files, records and classes are those of deepspeed 0.19.8 and
megatron-core 0.16 (formats/zero/FORMAT.md, formats/megatron/FORMAT.md).

`check` says whether MODEL, a folder of safetensors, has what was put in. Every value follows from
its tensor's name and its place in it: a block of random numbers that is repeated, from another
place in each tensor.
"""
import argparse
import collections
import dataclasses
import enum
import io
import json
import os
import pathlib
import pickle
import random
import struct
import sys
import types
import uuid
import zlib

import torch

HIDDEN, FFN, HEADS, GROUPS, HEAD = 1024, 3072, 16, 8, 128
STEP, DIVISIBLE_BY = 20, 128
BLOCK = (1 << 20) + 7  # elements; odd, so that no two rows of a tensor are alike
ADAM = {"lr": 3e-6, "betas": (0.9, 0.95), "eps": 1e-8, "amsgrad": False, "maximize": False,
        "foreach": False, "capturable": False, "differentiable": False, "fused": False,
        "decoupled_weight_decay": True}
DS_VERSION = "0.19.8"


# ------------------------------------------------------------ the model

def config_of(size):
    """The shapes of Qwen3-0.6B, with as many layers and as much vocabulary as `size` bytes take."""
    layer = sum(count_of(shape) for _, shape in layer_shapes())
    layers = max(2, 2 * round(0.75 * size / 2 / layer / 2))
    vocabulary = max(1001, (size // 2 - layers * layer) // (2 * HIDDEN) | 1)  # odd: it gets padded
    return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": HIDDEN,
            "intermediate_size": FFN, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
            "head_dim": HEAD, "num_hidden_layers": layers, "vocab_size": vocabulary,
            "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


def layer_shapes():
    return [("self_attn.q_proj.weight", (HEADS * HEAD, HIDDEN)),
            ("self_attn.k_proj.weight", (GROUPS * HEAD, HIDDEN)),
            ("self_attn.v_proj.weight", (GROUPS * HEAD, HIDDEN)),
            ("self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD)),
            ("self_attn.q_norm.weight", (HEAD,)), ("self_attn.k_norm.weight", (HEAD,)),
            ("mlp.gate_proj.weight", (FFN, HIDDEN)), ("mlp.up_proj.weight", (FFN, HIDDEN)),
            ("mlp.down_proj.weight", (HIDDEN, FFN)),
            ("input_layernorm.weight", (HIDDEN,)), ("post_attention_layernorm.weight", (HIDDEN,))]


def shapes_of(config):
    embedding = (config["vocab_size"], HIDDEN)
    shapes = {"model.embed_tokens.weight": embedding}
    for layer in range(config["num_hidden_layers"]):
        for name, shape in layer_shapes():
            shapes[f"model.layers.{layer}.{name}"] = shape
    return {**shapes, "model.norm.weight": (HIDDEN,), "lm_head.weight": embedding}


def count_of(shape):
    return torch.Size(shape).numel()


class Values:
    """F32 masters and the BF16 weights that they round to, of any tensor by its name."""

    def __init__(self):
        generator = torch.Generator().manual_seed(20)
        # Signs and mantissas are random, exponents are typical of weights: 2^-15 to 2^-4.
        bits = torch.randint(0, 1 << 32, (BLOCK,), generator=generator)
        exponent = (112 + (bits >> 24) % 12) << 23
        bits = (bits & 0x7FFFFF) | exponent | (((bits >> 23) & 1) << 31)
        block = (bits - ((bits >> 31) << 32)).to(torch.int32).view(torch.float32)
        # Twice, so that BLOCK elements from any place are contiguous.
        self.blocks = {torch.float32: torch.cat([block, block])}
        self.blocks[torch.bfloat16] = self.blocks[torch.float32].to(torch.bfloat16)

    def fill(self, target, name, first=0):
        """Elements [first, first + n) of the tensor; target is flat and has n elements."""
        block = self.blocks[target.dtype]
        at = (zlib.crc32(name.encode()) + first) % BLOCK
        whole = target.numel() // BLOCK
        target[:whole * BLOCK].view(whole, BLOCK).copy_(block[at:at + BLOCK].expand(whole, BLOCK))
        target[whole * BLOCK:].copy_(block[at:at + target.numel() - whole * BLOCK])

    def tensor(self, name, shape, dtype=torch.bfloat16):
        flat = torch.empty(count_of(shape), dtype=dtype)
        self.fill(flat, name)
        return flat.view(shape)


def stand_in(module, cls):
    """Pickled, an object of the class names this module, which need not be here."""
    cls.__module__, cls.__qualname__ = module, cls.__name__
    parts = module.split(".")
    for i in range(1, len(parts) + 1):
        name = ".".join(parts[:i])
        sys.modules.setdefault(name, types.ModuleType(name))
    setattr(sys.modules[module], cls.__name__, cls)
    return cls


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


# ------------------------------------------------------------ DeepSpeed

class LossScaler:
    def __init__(self):
        self.cur_scale, self.dynamic = 1.0, False


class ZeroStageEnum(int, enum.Enum):
    gradients = 2
    weights = 3


@dataclasses.dataclass
class fragment_address:  # pylint: disable=invalid-name
    numel: int
    start: int


def groups_of(shapes):
    """Two groups, as trainers make them: matrices, which decay, and vectors."""
    return [{name: torch.Size(shape) for name, shape in shapes.items() if (len(shape) > 1) == many}
            for many in (True, False)]


def ds_config_of(stage):
    return {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
            "bf16": {"enabled": True}, "zero_optimization": {"stage": stage}}


def model_file(stage, ranks, module, groups):
    return {"module": module, "buffer_names": [], "optimizer": None,
            "param_shapes": [collections.OrderedDict(group) for group in groups],
            "frozen_param_shapes": None, "shared_params": {}, "frozen_param_fragments": None,
            "lr_scheduler": None, "data_sampler": None, "random_ltd": None, "skipped_steps": 0,
            "global_steps": STEP, "global_samples": 2 * ranks * STEP, "dp_world_size": ranks,
            "mp_world_size": 1, "checkpoint_parallel_dimensions": {"pp_degree": 1, "tp_degree": 1},
            "ds_config": ds_config_of(stage), "ds_version": DS_VERSION}


def save_optimizer(tag, rank, stage, state):
    torch.save({"optimizer_state_dict": state, "ds_config": ds_config_of(stage),
                "ds_version": DS_VERSION},
               os.path.join(tag, f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"))


def adam_state(flats, moments):
    """The state of torch's AdamW over flat tensors, one per group; without moments, before a step."""
    state = {}
    for i, flat in enumerate(flats):
        if moments:
            whole = flat.nan_to_num()  # padding is zero in both
            state[i] = {"step": torch.tensor(float(STEP)), "exp_avg": whole * 1e-3,
                        "exp_avg_sq": whole * whole}
    return {"state": state,
            "param_groups": [{"weight_decay": 0.0 if i else 0.1, **ADAM, "params": [i]}
                             for i in range(len(flats))]}


def scaler_entries():
    return {"loss_scaler": LossScaler(), "dynamic_loss_scale": False, "overflow": False}


def stage_two_module(values, shapes, groups, ranks):
    """The weights are views of one flat buffer for each group."""
    views = {}
    for group in groups:
        elements = sum(map(count_of, group.values()))
        flat, at = torch.zeros(-(-elements // (2 * ranks)) * 2 * ranks, dtype=torch.bfloat16), 0
        for name, shape in group.items():
            views[name] = flat[at:at + count_of(shape)].view(shape)
            values.fill(views[name].view(-1), name)
            at += count_of(shape)
    return collections.OrderedDict((name, views[name]) for name in shapes)


def flat_part(values, group, first, count):
    """Elements [first, first + count) of a group's flat master weights; where each name's are."""
    flat, fragments, at = torch.zeros(count), collections.OrderedDict(), 0
    for name, shape in group.items():
        begin, end = max(first, at), min(first + count, at + count_of(shape))
        if begin < end:
            fragments[name] = fragment_address(end - begin, begin - first)
            values.fill(flat[begin - first:end - first], name, begin - at)
        at += count_of(shape)
    return flat, fragments


def make_stage_two(tag, values, shapes, given):
    groups = groups_of(shapes)
    torch.save(model_file(2, given.ranks, stage_two_module(values, shapes, groups, given.ranks),
                          groups), os.path.join(tag, "mp_rank_00_model_states.pt"))
    sums = [sum(map(count_of, group.values())) for group in groups]
    parts = [-(-elements // (2 * given.ranks)) * 2 for elements in sums]
    for rank in range(given.ranks):
        made = [flat_part(values, group, rank * part, part) for group, part in zip(groups, parts)]
        flats = [flat for flat, _ in made]
        lean = [min(max(elements - rank * part, 0), part) for elements, part in zip(sums, parts)]
        state = {**scaler_entries(), "clip_grad": 1.0,
                 "base_optimizer_state": adam_state(flats, given.moments),
                 "single_partition_of_fp32_groups": [f[:n] for f, n in zip(flats, lean)],
                 "zero_stage": ZeroStageEnum(2),
                 "group_paddings": [part - n for part, n in zip(parts, lean)],
                 "param_alignment_paddings": [[0] * len(group) for group in groups],
                 "partition_count": [given.ranks] * 2, "ds_version": DS_VERSION,
                 "param_slice_mappings": [fragments for _, fragments in made]}
        save_optimizer(tag, rank, 2, state)


def make_stage_three(tag, values, shapes, given):
    """Every parameter is cut over all ranks; after its end is memory that nobody has written."""
    groups = groups_of(shapes)
    module = collections.OrderedDict((name, torch.empty(0, dtype=torch.bfloat16))
                                     for name in shapes)
    for rank in range(given.ranks):
        torch.save(model_file(3, given.ranks, module, groups),
                   os.path.join(tag, f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"))
        flats = []
        for i, group in enumerate(groups):
            parts = [-(-count_of(shape) // given.ranks) for shape in group.values()]
            flat, at = torch.full((sum(parts),), float("nan")), 0
            for (name, shape), part in zip(group.items(), parts):
                count = min(max(count_of(shape) - rank * part, 0), part)
                values.fill(flat[at:at + count], name, rank * part)
                at += part
            flat.ds_id = f"{i}_{len(shapes)}"
            flats.append(flat)
        save_optimizer(tag, rank, 3, {
            "zero_stage": ZeroStageEnum(3), **scaler_entries(), "partition_count": given.ranks,
            "optimizer_state_dict": adam_state(flats, given.moments), "fp32_flat_groups": flats})


def make_zero(out, values, config, given):
    stand_in("deepspeed.runtime.fp16.loss_scaler", LossScaler)
    stand_in("deepspeed.runtime.zero.config", ZeroStageEnum)
    stand_in("deepspeed.utils.tensor_fragment", fragment_address)
    tag = os.path.join(out, f"global_step{STEP}")
    os.makedirs(tag)
    make = make_stage_two if given.kind == "zero2" else make_stage_three
    make(tag, values, shapes_of(config), given)
    with open(os.path.join(out, "latest"), "w", encoding="utf-8") as file:
        file.write(f"global_step{STEP}")


# ------------------------------------------------------------ Megatron-Core

class AttnBackend(enum.Enum):
    auto = 5


class Container:
    """A torch distributed checkpoint, written as Megatron's ranks do: an archive for each chunk,
    in two files of each rank."""

    def __init__(self, folder):
        self.folder, self.files = folder, {}
        self.keys, self.places = {}, {}

    def _write(self, rank, index, value):
        from torch.distributed.checkpoint.filesystem import _StorageInfo
        archive = io.BytesIO()
        torch.save(value, archive)
        # The smaller of the rank's two files: [bytes, name].
        file = min(self.files.setdefault((rank, i), [0, f"__{rank}_{i}.distcp"]) for i in (0, 1))
        with open(os.path.join(self.folder, file[1]), "ab") as stream:
            stream.write(archive.getbuffer())
        self.places[index] = _StorageInfo(file[1], file[0], archive.tell())
        file[0] += archive.tell()

    def tensor(self, rank, key, size, offsets, value):
        """A chunk of the tensor `key`, whose size is that of the whole."""
        from torch.distributed.checkpoint import metadata
        if key not in self.keys:
            self.keys[key] = metadata.TensorStorageMetadata(
                metadata.TensorProperties(dtype=value.dtype), torch.Size(size), [])
        self.keys[key].chunks.append(
            metadata.ChunkStorageMetadata(torch.Size(offsets), value.shape))
        self._write(rank, metadata.MetadataIndex(key, offsets), value.clone())

    def object(self, rank, key, value):
        from torch.distributed.checkpoint import metadata
        self.keys[key] = metadata.BytesStorageMetadata()
        self._write(rank, metadata.MetadataIndex(key), value)

    def finish(self):
        from torch.distributed.checkpoint import metadata
        whole = metadata.Metadata(
            self.keys, None, self.places, metadata.StorageMeta(
                pathlib.PurePosixPath(os.path.basename(self.folder)), str(uuid.uuid4())), "1.0.0")
        with open(os.path.join(self.folder, ".metadata"), "wb") as file:
            pickle.dump(whole, file, protocol=4)


def arguments_of(config, tp, pp):
    """The part of Megatron-LM's arguments that says what a model is."""
    return argparse.Namespace(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        expert_model_parallel_size=1, num_layers=config["num_hidden_layers"], hidden_size=HIDDEN,
        ffn_hidden_size=FFN, num_attention_heads=HEADS, group_query_attention=True,
        num_query_groups=GROUPS, kv_channels=HEAD, vocab_size=config["vocab_size"],
        padded_vocab_size=padded_vocabulary(config, tp), make_vocab_size_divisible_by=DIVISIBLE_BY,
        untie_embeddings_and_output_weights=True, swiglu=True, add_bias_linear=False,
        add_qkv_bias=False, qk_layernorm=True, normalization="RMSNorm", norm_epsilon=1e-6,
        position_embedding_type="rope", num_experts=None, moe_ffn_hidden_size=None,
        multi_latent_attention=False, transformer_impl="transformer_engine", bf16=True,
        params_dtype=torch.bfloat16, ckpt_format="torch_dist", use_distributed_optimizer=False,
        iteration=STEP, consumed_train_samples=16 * STEP, seq_length=4096, mtp_num_layers=None,
        attention_backend=AttnBackend.auto)


def padded_vocabulary(config, tp):
    return -(-config["vocab_size"] // (DIVISIBLE_BY * tp)) * DIVISIBLE_BY * tp


def layer_tensors(values, layer):
    """Key -> (tensor, axis that tensor parallel ranks cut, number of halves) of a layer."""
    hf = {name: values.tensor(f"model.layers.{layer}.{name}", shape)
          for name, shape in layer_shapes()}
    # By query groups: the group's query heads, its key head, its value head.
    qkv = torch.cat([hf[f"self_attn.{part}_proj.weight"].view(GROUPS, -1, HEAD, HIDDEN)
                     for part in "qkv"], 1)
    gate_and_up = torch.cat([hf["mlp.gate_proj.weight"], hf["mlp.up_proj.weight"]])
    return {
        "self_attention.linear_qkv.layer_norm_weight": (hf["input_layernorm.weight"], None, 1),
        "self_attention.linear_proj.weight": (hf["self_attn.o_proj.weight"], 1, 1),
        "self_attention.linear_qkv.weight": (qkv.reshape(-1, HIDDEN), 0, 1),
        "self_attention.q_layernorm.weight": (hf["self_attn.q_norm.weight"], None, 1),
        "self_attention.k_layernorm.weight": (hf["self_attn.k_norm.weight"], None, 1),
        "mlp.linear_fc1.layer_norm_weight": (hf["post_attention_layernorm.weight"], None, 1),
        "mlp.linear_fc1.weight": (gate_and_up, 0, 2),
        "mlp.linear_fc2.weight": (hf["mlp.down_proj.weight"], 1, 1)}


def write_cut(container, stage, key, tensor, axis, halves, tp, layer=None, layers=None):
    """The pieces of the tensor parallel ranks; with a layer, in the layer's place of a stack."""
    pieces = tensor.chunk(halves * tp, axis) if axis is not None else [tensor]
    at = 0
    for i, piece in enumerate(pieces):
        offsets = [at if axis == d else 0 for d in range(tensor.dim())]
        at += piece.shape[axis or 0]
        size = list(tensor.shape)
        if layer is not None:
            piece, offsets, size = piece[None], [layer, *offsets], [layers, *size]
        container.tensor(stage * tp + i % tp, key, size, offsets, piece)


def write_vocabulary(container, stage, key, values, name, config, tp):
    """More rows than the vocabulary has: what is after it is trained like the rest."""
    rows = padded_vocabulary(config, tp) - config["vocab_size"]
    tensor = torch.cat([values.tensor(name, (config["vocab_size"], HIDDEN)),
                        values.tensor(name + ".padding", (rows, HIDDEN))])
    write_cut(container, stage, key, tensor, 0, 1, tp)


def write_objects(container, layers, tp, pp):
    modules = ("self_attention.linear_proj", "self_attention.linear_qkv", "mlp.linear_fc1",
               "mlp.linear_fc2")
    for layer in range(layers):
        for module in modules:
            container.object(layer * pp // layers * tp,
                             f"decoder.layers.{module}._extra_state/shard_{layer}_{layers}", [None])
    states = {"random_rng_state": random.getstate(), "torch_rng_state": torch.get_rng_state(),
              "cuda_rng_state": torch.zeros(16, dtype=torch.uint8), "rng_tracker_states": {}}
    for stage in range(pp):
        for rank in range(tp):
            container.object(stage * tp + rank, f"rng_state/shard_{stage}.{rank}_{pp}.{tp}",
                             [[states]])


def make_megatron(out, values, config, given):
    stand_in("megatron.core.transformer.enums", AttnBackend)
    folder = os.path.join(out, f"iter_{STEP:07d}")
    os.makedirs(folder)
    tp, pp, layers = given.tp, given.pp, config["num_hidden_layers"]
    container = Container(folder)
    write_objects(container, layers, tp, pp)
    write_vocabulary(container, 0, "embedding.word_embeddings.weight", values,
                     "model.embed_tokens.weight", config, tp)
    for layer in range(layers):
        for key, (tensor, axis, halves) in layer_tensors(values, layer).items():
            write_cut(container, layer * pp // layers, f"decoder.layers.{key}", tensor, axis,
                      halves, tp, layer, layers)
    write_cut(container, pp - 1, "decoder.final_layernorm.weight",
              values.tensor("model.norm.weight", (HIDDEN,)), None, 1, tp)
    write_vocabulary(container, pp - 1, "output_layer.weight", values, "lm_head.weight", config, tp)
    container.finish()
    torch.save({"args": arguments_of(config, tp, pp), "checkpoint_version": 3.0, "iteration": STEP,
                "opt_param_scheduler": {"max_lr": 3e-6, "num_steps": 16 * STEP},
                "num_floating_point_operations_so_far": 1e15, "content_metadata": {}},
               os.path.join(folder, "common.pt"))
    write_json(os.path.join(folder, "metadata.json"), {
        "sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch",
        "common_backend_version": 1})
    with open(os.path.join(out, "latest_checkpointed_iteration.txt"), "w", encoding="ascii") as f:
        f.write(str(STEP))


# ------------------------------------------------------------ the results

def stored_tensors(folder):
    """Name, dtype, shape and bytes of every tensor in a folder's safetensors files."""
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with open(path, "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                file.seek(8 + length + begin)
                yield name, entry["dtype"], tuple(entry["shape"]), bytearray(file.read(end - begin))


def check(values, shapes, folder):
    left = dict(shapes)
    for name, dtype, shape, data in stored_tensors(folder):
        if left.pop(name, None) != shape or dtype != "BF16":
            sys.exit(f"{folder}: {name} is {dtype} {shape}, not BF16 {shapes.get(name)}")
        there = torch.frombuffer(data, dtype=torch.int16)
        if not torch.equal(there, values.tensor(name, shape).view(-1).view(torch.int16)):
            sys.exit(f"{folder}: {name} has other values than were put in")
    if left:
        sys.exit(f"{folder}: {len(left)} tensors are not there: {', '.join(sorted(left)[:4])}")
    print(f"{len(shapes)} tensors are what was put in, byte for byte")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("verb", choices=("make", "check"))
    parser.add_argument("kind", choices=("zero2", "zero3", "megatron"))
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=1200, help="megabytes of the weights in BF16")
    parser.add_argument("--ranks", type=int, default=8, help="of DeepSpeed")
    parser.add_argument("--tp", type=int, default=4)
    parser.add_argument("--pp", type=int, default=2)
    parser.add_argument("--moments", action="store_true", help="Adam's beside the master weights")
    given = parser.parse_args()
    values, config = Values(), config_of(given.size * 1000 * 1000)
    if given.verb == "check":
        check(values, shapes_of(config), given.folder)
        return
    os.makedirs(given.folder)
    make = make_megatron if given.kind == "megatron" else make_zero
    make(given.folder, values, config, given)
    write_json(os.path.join(given.folder, "config.json"), config)


if __name__ == "__main__":
    main()
