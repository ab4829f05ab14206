"""Whether the trainers load runs of FSDP rank files: a gloo process for each rank builds the model
of a case of testdata/rank_files as EasyR1 or verl does, loads it with that trainer's own calls and
takes the next step. Weights and moments, gathered by torch, have the digests of expected.json.

    fsdp_loads.py [--expected FILE] CASE RUN RANKS [OPTION...]
    fsdp_loads.py [--expected FILE] --plan FILE      many of them: a line each, torch starts once

RANKS is their number, or COPIESxSHARDS. The options of the case say how its trainer was set up; an
OPTION given here goes after them: --style verl --fsdp 2 for a run that was brought into that form,
--original for one as the trainer left it, whose storages may name a GPU.

One line for each, and exit 1 where anything differs. What is not loaded stays NaN. fsdp_loads.sh
cuts runs with nxd-convert and has this program load them under several releases of torch.
"""
import argparse
import datetime
import functools
import hashlib
import json
import logging
import os
import random
import shlex
import sys
import tempfile
import time
import warnings
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint.state_dict as dcs  # noqa: E402
import torch.distributed.fsdp as fsdp  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
import transformers  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import wrap as wraps  # noqa: E402

import dcp_models  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = os.path.join(HERE, "..", "..", "testdata", "rank_files", "expected.json")
STEP = 2  # in every case
KAHAN = ("exp_avg", "exp_avg_sq", "compensation")  # the state of EasyR1's adamw_bf16, in bf16
# Values of a mesh that exist only in memory, or depend on the machine; _hash belongs to the writing
# process.
OF_PROCESS = ("device_type", "_device_type", "_hash", "_thread_id")
# A run in another form than the case's uses that trainer's kernels and order of parameters.
OF_FORM = ("fused", "foreach", "capturable", "params")


# ------------------------------------------------------------ the cases

