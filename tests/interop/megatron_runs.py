"""Fifty small runs of Megatron-Core, each drawn from its seed, made by the real program on the CPU.

    megatron_runs.py --make PLAN --generator FOLDER

is the part of one release of megatron-core, in a Python that has it. A line of PLAN is SEED FOLDER:
the run goes to FOLDER/run, what must come out of it to FOLDER/expected.json. The program is started
once, each rank is a fork of it. FOLDER of the generator has make_megatron.py, whose rule for the
values, whose mapping and whose ways around a missing GPU are used here, and check_megatron.py,
whose reader of distributed checkpoints is what Megatron's own loader is compared with.

RUNS says for each seed the release, the family, the ranks and what is odd; the sizes are drawn.
expected.json is made without Megatron: the Hugging Face tensors come first, AdamW of torch runs on
them. In "orders" is what Megatron's own buffers said of the flat buckets of dp_reshardable.
"""
import argparse
import contextlib
import io
import json
import os
import random
import select
import shlex
import shutil
import signal
import socket
import sys
import traceback
import warnings

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "8.0")
warnings.filterwarnings("ignore")

# Release of megatron-core, family, then options: tpN ppN epN dpN (1 by default), the optimizer, the
# layout of folders, and flags. cut=A: layers of the first stage; saves: one per step.
RUNS = {
    1: "0.16.1 llama rng",
    2: "0.16.1 llama tp4 pp2",
    3: "0.15.3 qwen2 tp2 tied numbered verl1",
    4: "0.13.1 llama pp3 layers=4 cut=2",
    5: "0.19.2 qwen3 tp2 pp2 tied",
    6: "0.16.1 mixtral ep2 dp2 te",
    7: "0.16.1 qwen3_moe tp2 pp2 ep2 dp2 verl2",
    8: "0.16.1 deepseek_v3 pp2 layers=3 cut=2 te",
    9: "0.19.2 qwen2_moe tp2",
    10: "0.16.1 qwen3 tp2 singleton te",
    11: "0.16.1 llama dp2 plain",
    12: "0.19.2 qwen2 tp2 pp2 tied plain",
    13: "0.16.1 llama fp32",
    14: "0.15.3 qwen3 tp2 pp2 fp32",
    15: "0.16.1 qwen3 tp2 dp2 fully_reshardable verl2",
    16: "0.15.3 llama pp2 dp2 numbered fully_reshardable",
    17: "0.19.2 mixtral tp2 ep2 dp2 fully_reshardable",
    18: "0.16.1 deepseek_v3 pp2 ep2 dp2 fully_reshardable te",
    19: "0.13.1 qwen3 tp2 dp2 fully_sharded_model_space",
    20: "0.13.1 llama pp2 dp2 tied fully_sharded_model_space",
    21: "0.13.1 mixtral tp2 ep2 dp2 fully_sharded_model_space",
    22: "0.13.1 deepseek_v3 dp2 fully_sharded_model_space",
    23: "0.15.3 qwen2 tp2 dp2 fully_sharded_model_space verl1 te",
    24: "0.16.1 llama dp2 dp_reshardable overlap",
    25: "0.16.1 qwen3 pp3 dp2 layers=3 tied dp_reshardable overlap",
    26: "0.19.2 qwen2 tp2 pp2 dp2 layers=2 dp_reshardable overlap",
    27: "0.19.2 llama tp2 dp_reshardable",
    28: "0.16.1 mixtral pp2 ep2 dp2 dp_reshardable overlap",
    29: "0.16.1 deepseek_v3 pp2 dp2 layers=2 dp_reshardable overlap",
    30: "0.19.2 qwen3_moe tp2 ep2 dp4 dp_reshardable overlap",
    31: "0.19.2 deepseek_v3 ep2 dp2 dp_reshardable overlap",
    32: "0.16.1 qwen2 tp2 dp2 tied dp_reshardable overlap gradf32 verl2",
    33: "0.16.1 llama tp2 pp2 layers=2 dp_reshardable nemo",
    34: "0.16.1 qwen3_moe ep2 dp2 fully_reshardable prefix nemo",
    35: "0.19.2 qwen3 tp2 dp2 fully_reshardable bridge",
    36: "0.16.1 qwen2 pp2 te bridge",
    37: "0.16.1 qwen3 plain steps=3 saves",
    38: "0.16.1 qwen2 tied release",
    39: "0.16.1 qwen2_moe pp2 ep2 dp2 plain prefix",
    40: "0.19.2 qwen3 pp3 dp2 layers=4 cut=2 tied dp_reshardable overlap steps=2 saves",
    41: "0.16.1 deepseek_v3 mtp",
    42: "0.19.2 deepseek_v3 mtp pp2",
    43: "0.16.1 qwen3 tp2 dp2 singleton fully_reshardable",
    44: "0.16.1 llama tp2 pp2 named plain",
    45: "0.16.1 deepseek_v3 pp2 ep2 dp2 layers=4 dp_reshardable overlap",
    46: "0.16.1 deepseek_v3 dp2 mtp dp_reshardable overlap",
    47: "0.19.2 deepseek_v3 pp2 dp2 layers=2 mtp dp_reshardable overlap",
    48: "0.19.2 qwen2_moe tp2 dp2 layers=1 dp_reshardable overlap",
    49: "0.15.3 qwen3 tp2 dp2 layers=1 tied fully_reshardable",
    50: "0.13.1 qwen2 tp2 layers=1 tied plain",
}