def parse_options(words):
    """The options of make_rank_files.py, as far as config.json in the run does not say the same."""
    parser = argparse.ArgumentParser(prog="OPTION", allow_abbrev=False)
    parser.add_argument("--style", choices=["verl", "easyr1"], default="verl")
    parser.add_argument("--fsdp", type=int, choices=[1, 2], default=2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--role", default="actor")
    parser.add_argument("--lora", choices=["full", "only"])
    parser.add_argument("--freeze", default="")
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--placement", choices=["first", "divisible"], default="first")
    parser.add_argument("--optimizer", choices=["adamw", "adamw_bf16"], default="adamw")
    parser.add_argument("--seed", type=int)
    for name in ("buffers", "orig-params", "mixed", "model-only", "original"):
        parser.add_argument("--" + name, action="store_true")
    for name in ("world", "mesh", "label", "family", "vocab", "intermediate"):
        parser.add_argument("--" + name)
    for name in ("tied", "dataloader", "no-mesh", "tp"):
        parser.add_argument("--" + name, action="store_true")
    return parser.parse_args(words)


def job_of(words, table):
    case, run, ranks, *more = words
    expected = table[case]
    own = parse_options(shlex.split(expected["options"]))
    o = parse_options(shlex.split(expected["options"]) + more)
    o.same_form = (o.style, o.fsdp) == (own.style, own.fsdp)
    o.shape = tuple(int(n) for n in ranks.split("x"))
    o.world = int(np.prod(o.shape))
    o.name = f"{case} {'x'.join(map(str, expected['mesh']))} -> {' '.join([ranks, *more])}"
    o.folder = os.path.join(run, f"global_step_{named_step(run, o)}", o.role)
    return o, expected


def named_step(run, o):
    """Where the trainer looks for its newest checkpoint."""
    if o.style == "easyr1":
        with open(os.path.join(run, "checkpoint_tracker.json")) as file:
            return json.load(file)["last_global_step"]
    with open(os.path.join(run, "latest_checkpointed_iteration.txt")) as file:
        return int(file.read())


# ------------------------------------------------------------ the run to be resumed

def rule(seed, name, like):
    """The values of all fixtures: a function of the seed, the name and the element's number."""
    shape, n = tuple(like.shape), int(np.prod(like.shape))
    with np.errstate(over="ignore"):
        key = (zlib.crc32(name.encode()) << 16) ^ ((seed * 0x9E3779B1) & 0xFFFFFFFF)
        x = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    sign, exponent = x & np.uint64(1), np.uint64(112) + (x >> np.uint64(1)) % np.uint64(12)
    bits = np.uint64(16 if like.dtype == torch.bfloat16 else 32)
    fraction = bits - np.uint64(9)
    mantissa = (x >> np.uint64(20)) & ((np.uint64(1) << fraction) - np.uint64(1))
    whole = (sign << (bits - np.uint64(1))) | (exponent << fraction) | mantissa
    if bits == 16:
        return torch.from_numpy(whole.astype(np.int16).reshape(shape)).view(torch.bfloat16)
    return torch.from_numpy(whole.astype(np.uint32).view(np.float32).reshape(shape))


def plain_model(o):
    """The whole model, of the run's config.json."""
    config = transformers.AutoConfig.from_pretrained(
        os.path.join(o.folder, "huggingface"), attn_implementation="eager")
    kind = "TokenClassification" if o.role == "critic" else "CausalLM"
    auto = getattr(transformers, "AutoModelFor" + kind)
    model = auto.from_config(config, attn_implementation="eager").to(getattr(torch, o.dtype))
    if o.buffers:
        for layer in model.model.layers:
            layer.register_buffer("layer_scalar", torch.zeros(1, dtype=model.dtype))
        model.model.layers[0].mlp.register_buffer("e_score_correction_bias", torch.zeros(7))
        model.model.register_buffer("num_updates", torch.tensor(0))
    if o.lora:
        model = adapted(model)
    for name, p in model.named_parameters():
        if o.freeze and o.freeze in name:
            p.requires_grad_(False)
    unload(o, model)
    return model


def adapted(model):
    import peft
    model = peft.get_peft_model(model, peft.LoraConfig(
        task_type=peft.TaskType.CAUSAL_LM, r=4, lora_alpha=8,
        target_modules=["q_proj", "v_proj", "down_proj"]))
    for p in model.parameters():
        p.data = p.data.to(torch.float32 if p.requires_grad else torch.bfloat16)
    return model


def unload(o, model):
    """NaN, but for the base of a run that saves its adapters only: it comes from elsewhere."""
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if o.lora == "only" and "lora_" not in name:
                t.copy_(rule(o.seed, name, t))
            else:
                t.fill_(float("nan") if t.is_floating_point() else -1)


def layer_classes(model):
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return {type(m) for m in model.modules() if type(m).__name__ in base._no_split_modules}


def mesh_of(o):
    names = ("fsdp",) if len(o.shape) == 1 else ("ddp", "fsdp")
    return init_device_mesh("cpu", o.shape, mesh_dim_names=names)


def trains_alone(module):
    """A leaf with a trained weight: of a model with adapters each is a unit."""
    weight = getattr(module, "weight", None)
    return weight is not None and weight.requires_grad and not list(module.children())


def fsdp1(o, model, mesh):
    policies = [functools.partial(wraps.transformer_auto_wrap_policy,
                                  transformer_layer_cls=layer_classes(model))]
    if o.lora:
        policies.append(functools.partial(wraps.lambda_auto_wrap_policy, lambda_fn=trains_alone))
    strategy = fsdp.ShardingStrategy
    strategy = strategy.HYBRID_SHARD if mesh.ndim == 2 else strategy.FULL_SHARD
    mixed = fsdp.MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32,
                                buffer_dtype=torch.float32) if o.mixed else None
    return fsdp.FullyShardedDataParallel(
        model, sharding_strategy=strategy, mixed_precision=mixed, device_mesh=mesh,
        auto_wrap_policy=functools.partial(wraps._or_policy, policies=policies),
        device_id=torch.device("cpu"), use_orig_params=o.orig_params)


def fsdp2(o, model, mesh):
    more = {}
    if o.placement == "divisible":  # in verl 0.6 and 0.7
        from torch.distributed.tensor import Shard
        more["shard_placement_fn"] = lambda p: next(
            (Shard(i) for i, n in enumerate(p.shape) if n % o.shape[-1] == 0), Shard(0))
    classes, tied = layer_classes(model), model.config.tie_word_embeddings
    for m in list(model.modules()):
        if type(m) in classes or (isinstance(m, torch.nn.Embedding) and not tied):
            fsdp.fully_shard(m, mesh=mesh, **more)
    fsdp.fully_shard(model, mesh=mesh, **more)
    return model


class KahanState(torch.optim.Optimizer):
    """Holds what adamw_bf16 saves. It takes no steps: those of bf16 round as the layout has it."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                zero = {key: torch.zeros_like(p, dtype=torch.bfloat16) for key in KAHAN}
                self.state[p] = {"step": torch.tensor(0.0), **zero}


def optimizer_of(o, model):
    """With a learning rate and options that no case has."""
    params = [p for p in model.parameters() if p.requires_grad]
    if o.groups == 2:
        params = [{"params": [p for p in params if p.dim() > 1]},
                  {"params": [p for p in params if p.dim() <= 1]}]
    if o.optimizer == "adamw_bf16":
        return KahanState(params, {"lr": 7.0})
    return torch.optim.AdamW(params, lr=7.0, betas=(0.5, 0.5), eps=0.5, weight_decay=0.5,
                             fused=True if o.style == "easyr1" else None)


class Run:
    def __init__(self, o):
        self.o, self.mesh = o, mesh_of(o)
        self.model = (fsdp1 if o.fsdp == 1 else fsdp2)(o, plain_model(o), self.mesh)
        self.optimizer = optimizer_of(o, self.model)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / 3))

    def gathered(self):
        options = dcs.StateDictOptions(full_state_dict=True)
        return dcs.get_state_dict(self.model, self.optimizer, options=options)

    def loss(self):
        """On a batch that all ranks share; None where this torch cannot run FSDP2 on a CPU."""
        if self.o.fsdp == 2 and torch.__version__.startswith("2.6."):
            return None
        vocabulary = getattr(self.model, "module", self.model).config.vocab_size
        ids = torch.arange(24).reshape(2, 12) * 7 % (vocabulary - 3) + 3
        logits = self.model(input_ids=ids).logits.float()
        if self.o.role == "critic":
            loss = (logits ** 2).mean()
        else:
            logits = logits[:, :-1].reshape(-1, logits.shape[-1])
            loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:].reshape(-1))
        loss.backward()  # FSDP1 frees the gathered parameters
        self.model.zero_grad()
        return float(loss)

    def step(self):
        """By the plain loop: what the fused kernel rounds depends on the layout."""
        set_gradients(self.o, self.model)
        for group in self.optimizer.param_groups:
            group.update({key: False for key in ("fused", "foreach")})
        self.optimizer.step()


# ------------------------------------------------------------ gradients, by the rule

def set_gradients(o, model):
    def gradient(name, like):
        return rule(o.seed, f"{name}.grad{STEP + 1}", like)

    if o.fsdp == 1:
        return flat_gradients(o, model, gradient)
    for name, p in model.named_parameters():
        if p.requires_grad:
            p.grad = dcp_models.shard(gradient(name, p), p)


def flat_gradients(o, model, gradient):
    from torch.distributed.fsdp._common_utils import _get_param_to_fqns
    from torch.distributed.fsdp._traversal_utils import _get_fsdp_handles
    names = {id(p): list(of) for p, of in _get_param_to_fqns(model).items()}
    for handle in _get_fsdp_handles(model):
        flat = handle.flat_param
        likes = [torch.empty(shape, dtype=flat.dtype, device="meta") for shape in flat._shapes]
        if o.orig_params:
            for p, info, like in zip(flat._params, flat._shard_param_infos, likes, strict=True):
                if info.in_shard:
                    whole = gradient(names[id(p)][0], like).reshape(-1)
                    p.grad = whole[info.intra_param_start_idx:info.intra_param_end_idx + 1].clone()
        elif flat.requires_grad:
            flat.grad = flat_gradient(handle, map(gradient, names[id(flat)], likes))


def flat_gradient(handle, parts):
    """This rank's slice of a unit's gradient: those of its parameters, and padding among them."""
    flat = handle.flat_param
    whole = torch.cat([
        torch.zeros(n, dtype=flat.dtype) if padding else next(parts).reshape(-1)
        for n, padding in zip(flat._numels_with_padding, flat._is_padding_mask, strict=True)])
    if not handle.uses_sharded_strategy:
        return whole
    return handle._get_shard(whole, handle.rank, handle.world_size)[0]


# ------------------------------------------------------------ as the trainers load

class Files:
    """The files of one rank. Their meshes become those of this machine, which has no GPU."""

    def __init__(self, o, rank, mesh):
        self.o, self.rank, self.mesh = o, rank, mesh
        self.devices, self.lines = set(), []

    def read(self, kind):
        name = f"{kind}_world_size_{self.o.world}_rank_{self.rank}.pt"
        there = "cpu" if self.o.original else None
        state = torch.load(os.path.join(self.o.folder, name), map_location=there,
                           weights_only=False)
        for mesh in {id(mesh): mesh for mesh in meshes(state)}.values():
            key = "device_type" if "device_type" in vars(mesh) else "_device_type"
            self.devices.add(getattr(mesh, key))
            setattr(mesh, key, "cpu")
            self.lines += differ_options(f"{kind}'s mesh", vars(mesh), mesh_state(self.mesh))
        return state


def meshes(state):
    if isinstance(state, dict):
        for value in state.values():
            yield from meshes(value)
    elif hasattr(state, "_spec"):
        yield state._spec.mesh


def mesh_state(mesh):
    return {key: lists(value) for key, value in vars(mesh).items() if key not in OF_PROCESS}


def load_easyr1(files, run):
    model, options = files.read("model"), dcs.StateDictOptions(cpu_offload=True)
    if files.o.model_only:
        dcs.set_model_state_dict(run.model, model, options=options)
        return
    dcs.set_state_dict(model=run.model, optimizers=run.optimizer, model_state_dict=model,
                       optim_state_dict=files.read("optim"), options=options)


def load_verl_fsdp1(files, run):
    with fsdp.FullyShardedDataParallel.state_dict_type(
            run.model, fsdp.StateDictType.SHARDED_STATE_DICT,
            fsdp.ShardedStateDictConfig(offload_to_cpu=True),
            fsdp.ShardedOptimStateDictConfig(offload_to_cpu=True)):
        load_verl_fsdp2(files, run)


def load_verl_fsdp2(files, run):
    run.model.load_state_dict(files.read("model"), strict=files.o.lora != "only")
    if not files.o.model_only:
        run.optimizer.load_state_dict(files.read("optim"))


def load_extra(files, run):
    """Whether the rank has a random state, and what is wrong with it."""
    extra = files.read("extra_state")
    run.scheduler.load_state_dict(extra["lr_scheduler"])
    if "rng" not in extra:
        return False, []
    torch.set_rng_state(extra["rng"]["cpu"])
    np.random.set_state(extra["rng"]["numpy"])
    random.setstate(extra["rng"]["random"])
    own = torch.Generator().manual_seed(files.o.seed * 1000 + files.rank).get_state()
    same = torch.equal(extra["rng"]["cpu"], own)
    return True, [] if same else ["the random state of another rank"]


def load(files, run):
    o = files.o
    {("easyr1", 1): load_easyr1, ("easyr1", 2): load_easyr1, ("verl", 1): load_verl_fsdp1,
     ("verl", 2): load_verl_fsdp2}[o.style, o.fsdp](files, run)
    return (False, []) if o.model_only else load_extra(files, run)


# ------------------------------------------------------------ actual and expected

def entry(t):
    t = t.detach().contiguous()
    data = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return {"dtype": str(t.dtype)[6:], "shape": list(t.shape),
            "sha256": hashlib.sha256(data).hexdigest()[:24]}


def moment(value):
    if value.dim() == 0:
        return {"value": float(value), "dtype": str(value.dtype)[6:]}
    return entry(value)


def differ(what, found, expected):
    return [f"{what} {key}: {found.get(key)}, expected {expected.get(key)}"
            for key in sorted(found.keys() | expected.keys())
            if found.get(key) != expected.get(key)]


def lists(value):
    """As JSON has it: tuples and tensors are lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [lists(one) for one in value] if isinstance(value, (tuple, list)) else value