SEEDS = range(1, 51)
OPTIMIZERS = ("plain", "fp32", "fully_reshardable", "fully_sharded_model_space",
              "dp_reshardable")
LAYOUTS = ("lm", "verl1", "verl2", "nemo", "bridge", "release", "named")
TIMEOUT = 240  # seconds, for what takes five or ten
MOE = ("mixtral", "qwen3_moe", "qwen2_moe", "deepseek_v3")
ARCHITECTURES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mixtral": "Mixtral",
                 "qwen2_moe": "Qwen2Moe", "qwen3_moe": "Qwen3Moe", "deepseek_v3": "DeepseekV3"}


# ------------------------------------------------------------ the runs

def config_of(family, words, tp, draw):
    """The Hugging Face configuration, of sizes that the ranks divide."""
    trained = any(word in OPTIMIZERS for word in words)
    options = dict(word.split("=") for word in words if "=" in word)
    pp = max([int(word[2:]) for word in words if word[:2] == "pp"], default=1)
    groups = tp * draw.choice((1, 1, 2)) if tp < 4 else tp
    heads = groups * draw.choice((1, 2) if tp > 1 else (1, 2, 3))
    dim = draw.choice((4, 6, 8))
    hidden = draw.choice((8, 12, 16) if trained or family in MOE else (8, 16, 24, 32))
    layers = int(options.get("layers", draw.choice((pp, 2 * pp) if pp < 3 else (pp,))))
    c = {"architectures": [ARCHITECTURES[family] + "ForCausalLM"], "model_type": family,
         "hidden_size": hidden, "intermediate_size": tp * draw.randint(3, 7) * 2,
         "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": groups,
         "head_dim": dim, "vocab_size": draw.randint(17, 60),
         "tie_word_embeddings": "tied" in words, "rms_norm_eps": 1e-6,
         "max_position_embeddings": 64}
    experts = draw.choice((2, 4))
    if family == "mixtral":
        c.update(num_local_experts=experts, num_experts_per_tok=2, intermediate_size=tp * 4)
    if family in ("qwen3_moe", "qwen2_moe"):
        c.update(num_experts=experts, num_experts_per_tok=2, moe_intermediate_size=tp * 3,
                 norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
    if family == "qwen2_moe":
        c.update(shared_expert_intermediate_size=tp * 5)
    if family == "deepseek_v3":
        del c["head_dim"]
        c.update(num_key_value_heads=heads, num_hidden_layers=max(2, layers), q_lora_rank=6,
                 kv_lora_rank=5, qk_nope_head_dim=dim, qk_rope_head_dim=4, v_head_dim=dim - 1,
                 n_routed_experts=experts, n_shared_experts=draw.choice((1, 2)), topk_group=1,
                 num_experts_per_tok=2, first_k_dense_replace=1, n_group=1,
                 moe_intermediate_size=tp * 4)
    if "mtp" in words:
        c["num_nextn_predict_layers"] = 1
    return c


def case_of(seed):
    """The generator's case, with additions."""
    release, family, *words = RUNS[seed].split()
    draw = random.Random(seed)
    case = {"release": release, "mcore": release.rsplit(".", 1)[0], "seed": 500 + seed,
            "words": words}
    for name in ("tp", "pp", "ep", "dp"):
        case[name] = max([int(w[2:]) for w in words if w[:2] == name and w[2:].isdigit()],
                         default=1)
    case["hf"] = config_of(family, words, case["tp"], draw)
    case["form"] = next((word for word in words if word in OPTIMIZERS), None)
    case["layout"] = next((word for word in words if word in LAYOUTS), "lm")
    case["names"] = "te" if "te" in words else "local"
    options = dict(word.split("=") for word in words if "=" in word)
    case["cut"] = int(options.get("cut", 0))
    case["steps"] = int(options.get("steps", draw.choice((1, 2, 3)))) if case["form"] else 2
    case["divisible"] = draw.choice((1, 4, 8, 16, 32))
    case["bucket_size"] = draw.choice((300, 500, 900))
    case["metadata"] = {"non_homogeneous_layers": True} if "numbered" in words else {}
    if "singleton" in words:
        case["metadata"]["singleton_local_shards"] = True
    return case


def what_of(case):
    """A run in words."""
    said = [case["hf"]["model_type"], f"megatron-core {case['release']}"]
    said += [f"{name} {case[name]}" for name in ("tp", "pp", "ep", "dp") if case[name] > 1]
    said += [word for word in case["words"] if word[:2] not in ("tp", "pp", "ep", "dp")
             or not word[2:].isdigit()]
    return ", ".join(said)


def folder_of(case):
    """The paths that a user may name: the folder of a run, of verl's actor, of a step."""
    if case["layout"] == "nemo":
        return f"step_{case['steps']}"
    return f"iter_{case['steps']:07d}" if case["layout"] == "named" else ""


# ------------------------------------------------------------ Hugging Face's side

def hf_shapes(g, c):
    """As the generator's, with what it does not know: qwen2_moe, the layers of prediction."""
    if c["model_type"] == "qwen2_moe":
        out = g.hf_shapes({**c, "model_type": "qwen3_moe"})
        h, s, d = c["hidden_size"], c["shared_expert_intermediate_size"], c["head_dim"]
        for name in [n for n in out if n.endswith(("q_norm.weight", "k_norm.weight"))]:
            del out[name]
        for layer in range(c["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            for part, heads in (("q", c["num_attention_heads"]), ("k", c["num_key_value_heads"]),
                                ("v", c["num_key_value_heads"])):
                out[f"{at}self_attn.{part}_proj.bias"] = (heads * d,)
            at += "mlp.shared_expert"
            out.update({at + ".gate_proj.weight": (s, h), at + ".up_proj.weight": (s, h),
                        at + ".down_proj.weight": (h, s), at + "_gate.weight": (1, h)})
        return out
    more = c.get("num_nextn_predict_layers", 0)
    out = g.hf_shapes({**c, "num_hidden_layers": c["num_hidden_layers"] + more})
    for layer in range(c["num_hidden_layers"], c["num_hidden_layers"] + more):
        h, at = c["hidden_size"], f"model.layers.{layer}."
        out.update({at + "enorm.weight": (h,), at + "hnorm.weight": (h,),
                    at + "eh_proj.weight": (h, 2 * h), at + "shared_head.norm.weight": (h,)})
    return out


def megatron_full(g, c, tensors, name, tp, seed):
    """As the generator's: one of Megatron's parameters, whole, from the Hugging Face tensors."""
    import torch
    parts = name.split(".")
    if parts[0] == "mtp":
        layer = c["num_hidden_layers"] + int(parts[2])
        last = {"final_layernorm": "shared_head.norm"}.get(parts[3], parts[3])
        if parts[3] in ("transformer_layer", "mtp_model_layer"):
            name = f"decoder.layers.{layer}." + ".".join(parts[4:])
        else:
            return tensors[f"model.layers.{layer}.{last}.weight"]
    if c["model_type"] == "qwen2_moe" and ".mlp.shared_experts." in name:
        at = f"model.layers.{parts[2]}.mlp.shared_expert"
        if "linear_fc1" in name:
            return torch.cat([tensors[f"{at}.{part}_proj.weight"] for part in ("gate", "up")])
        return tensors[at + ("_gate.weight" if "gate" in name else ".down_proj.weight")]
    return g.megatron_full(c, tensors, name, tp, seed)


def expect(g, case, steps):
    """The shape, dtype and digests of each Hugging Face tensor, by torch's AdamW."""
    import torch
    seed, shapes, out = case["seed"], hf_shapes(g, case["hf"]), {}
    whole = case["form"] == "fp32"
    for name, shape in shapes.items():
        w, buffer = g.values(seed, name, shape), name.endswith("e_score_correction_bias")
        f32 = whole or buffer
        entry = {"shape": list(shape), "dtype": "float32" if f32 else "bfloat16",
                 "f32": None, "exp_avg": None, "exp_avg_sq": None}
        if case["form"] and not buffer:
            p = torch.nn.Parameter(w.float())
            adam = torch.optim.AdamW([p], lr=g.LR, betas=g.BETAS, eps=g.EPS, weight_decay=g.DECAY,
                                     foreach=False)
            for step in range(steps):
                p.grad = g.values(seed + step, name + ".grad", shape).float()
                adam.step()
            w = p.detach() if whole else p.detach().to(torch.bfloat16)
            entry.update({key: g.digest(adam.state[p][key]) for key in ("exp_avg", "exp_avg_sq")})
            if not whole:
                entry["f32"] = g.digest(p)
        entry["weight"] = g.digest(w.float() if f32 else w)
        out[name] = entry
    return out


# ------------------------------------------------------------ Megatron's side

def without_writers():
    """The ranks write their files themselves, by the same function as the processes that they
    would start for it: to start those takes longer than all else."""
    import queue
    from megatron.core.dist_checkpointing.strategies import filesystem_async as module
    writer, held = module.FileSystemWriterAsync, queue.Queue()

    class Count(queue.Queue):
        def get(self, *args, **kwargs):
            return None

        def task_done(self):
            pass

    def write(transforms, use_msc, rank, buckets, results):
        found = {}
        for i, bucket in enumerate(buckets):
            one = queue.Queue()
            writer.write_preloaded_data(transforms, local_proc_idx=i, write_bucket=bucket,
                                        results_queue=one, count_queue=Count(), use_fsync=False)
            found[i] = one.get_nowait()[1]
            if isinstance(found[i], Exception):
                raise found[i]
        results.put(found)
    for name in ("write_preloaded_data_multiproc", "write_preloaded_data_multithread"):
        if hasattr(writer, name):
            setattr(writer, name, staticmethod(write))
    for name in ("_get_write_results_queue", "get_write_results_queue"):
        if hasattr(module, name):
            setattr(module, name, lambda *args: held)
    try:
        from megatron.core.dist_checkpointing.strategies import base
    except ImportError:
        return
    base.AsyncSaveShardedStrategy.save = lambda self, sd, at: self.async_save(sd, at).execute_sync()


def with_options(more):
    """The classes of configurations take these options too, or instead of those that are given."""
    from megatron.core.transformer import transformer_config as module
    for name in ("TransformerConfig", "MLATransformerConfig"):
        kind = getattr(module, name)

        def made(kind=kind, **given):
            config = kind(**{**given, **more})
            config.sequence_parallel = False  # required with experts, refused by plain norms
            return config
        setattr(module, name, made)


def build(g, case):
    """The model of this rank and the number of experts."""
    import torch
    from megatron.core import parallel_state as ps
    from megatron.core.models.gpt import GPTModel
    c, more = case["hf"], {}
    if case["cut"]:
        more["num_layers_in_first_pipeline_stage"] = case["cut"]
    if case["form"] == "fp32":
        more.update(bf16=False, params_dtype=torch.float32, pipeline_dtype=torch.float32)
    if c["model_type"] in MOE and case["tp"] > 1:
        more["sequence_parallel"] = True
    if c["model_type"] == "qwen2_moe":
        more.update(add_qkv_bias=True, moe_shared_expert_gate=True,
                    moe_shared_expert_intermediate_size=c["shared_expert_intermediate_size"])
    if "mtp" in case["words"]:
        more["mtp_num_layers"] = 1
    with_options(more)
    config, spec, experts = g.transformer(c, case)
    kwargs = {}
    if "mtp" in case["words"]:
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_mtp_block_spec
        kwargs["mtp_block_spec"] = get_gpt_mtp_block_spec(config, spec,
                                                          use_transformer_engine=False)
    model = GPTModel(config, spec, vocab_size=g.padded_vocab(c, case["tp"]), max_sequence_length=64,
                     pre_process=ps.is_pipeline_first_stage(),
                     post_process=ps.is_pipeline_last_stage(),
                     share_embeddings_and_output_weights=c["tie_word_embeddings"],
                     position_embedding_type="rope", **kwargs)
    return model if case["form"] == "fp32" else model.bfloat16(), config, experts


def buckets_of(ddp, model, global_name, local_shape):
    """The contents of this rank's buffers: names, starts and shapes in each bucket."""
    names = {p: n for n, p in model.named_parameters()}
    out = []
    for kind in ("buffers", "expert_parallel_buffers"):
        for number, buffer in enumerate(getattr(ddp, kind)):
            held = []
            for i, bucket in enumerate(buffer.buckets):
                inside = [(s - bucket.offset, global_name(names[p]), local_shape(p))
                          for p, (s, _, b) in buffer.param_index_map.items() if b == i]
                held.append({"numel_unpadded": bucket.numel_unpadded,
                             "numel": bucket.grad_data.numel(), "params": sorted(inside)})
            out.append({"kind": kind, "gbuf_idx": number, "param_dtype": str(buffer.param_dtype),
                        "grad_dtype": str(buffer.grad_dtype), "buckets": held,
                        "registered": [global_name(names[p]) for p in buffer.params]})
    return out


def worker(rank, world, g, case, folder, port):
    import numpy as np
    import torch
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    seed, c, tp, ep = case["seed"], case["hf"], case["tp"], case["ep"]
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import dist_checkpointing
    from megatron.core import parallel_state as ps
    from megatron.core.dist_checkpointing.mapping import ShardedObject
    ps.initialize_model_parallel(tp, case["pp"], expert_model_parallel_size=ep)
    model, config, experts = build(g, case)
    ep_rank, tp_rank = ps.get_expert_model_parallel_rank(), ps.get_tensor_model_parallel_rank()
    pp_rank, dp_rank = ps.get_pipeline_model_parallel_rank(), ps.get_data_parallel_rank()
    experts_here = experts // ep if experts else 0
    named = lambda name: g.global_name(name, model, ep_rank, experts_here)
    shapes = hf_shapes(g, c)
    dtype = torch.float32 if case["form"] == "fp32" else torch.bfloat16

    def fill(name, target, tensors, p):
        full = megatron_full(g, c, tensors, named(name), tp, seed)
        target.copy_(g.local_part(full, name, p, tp, tp_rank))
    with torch.no_grad():
        values = {n: g.values(seed, n, s) for n, s in shapes.items()}
        for name, p in model.named_parameters():
            fill(name, p, values, p)
        for name, b in model.named_buffers():
            if name.endswith("expert_bias"):
                b.data = b.data.float()  # the router keeps it in float32
                fill(name, b, values, b)
    metadata, sharding = dict(case["metadata"]), case["form"]
    optimizer = ddp = None
    if case["form"]:
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
        distributed = sharding not in ("plain", "fp32")
        if distributed:
            metadata["distrib_optim_sharding_type"] = sharding
        if "prefix" not in case["words"]:
            metadata["chained_optim_avoid_prefix"] = True
        setup = DistributedDataParallelConfig(
            use_distributed_optimizer=distributed, overlap_grad_reduce="overlap" in case["words"],
            bucket_size=case["bucket_size"], grad_reduce_in_fp32="gradf32" in case["words"])
        ddp = DistributedDataParallel(config, setup, model)
        adam = OptimizerConfig(
            optimizer="adam", lr=g.LR, weight_decay=g.DECAY, adam_beta1=g.BETAS[0],
            adam_beta2=g.BETAS[1], adam_eps=g.EPS, bf16=dtype == torch.bfloat16, params_dtype=dtype,
            use_distributed_optimizer=distributed, clip_grad=0.0)
        optimizer = get_megatron_optimizer(adam, [ddp])

    def train(step):
        ddp.zero_grad_buffer()
        grads = {n: g.values(seed + step, n + ".grad", s) for n, s in shapes.items()}
        for name, p in model.named_parameters():
            fill(name, p.main_grad, grads, p)
            # Experts of one rank of data parallelism: Megatron divides by all of its ranks.
            if "local_experts" in name and distributed_scale != 1:
                p.main_grad.mul_(distributed_scale)
        if ddp.ddp_config.overlap_grad_reduce:
            for group in ddp.bucket_groups + ddp.expert_parallel_bucket_groups:
                group.is_last_microbatch = True
            ddp.start_grad_sync()
        ddp.finish_grad_sync()
        optimizer.step()
    distributed_scale = ep if case["form"] else 1

    def save(sd, *where):
        at = os.path.join(folder, *where)
        if rank == 0:
            os.makedirs(at, exist_ok=True)
        torch.distributed.barrier()
        if "content_metadata" in dist_checkpointing.save.__code__.co_varnames:
            content = {k: v for k, v in metadata.items() if k != "dp_cp_group"}
            dist_checkpointing.save(sd, at, content_metadata=content)
        else:
            dist_checkpointing.save(sd, at)

    def states():
        if case["layout"] in ("lm", "nemo", "bridge", "release", "named"):
            metadata["dp_cp_group"] = ps.get_data_parallel_group(with_context_parallel=True)
        parts = {"model": model.sharded_state_dict(metadata=dict(metadata) or None)}
        if case["names"] == "te":  # its modules leave extra objects
            key, n = "core_attention._extra_state", c["num_hidden_layers"]
            for layer in model.decoder.layers:
                at = layer.layer_number - 1
                stacked = c["model_type"] != "deepseek_v3" and "numbered" not in case["words"]
                name = f"decoder.layers.{'' if stacked else f'{at}.'}self_attention.{key}"
                parts["model"][f"decoder.layers.{at}.{key}"] = ShardedObject(
                    name, io.BytesIO(b"not for reading"), (n,) if stacked else (1,),
                    (at,) if stacked else (0,), replica_id=(0, tp_rank, dp_rank))
        if optimizer:
            kwargs = {"metadata": dict(metadata)}
            if case["mcore"] == "0.13":
                kwargs = {"sharding_type": sharding} if distributed else {}
            parts["optimizer"] = optimizer.sharded_state_dict(parts, **kwargs)
        return parts

    numbers = {"random_rng_state": random.getstate(), "np_rng_state": np.random.get_state(),
               "torch_rng_state": torch.get_rng_state()} if "rng" in case["words"] else {
               "random_rng_state": (3, (1, 2, 3), None), "np_rng_state": ("MT19937", 7),
               "torch_rng_state": torch.zeros(16, dtype=torch.uint8)}
    rng = [{**numbers, "cuda_rng_state": torch.zeros(16, dtype=torch.uint8),
            "rng_tracker_states": {}}]
    rng_state = ShardedObject("rng_state", rng, (case["pp"], tp), (pp_rank, tp_rank),
                              replica_id=ps.get_data_parallel_rank(with_context_parallel=True))
    scheduler = {"max_lr": g.LR, "lr_warmup_steps": 0, "num_steps": 8, "lr_decay_style": "constant",
                 "lr_decay_steps": 100, "min_lr": 0.0, "start_wd": g.DECAY, "end_wd": g.DECAY,
                 "wd_incr_style": "constant", "wd_incr_steps": 100}

    def save_all(step):
        parts, layout = states(), case["layout"]
        if layout in ("lm", "release", "named"):
            where = "release" if layout == "release" else f"iter_{step:07d}"
            save({"args": arguments(g, case, experts, step), "checkpoint_version": 3.0,
                  "iteration": step, **parts, "opt_param_scheduler": scheduler,
                  "num_floating_point_operations_so_far": 1234.0, "rng_state": rng_state}, where)
        elif layout == "verl1":
            save({**parts, "lr_scheduler": scheduler, "rng_state": rng_state}, "dist_ckpt")
        elif layout == "verl2":
            save({"model": parts["model"]}, "model", "dist_ckpt")
            if optimizer:
                save({"optimizer": parts["optimizer"], "lr_scheduler": scheduler}, "optimizer",
                     "dist_ckpt")
            save({"rng_state": rng_state}, "extra", "dist_ckpt")
        else:
            where = (f"step_{step}/policy/weights/iter_0000000" if layout == "nemo"
                     else f"iter_{step:07d}")
            save({"checkpoint_version": 3.0, "iteration": 0 if layout == "nemo" else step, **parts,
                  "opt_param_scheduler": scheduler, "rng_state": rng_state}, where)
    if not case["form"]:
        save_all(case["steps"])
    for step in range(case["steps"] if case["form"] else 0):
        train(step)
        if "saves" in case["words"] or step + 1 == case["steps"]:
            save_all(step + 1)
    if case["form"] == "dp_reshardable":
        here = {"pp_rank": pp_rank, "tp_rank": tp_rank, "ep_rank": ep_rank, "dp_rank": dp_rank,
                "buffers": buckets_of(ddp, model, named, lambda p: list(p.shape))}
        if hasattr(optimizer, "chained_optimizers"):
            here["dp_group_idx"] = [o.data_parallel_group_idx for o in optimizer.chained_optimizers]
            here["dp_ranks"] = [torch.distributed.get_process_group_ranks(o.data_parallel_group)
                                for o in optimizer.chained_optimizers]
        all_of = [None] * world
        torch.distributed.all_gather_object(all_of, here)
        if rank == 0:
            with open(folder + ".orders", "w", encoding="utf-8") as file:
                json.dump(all_of, file)
    if rank == 0:
        finish(g, case, folder, world)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def arguments(g, case, experts, step):
    a = g.arguments(case["hf"], case, experts)
    c = case["hf"]
    a.iteration, a.make_vocab_size_divisible_by = step, case["divisible"]
    a.use_distributed_optimizer = case["form"] not in (None, "plain", "fp32")
    a.bf16 = case["form"] != "fp32"
    import torch
    a.params_dtype = torch.bfloat16 if a.bf16 else torch.float32
    if c["model_type"] == "qwen2_moe":
        a.add_qkv_bias, a.moe_shared_expert_gate = True, True
        a.moe_shared_expert_intermediate_size = c["shared_expert_intermediate_size"]
    if c["model_type"] == "deepseek_v3":
        a.moe_shared_expert_intermediate_size = c["moe_intermediate_size"] * c["n_shared_experts"]
    if "mtp" in case["words"]:
        a.mtp_num_layers = 1
    if case["cut"]:
        a.decoder_first_pipeline_num_layers = case["cut"]
    return a


def run_config(g, case, experts):
    """run_config.yaml as Megatron-Bridge writes it, of what says what a model is."""
    a, c = vars(arguments(g, case, experts, case["steps"])), case["hf"]
    plain = lambda name: {"_target_": name, "_call_": False}
    kind = ARCHITECTURES[c["model_type"]]
    model = {key: a[key] for key in (
        "add_bias_linear", "add_qkv_bias", "ffn_hidden_size", "hidden_size", "kv_channels",
        "make_vocab_size_divisible_by", "mtp_num_layers", "normalization", "num_attention_heads",
        "num_layers", "num_query_groups", "position_embedding_type", "qk_layernorm",
        "tensor_model_parallel_size", "pipeline_model_parallel_size",
        "expert_model_parallel_size", "moe_ffn_hidden_size", "multi_latent_attention")}
    model.update({
        "_target_": f"megatron.bridge.models.gpt_provider.{kind}ModelProvider",
        "activation_func": plain("torch.nn.functional.silu"), "gated_linear_unit": True,
        "bf16": True, "generation_config": None, "hf_model_id": None,
        "layernorm_epsilon": c["rms_norm_eps"],
        "num_moe_experts": experts or None, "params_dtype": plain("torch.bfloat16"),
        "seq_length": 64,
        "share_embeddings_and_output_weights": c["tie_word_embeddings"],
        "should_pad_vocab": True, "vocab_size": c["vocab_size"]})
    return {"_target_": "megatron.bridge.training.config.ConfigContainer",
            "checkpoint": {"_target_": "megatron.bridge.training.config.CheckpointConfig",
                           "ckpt_format": "torch_dist", "save": "checkpoints", "save_optim": True},
            "ddp": {"_target_": "megatron.bridge.training.config.DistributedDataParallelConfig",
                    "bucket_size": None, "use_distributed_optimizer": True},
            "model": model,
            "optimizer": {"_target_": "megatron.core.optimizer.OptimizerConfig", "lr": g.LR,
                          "adam_beta1": g.BETAS[0], "adam_beta2": g.BETAS[1], "optimizer": "adam"}}


def finish(g, case, folder, world):
    """The files next to distributed checkpoints."""
    import torch
    import yaml
    layout, steps = case["layout"], case["steps"]

    def write(path, text):
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)
    kind = "float32" if case["form"] == "fp32" else "bfloat16"
    config = json.dumps({**case["hf"], "torch_dtype": kind}, indent=1) + "\n"
    experts = next((case["hf"][k] for k in ("num_local_experts", "num_experts", "n_routed_experts")
                    if k in case["hf"]), 0)
    if layout in ("lm", "verl1", "verl2"):
        g.finish_layout(folder, layout, {**case, "hf": {**case["hf"]}}, world)
        if layout == "verl2" and not case["form"]:
            path = os.path.join(folder, "ckpt_contents.json")
            with open(path, encoding="utf-8") as file:
                said = json.load(file)
            said["save_contents"] = ["model", "extra"]
            del said["contents"]["optimizer"], said["contents"]["lr_scheduler"]
            write("ckpt_contents.json", json.dumps(said, indent=2) + "\n")
        if layout == "lm":
            write("config.json", config)
    elif layout == "release":
        write("latest_checkpointed_iteration.txt", "release")
        write("config.json", config)
    elif layout == "named":
        write("latest_checkpointed_iteration.txt", str(steps))
        write(f"iter_{steps:07d}/config.json", config)
    else:
        at = (f"step_{steps}/policy/weights/iter_0000000" if layout == "nemo"
              else f"iter_{steps:07d}")
        write(at + "/run_config.yaml", yaml.safe_dump(run_config(g, case, experts)))
        state = {"step": torch.tensor(0 if layout == "nemo" else steps, dtype=torch.int32),
                 "consumed_train_samples": torch.tensor(8, dtype=torch.int32),
                 "skipped_train_samples": torch.tensor(0, dtype=torch.int32),
                 "consumed_valid_samples": torch.tensor(0, dtype=torch.int32),
                 "floating_point_operations_so_far": torch.tensor(1234.0, dtype=torch.float64),
                 "do_train": torch.tensor(False), "do_valid": torch.tensor(False),
                 "do_test": torch.tensor(False)}
        torch.save(state, os.path.join(folder, at, "train_state.pt"))
        root = f"step_{steps}/policy/weights/" if layout == "nemo" else ""
        torch.save(state, os.path.join(folder, root + "latest_train_state.pt"))
        write(root + "latest_checkpointed_iteration.txt", "0" if layout == "nemo" else str(steps))
        if layout == "nemo":
            write(f"step_{steps}/training_info.json", json.dumps({"step": steps}))
            write(f"step_{steps}/config.yaml", yaml.safe_dump(
                {"policy": {"megatron_cfg": {"enabled": True, "pipeline_model_parallel_size":
                                             case["pp"]}, "model_name": "none"}}))
            write(f"step_{steps}/policy/tokenizer/tokenizer_config.json", "{}\n")
            write(f"step_{steps}/config.json", config)
        else:
            write("config.json", config)


# ------------------------------------------------------------ the second check

def checkpoints_of(folder):
    return sorted(at for at, _, files in os.walk(folder) if "metadata.json" in files)


def witness(folder, generator):
    """Megatron's own loader and the reader of the chunks find the same in every key."""
    import torch
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0,
                                         world_size=1)
    from megatron.core import dist_checkpointing
    sys.path.insert(0, generator)
    import check_megatron
    for at in checkpoints_of(folder):
        reader = check_megatron.Checkpoint(at)
        loaded = dist_checkpointing.load_plain_tensors(at)
        loaded = {key: value for key, value in loaded.items() if isinstance(value, torch.Tensor)}
        assert set(loaded) == set(reader.items), (at, set(loaded) ^ set(reader.items))
        for key, tensor in loaded.items():
            found = reader.tensor(key)
            tensor = tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor
            if found.shape != tuple(tensor.shape):  # 0.15 has flat fragments as whole tensors
                whole = reader.items[key.split(".", 3)[3]].size
                found = check_megatron.unflatten(reader, key, whole)
                assert tuple(tensor.shape) == (found.size,), key
            assert tensor.numpy().tobytes() == found.tobytes(), key
        with open(os.path.join(at, ".metadata"), "rb") as file:
            meta = file.read()
        assert os.getcwd().encode() not in meta, f"{at}: .metadata keeps the folder of this run"
    torch.distributed.destroy_process_group()