def differ_options(what, found, expected, but=()):
    """A later torch has options beside those of the file."""
    return [f"{what} {key}: {found.get(key)}, expected {value}" for key, value in expected.items()
            if key not in but and lists(found.get(key)) != value]


def check_optimizer(o, run, found, expected):
    wanted = expected["optimizer"]
    state = {name: {key: moment(t) for key, t in of.items()} for name, of in found["state"].items()}
    lines = [line for name in sorted(state.keys() | wanted["state"].keys())
             for line in differ(name, state.get(name, {}), wanted["state"].get(name, {}))]
    if len(found["param_groups"]) != len(wanted["param_groups"]):
        lines.append(f"{len(found['param_groups'])} groups, not {len(wanted['param_groups'])}")
    for i, (a, b) in enumerate(zip(found["param_groups"], wanted["param_groups"])):
        lines += differ_options(f"group {i}", a, b, () if o.same_form else OF_FORM)
        if sorted(a["params"]) != sorted(b["params"]):
            lines.append(f"group {i} has other parameters")
    return lines + differ_options("scheduler", run.scheduler.state_dict(), expected["lr_scheduler"])


def check_next(o, run, expected):
    loss, wanted = run.loss(), expected["next"]["loss"]
    lines = []
    if loss is not None and wanted is not None and not abs(loss - wanted) <= 1e-5:
        lines.append(f"loss {loss}, expected {wanted}")
    if o.model_only or o.optimizer == "adamw_bf16":
        return lines, False
    run.step()
    found = {name: entry(t)["sha256"] for name, t in run.gathered()[0].items()}
    return lines + differ("next step", found, expected["next"]["weights"]), True