# ------------------------------------------------------------ making them

def load_generator(folder):
    import importlib.util
    spec = importlib.util.spec_from_file_location(
        "make_megatron", os.path.join(folder, "make_megatron.py"))
    generator = importlib.util.module_from_spec(spec)
    sys.modules["make_megatron"] = generator
    spec.loader.exec_module(generator)
    return generator


def apart(work):
    """Runs work() in a process of its own and ends what is left of it; its error in words."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        said = "the process ended"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                work()
            said = ""
        except BaseException as error:  # SystemExit too
            where = traceback.extract_tb(error.__traceback__)[-1]
            traceback.print_exc()
            said = (f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]} "
                    f"({os.path.basename(where.filename)}:{where.lineno})")
        finally:
            os.write(sender, said.encode()[:4096])
            os._exit(0)
    os.close(sender)
    ready, _, _ = select.select([receiver], [], [], TIMEOUT)
    said = os.read(receiver, 4096).decode() if ready else f"no end after {TIMEOUT} seconds"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(receiver)
    return said


def make_one(g, seed, folder):
    import torch.multiprocessing as mp
    case = case_of(seed)
    g.DIVISIBLE_BY, g.STEPS = case["divisible"], case["steps"]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    os.chdir(folder)  # a relative path: .metadata keeps it
    os.mkdir("run")
    world = case["tp"] * case["pp"] * case["dp"]
    mp.start_processes(worker, args=(world, g, case, "run", port), nprocs=world,
                       start_method="fork")
    orders = None
    if os.path.exists("run.orders"):
        with open("run.orders", encoding="utf-8") as file:
            orders = json.load(file)
        os.remove("run.orders")
    form = {"plain": "Float16", "fp32": "FP32"}.get(case["form"], case["form"])
    expected = {"folder": folder_of(case), "what": what_of(case), "config": case["hf"],
                "release": case["release"], **{k: case[k] for k in ("tp", "pp", "ep", "dp")},
                "optimizer": form, "steps": case["steps"] if form else None,
                "layout": case["layout"], "words": case["words"],
                "padded_vocab_size": g.padded_vocab(case["hf"], case["tp"]),
                "tensors": expect(g, case, case["steps"]), "orders": orders}
    with open("expected.json", "w", encoding="utf-8") as file:
        json.dump(expected, file)


def warm_up(g):
    """Everything that a rank imports is imported once."""
    import torch
    torch.set_num_threads(1)
    g.cpu_only()
    import megatron.core.dist_checkpointing  # noqa: F401
    import megatron.core.distributed  # noqa: F401
    import megatron.core.models.gpt  # noqa: F401
    import megatron.core.optimizer  # noqa: F401
    import megatron.core.models.gpt.gpt_layer_specs  # noqa: F401
    without_writers()


def make(plan, given):
    g = load_generator(given.generator)
    warm_up(g)
    with open(plan, encoding="utf-8") as file:
        lines = [shlex.split(line) for line in file]
    for seed, folder in lines:
        folder = os.path.abspath(folder)
        for _ in range(2):  # a gloo process may hang
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            failed = apart(lambda: make_one(g, int(seed), folder))
            if not failed:
                failed = apart(lambda: os.chdir(folder) or witness("run", given.generator))
                failed = failed and "witness: " + failed
            if "no end after" not in failed:
                break
        print(f"{seed}: {failed or 'made'}", flush=True)
        if failed:
            with open(os.path.join(folder, "failed"), "w", encoding="utf-8") as file:
                file.write(failed)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--make", required=True)
    parser.add_argument("--generator", required=True)
    given = parser.parse_args()
    make(given.make, given)


if __name__ == "__main__":
    main()