def resume(o, expected, rank):
    """The differences that this rank finds, and facts about its files."""
    run = Run(o)
    files = Files(o, rank, run.mesh)
    rng, lines = load(files, run)
    weights, state = run.gathered()
    lines += differ("weight", {name: entry(t) for name, t in weights.items()}, expected["model"])
    if not o.model_only:
        lines += check_optimizer(o, run, state, expected)
    more, stepped = check_next(o, run, expected)
    return {"lines": files.lines + lines + more, "weights": len(weights), "stepped": stepped,
            "rng": rng, "devices": sorted(files.devices)}


# ------------------------------------------------------------ processes

def work(rank, o, expected, folder):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # gloo prints a greeting
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                            world_size=o.world, timeout=datetime.timedelta(seconds=120))
    result = resume(o, expected, rank)
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(result, file)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # a thread of torch's may abort at exit


def results(o, expected):
    """The results of each rank. The processes are forks: none imports torch again or sees an earlier job."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(work, args=(o, expected, folder), nprocs=o.world, start_method="fork")
        found = []
        for rank in range(o.world):
            with open(f"{folder}/{rank}.json") as file:
                found.append(json.load(file))
        return found


def differences(found):
    ranks = {}
    for rank, one in enumerate(found):
        for line in one["lines"]:
            ranks.setdefault(line, []).append(rank)
    return [f"  {line} (ranks {', '.join(map(str, of))})" for line, of in ranks.items()]


def run_job(words, table):
    start = time.monotonic()
    o = None
    try:
        o, expected = job_of(words, table)
        found = results(o, expected)
    except Exception as error:
        print(error, file=sys.stderr)
        last = str(error).strip().splitlines()[-1:]
        print(f"{o.name if o else ' '.join(words)}: FAILED: {' '.join(last)[:300]}", flush=True)
        return False
    lines = differences(found)
    facts = [f"{found[0]['weights']} tensors", "next step" if found[0]["stepped"] else "no step",
             f"random state on {sum(one['rng'] for one in found)} of {o.world} ranks",
             f"meshes {'/'.join(found[0]['devices']) or 'none'}",
             f"{time.monotonic() - start:.1f} s"]
    outcome = f"{len(lines)} DIFFER" if lines else "equal"
    print("\n".join([f"{o.name}: {outcome}: {', '.join(facts)}", *lines[:20]]), flush=True)
    return not lines


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--expected", default=EXPECTED)
    parser.add_argument("--plan")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if bool(given.plan) == bool(given.words):
        parser.error("CASE RUN RANKS, or --plan FILE")
    jobs = [given.words]
    if given.plan:
        with open(given.plan) as file:
            jobs = [words for words in (shlex.split(line) for line in file) if words]
    with open(given.expected) as file:
        table = json.load(file)
    transformers.logging.set_verbosity_error()
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    for name in ("Llama", "Qwen2", "Qwen3"):  # before the forks
        getattr(transformers, name + "ForCausalLM")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}", flush=True)
    good = [run_job(words, table) for words in jobs]
    if not all(good):
        print(f"{good.count(False)} of {len(good)} differ or fail")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
