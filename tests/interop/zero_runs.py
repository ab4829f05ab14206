"""Forty tiny ZeRO folders by seed, saved by real engines of DeepSpeed, and what the engines held.

options_of() draws the stage, the ranks, the dtype, the model and what is odd about a run;
make_run() makes it in a folder and returns what is true of it. Needs deepspeed, torch, transformers
and make_deepspeed.py, the generator of the smaller fixtures, whose functions are used.

Weights and moments are asked of the live engine (safe_get_full_fp32_param and others). In stages 1
and 2 they are also put together from the flat partitions in the order that the engine itself keeps
(round_robin_bit16_groups): that is taken, for the engine's answers are wrong in some runs. Each is
proved twice: the master must round to the model's own weight, and the moments must be near those
that Adam makes of the gradients, which hooks on the parameters collect from all ranks.
"""
import argparse
import collections
import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")

SEEDS = range(1, 41)
TIMEOUT = 240  # seconds, for what takes three
Z = "zero_optimization"
FAMILIES = ("llama", "qwen2", "qwen3")
BUILT = ("FusedAdam", "DeepSpeedCPUAdam")  # deepspeed compiles these on first use
FLOATS = {"f32": "float32", "bf16": "bfloat16", "fp16": "float16"}
STAGES = {**dict.fromkeys(range(1, 4), 0), **dict.fromkeys(range(4, 16), 1),
          **dict.fromkeys(range(16, 28), 2), **dict.fromkeys(range(28, 41), 3)}
# Replaces the random draws of a seed: rare cases that must be covered.
FIXED = {
    1: {"dtype": "f32", "ranks": 2, "groups": 3},
    2: {"dtype": "bf16", "ranks": 2, "groups": 2},
    3: {"dtype": "fp16", "ranks": 3, "groups": 2, "scale": {"loss_scale": 1},
        "optimizer": "FusedAdam"},
    4: {"dtype": "bf16", "ranks": 3, "optimizer": "FusedAdam", "groups": 2},
    5: {"dtype": "bf16", "ranks": 3, "accumulate": True},
    6: {"model": "odd", "dtype": "f32", "ranks": 3, "client": "objects"},
    7: {"dtype": "f32", "ranks": 3, "groups": 2, "zero": {"round_robin_gradients": True}},
    8: {"ranks": 4, "zero": {"parameter_alignment": True}},
    9: {"dtype": "bf16", "ranks": 3, "universal": "alone", "groups": 2},
    10: {"dtype": "bf16", "ranks": 4, "accumulate": True, "groups": 3, "frozen": "norm"},
    11: {"ranks": 2, "zero": {"elastic_checkpoint": True}, "groups": 2},
    12: {"model": "mixed", "dtype": "bf16", "ranks": 5},
    13: {"trainer": True, "dtype": "bf16", "ranks": 2, "schedule": "WarmupLR"},
    14: {"dtype": "bf16", "ranks": 2, "accumulate": True, "groups": 1, "tied": True},
    15: {"ranks": 2, "tied": True, "frozen": "embed", "exclude": True},
    16: {"dtype": "bf16", "ranks": 3, "groups": 2, "frozen": None,
         "zero": {"round_robin_gradients": True}},
    17: {"dtype": "f32", "ranks": 3, "groups": 3, "zero": {"parameter_alignment": True}},
    18: {"model": "odd", "dtype": "bf16", "ranks": 4,
         "saves": ((1, "early", True), (3, None, True))},
    19: {"dtype": "fp16", "ranks": 3, "zero": {"elastic_checkpoint": True}, "groups": 2,
         "scale": {"loss_scale": 0, "initial_scale_power": 20, "hysteresis": 1},
         "saves": ((6, None, True),)},
    20: {"dtype": "bf16", "ranks": 2, "universal": "beside", "tied": True, "frozen": "mlp.up"},
    21: {"dtype": "bf16", "ranks": 3, "accumulate": True, "groups": 2},
    22: {"dtype": "fp16", "ranks": 2, "scale": {"loss_scale": 0, "initial_scale_power": 60},
         "saves": ((2, None, True),)},
    23: {"model": "mixed", "dtype": "f32", "ranks": 2, "groups": 2},
    24: {"dtype": "bf16", "ranks": 3, "groups": 2, "frozen": None,
         "zero": {"round_robin_gradients": True, "parameter_alignment": True}},
    25: {"dtype": "fp16", "ranks": 3, "universal": "alone", "groups": 2, "tied": False,
         "zero": {"parameter_alignment": True}},
    26: {"frozen": "self_attn", "exclude": True, "ranks": 3, "optimizer": "DeepSpeedCPUAdam"},
    27: {"model": "odd", "dtype": "fp16", "ranks": 5, "groups": 2,
         "scale": {"loss_scale": 1 << 32}},
    28: {"trainer": True, "dtype": "bf16", "ranks": 3, "schedule": "WarmupDecayLR"},
    29: {"dtype": "f32", "ranks": 2, "saves": ((1, None, True), (2, "late", False))},
    30: {"model": "mixed", "dtype": "bf16", "ranks": 4, "sub_group": 12},
    31: {"frozen": "mlp", "exclude": True, "ranks": 2, "dtype": "bf16"},
    32: {"dtype": "bf16", "ranks": 2, "optimizer": "DeepSpeedCPUAdam", "sub_group": 200},
    33: {"dtype": "bf16", "ranks": 3, "universal": "alone", "tied": True, "frozen": "norm",
         "groups": 2},
    34: {"dtype": "fp16", "ranks": 2, "scale": {"loss_scale": 0, "initial_scale_power": 60},
         "saves": ((2, None, True),)},
    35: {"model": "odd", "dtype": "fp16", "ranks": 5, "scale": {"loss_scale": 1 << 32}},
    36: {"dtype": "bf16", "ranks": 2, "client": "objects"},
    38: {"trainer": True, "dtype": "bf16", "ranks": 2, "gather": True,
         "schedule": "WarmupCosineLR"},
    39: {"dtype": "f32", "ranks": 5, "groups": 3, "sub_group": 1},
    40: {"model": "mixed", "dtype": "f32", "ranks": 3, "groups": 3},
}


class Progress:
    """An object that a training script may put into client_state: an instance of its own class."""

    def __init__(self, epoch, losses):
        self.epoch, self.losses, self.parent = epoch, losses, None


# ------------------------------------------------------------ the parts of a run

def options_of(seed):
    draw = random.Random(seed)
    chance = lambda p: draw.random() < p
    o = {"seed": seed, "stage": STAGES[seed], "ranks": draw.choice((1, 2, 2, 3, 3, 4, 5)),
         "dtype": draw.choice(("f32", "bf16", "bf16", "fp16")), "model": draw.choice(FAMILIES),
         "groups": draw.choice((1, 2, 2, 3)), "order": draw.choice(("model", "reversed", "mixed")),
         "tied": chance(0.4), "exclude": False, "universal": None, "trainer": False,
         "gather": False, "client": "counter" if chance(0.5) else None, "accumulate": False,
         "optimizer": draw.choice(("AdamW", "AdamW", "Adam"))}
    o["frozen"] = draw.choice((None, None, "embed", "norm", "mlp.up", "self_attn", "o_proj"))
    o["schedule"] = draw.choice((None, None, "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"))
    o["clip"] = draw.choice((0.0, 0.0, 0.5))
    o["scale"] = draw.choice(({"loss_scale": 16384}, {"loss_scale": 0, "initial_scale_power": 15}))
    o["zero"] = {}
    o["sub_group"] = draw.choice((None, None, 30, 200, 900)) if o["stage"] == 3 else None
    o["persist"] = draw.choice((None, 0, 40)) if o["stage"] == 3 else None
    o["saves"] = ((draw.choice((1, 2, 3, 4)), None, True),)
    heads = draw.choice((1, 2, 4))
    o["lm"] = {"hidden_size": draw.choice((6, 7, 8, 9, 10, 12, 13)),
               "intermediate_size": draw.choice((7, 8, 9, 11, 14)),
               "num_hidden_layers": draw.choice((1, 1, 1, 2)), "num_attention_heads": heads,
               "num_key_value_heads": draw.choice([n for n in (1, 2, 4) if heads % n == 0]),
               "head_dim": draw.choice((2, 4)), "vocab_size": draw.choice((17, 18, 23, 31, 40))}
    o.update(FIXED.get(seed, {}))
    if o["model"] not in FAMILIES:
        o.update(tied=False, frozen=None, lm=None)
    return o


def words_of(o):
    """The options in one line."""
    said = [f"stage {o['stage']}", f"{o['ranks']} ranks", o["dtype"], o["model"],
            f"{o['groups']} groups in {o['order']} order", o["optimizer"]]
    said += [f"{key} {o[key]}" for key in ("frozen", "schedule", "universal", "client") if o[key]]
    said += [f"{key}" for key in ("tied", "exclude", "trainer", "gather") if o[key]]
    said += [f"{key} {value}" for key, value in o["zero"].items()]
    if o["accumulate"]:
        said.append("gradients accumulated in f32")
    if o["dtype"] == "fp16":
        said += [f"{key} {value}" for key, value in o["scale"].items()]
    if o["clip"]:
        said.append(f"clipped at {o['clip']}")
    for key in ("sub_group", "persist"):
        if o[key] is not None:
            said.append(f"{key} {o[key]}")
    for after, tag, latest in o["saves"]:
        said.append(f"saved after {after}" + (f" as {tag}" if tag else "") +
                    ("" if latest else ", latest left alone"))
    return ", ".join(said)


def load_generator(folder):
    path = os.path.join(folder, "make_deepspeed.py")
    spec = importlib.util.spec_from_file_location("make_deepspeed", path)
    generator = importlib.util.module_from_spec(spec)
    sys.modules["make_deepspeed"] = generator
    spec.loader.exec_module(generator)
    return generator


# ------------------------------------------------------------ the model and its engine

def mixed_model():
    """Other shapes than Odd's: more dimensions, lists of parameters, a tie by parameter, buffers of
    bytes and doubles, names that lie in one another."""
    import torch
    from torch import nn

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(11, 3)
            self.conv = nn.Conv1d(3, 4, 2)
            self.norm = nn.LayerNorm(4)
            self.scales = nn.ParameterList([torch.ones(1), torch.ones(4), torch.ones(1, 1, 4)])
            self.parts = nn.ParameterDict({"a": torch.ones(2, 2), "a_b": torch.ones(3)})
            self.still = nn.Parameter(torch.ones(2, 3), requires_grad=False)
            self.head = nn.Linear(3, 11, bias=False)
            self.head.weight = self.table.weight
            self.out = nn.Linear(4, 3)
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
            self.register_buffer("bytes", torch.arange(5, dtype=torch.uint8))
            self.register_buffer("fine", torch.linspace(0, 1, 3, dtype=torch.float64))

        def forward(self, x):
            rows = (x.float().abs() * 7).long() % 11
            h = self.norm(self.conv(self.table(rows).transpose(1, 2)).transpose(1, 2))
            self.mean.mul_(0.5).add_(h.detach().mean((0, 1)))
            self.count += 1
            h = h * self.scales[1] * self.scales[2] * self.scales[0]
            h = self.out(h) + self.still.sum(0) + self.parts["a_b"]
            h = torch.cat([h[..., :2] @ self.parts["a"], h[..., 2:]], -1)
            return self.head(h).float().pow(2).mean()

    return Mixed()


def build(generator, o):
    import torch
    if o["model"] == "odd":
        model = generator.Odd(o["stage"] < 3)
    elif o["model"] == "mixed":
        model = mixed_model()
    else:
        import transformers
        name = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[o["model"]]
        config = getattr(transformers, name + "Config")(
            **o["lm"], tie_word_embeddings=o["tied"], max_position_embeddings=64,
            attn_implementation="eager")
        model = getattr(transformers, name + "ForCausalLM")(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(generator.values(o["seed"], name, tuple(p.shape),
                                     "bf16" if o["dtype"] == "bf16" else "f32"))
            if o["frozen"] and o["frozen"] in name:
                p.requires_grad_(False)
    return model


def groups_of(model, o):
    """Names of the groups of parameters, and options of each."""
    draw = random.Random(1000 + o["seed"])
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad and p.numel()]
    place = {1: lambda n, p: 0, 2: lambda n, p: int(p.dim() < 2),
             3: lambda n, p: 0 if p.dim() < 2 else 1 if n.startswith("model.layers") else 2}
    members = collections.defaultdict(list)
    for name, p in named:
        members[place[o["groups"]](name, p)].append(name)
    decayed = float(o["optimizer"] != "Adam")  # Adam's decay would be in the moments
    out = []
    for g in sorted(members):
        names = members[g]
        if o["order"] == "reversed":
            names.reverse()
        elif o["order"] == "mixed":
            draw.shuffle(names)
        out.append((names, {"lr": draw.choice((1e-2, 3e-3, 5e-4)),
                            "weight_decay": draw.choice((0.1, 0.0, 0.01)) * decayed,
                            "betas": draw.choice(((0.9, 0.95), (0.9, 0.999), (0.8, 0.99))),
                            "eps": draw.choice((1e-8, 1e-6))}))
    return out


def settings_of(o):
    """The configuration that deepspeed.initialize takes."""
    zero = {"stage": o["stage"], **o["zero"]}
    if o["sub_group"]:
        zero["sub_group_size"] = o["sub_group"]
    if o["persist"] is not None:
        zero["stage3_param_persistence_threshold"] = o["persist"]
    if o["optimizer"] == "DeepSpeedCPUAdam":
        zero["offload_optimizer"] = {"device": "cpu"}
    if o["gather"]:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    config = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True, Z: zero,
              "gradient_clipping": o["clip"]}
    if o["dtype"] == "bf16":
        config["bf16"] = {"enabled": True}
    elif o["dtype"] == "fp16":
        config["fp16"] = {"enabled": True, **o["scale"]}
    if o["accumulate"]:
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    warm = {"warmup_num_steps": 4}
    if o["schedule"] in ("WarmupLR", "WarmupDecayLR"):
        warm.update(warmup_min_lr=0.0, warmup_max_lr=0.01)
    if o["schedule"] in ("WarmupDecayLR", "WarmupCosineLR"):
        warm["total_num_steps"] = 20
    if o["schedule"]:
        config["scheduler"] = {"type": o["schedule"], "params": warm}
    return config


def client_of(o):
    import numpy as np
    import torch
    if o["universal"]:
        return {"universal_checkpoint_info": {"universal_checkpoint_version": 0.2}}
    if o["client"] == "counter":
        return {"consumed_samples": 4 * o["ranks"], "epoch": 0.5, "note": "r\u00e9sum\u00e9"}
    if o["client"] == "objects":
        progress = Progress(3, [1.5, float("nan")])
        progress.parent = progress
        return {"args": argparse.Namespace(lr=0.01, seed=o["seed"], inner=argparse.Namespace(a=1)),
                "np_rng_state": np.random.get_state(), "losses": np.linspace(0, 1, 5),
                "counts": np.arange(6, dtype=np.int16).reshape(2, 3), "best": np.float64(0.25),
                "rng": torch.get_rng_state()[:16].clone(), "progress": progress, "seen": {1, 2, 3},
                "big": 1 << 70, "nothing": None, "dtype": torch.bfloat16}
    return {}


class Shadow:
    """Adam's moments from the gradients that autograd hands to the parameters, apart from the
    engine: the mean over the ranks, in f32."""

    def __init__(self, model, groups, clip, half):
        self.grads, self.clip, self.half = {}, clip, half
        self.tiny = set()  # values too small for FP16: not compared
        self.betas = {name: options["betas"] for names, options in groups for name in names}
        self.moments = {name: [0.0, 0.0] for name in self.betas}
        for name, p in model.named_parameters():
            if name in self.betas:
                p.register_hook(lambda grad, name=name: self.keep(name, grad))

    def keep(self, name, grad):
        self.grads[name] = self.grads.get(name, 0) + grad.detach().float()

    def step(self, scale, skipped):
        import torch
        mean = {}
        for name in self.betas:
            grad = self.grads[name] / scale
            torch.distributed.all_reduce(grad)
            mean[name] = grad / torch.distributed.get_world_size()
            if self.half and float(mean[name].abs().max()) * scale < 2.0 ** -9:
                self.tiny.add(name)
        self.grads = {}
        if skipped:
            return
        norm = float(sum(g.double().pow(2).sum() for g in mean.values())) ** 0.5
        factor = min(1.0, self.clip / (norm + 1e-6)) if self.clip else 1.0
        for name, grad in mean.items():
            for i, (beta, value) in enumerate(zip(self.betas[name], (grad * factor,
                                                                     (grad * factor).pow(2)))):
                self.moments[name][i] = beta * self.moments[name][i] + (1 - beta) * value

    def distance(self, tensors):
        """The largest relative distance of a tensor's moments from these, and of how many."""
        far = (0.0, None)
        compared = self.moments.keys() - self.tiny
        for name in sorted(compared):
            for key, mine in zip(("exp_avg", "exp_avg_sq"), self.moments[name]):
                its = tensors[name][key].float().reshape(mine.shape)
                far = max(far, (float((its - mine).norm() / (mine.norm() + 1e-30)), name + key),
                          key=lambda pair: pair[0])
        return {"distance": far[0], "of": far[1], "compared": len(compared)}


# ------------------------------------------------------------ the contents of the engine

def scale_of(engine):
    optimizer = engine.optimizer
    for holder in (optimizer, getattr(optimizer, "loss_scale_config", None)):
        for key in ("cur_scale", "loss_scale"):
            if hasattr(holder, key):
                return float(getattr(holder, key))
    return 1.0


def weights_alone(model, o):
    from deepspeed import zero
    out = {}
    for name, p in model.named_parameters():
        numel = p.ds_numel if hasattr(p, "ds_numel") else p.numel()
        with zero.GatheredParameters([p], enabled=o["stage"] == 3 and numel > 0):
            out[name] = {"weight": p.detach().clone()}
    return out


def gather(generator, engine, model, o, steps):
    """The tensors by name, and in words whether the engine's own answers agree."""
    import torch
    from deepspeed.utils import safe_get_full_fp32_param
    case = {"stage": o["stage"], "ranks": o["ranks"], "config": {}}
    buffers = {name: b.detach().clone() for name, b in model.named_buffers()
               if name in set(model.state_dict())}
    if o["stage"] == 0 and o["dtype"] != "f32":
        tensors, names = weights_alone(model, o), {id(p): n for n, p in model.named_parameters()}
        held = engine.optimizer
        for g, low in enumerate(held.fp16_groups):
            flat = getattr(held, "fp32_groups_flat", None)
            at = 0
            for i, p in enumerate(low):
                master = flat[g] if flat else held.fp32_groups[g][i]
                state, part = held.optimizer.state[master], {"f32": master.detach()}
                part.update({key: state[key] for key in ("exp_avg", "exp_avg_sq")})
                tensors[names[id(p)]].update({
                    key: (value[at:at + p.numel()].view(p.shape) if flat else value).clone()
                    for key, value in part.items()})
                at += p.numel()
        return tensors, buffers, "not asked"
    if not steps:  # no moments yet
        tensors = weights_alone(model, o)
        for name, p in model.named_parameters():
            if p.requires_grad and tensors[name]["weight"].numel():
                tensors[name]["f32"] = safe_get_full_fp32_param(p)
        return tensors, buffers, "masters alone"
    plain, _ = generator.gather(engine, model, case)
    if not hasattr(engine.optimizer, "round_robin_bit16_groups"):
        return plain, buffers, "asked" if o["stage"] else "not asked"
    case["config"] = {Z: {"round_robin_gradients": True}}  # from the flat partitions, in its order
    tensors, _ = generator.gather(engine, model, case)
    wrong = sum(any(not torch.equal(t[key], plain[name][key]) for key in t)
                for name, t in tensors.items())
    return tensors, buffers, f"wrong for {wrong} tensors" if wrong else "agrees"


def step_of(engine):
    """The count in the state of the optimizer itself, which is what is saved; None without one."""
    inner = engine.optimizer
    while hasattr(inner, "optimizer"):
        inner = inner.optimizer
    steps = {float(state["step"]) for state in inner.state.values() if "step" in state}
    assert len(steps) < 2, steps
    return steps.pop() if steps else None


def options_now(engine, groups):
    return [{"names": names, **{key: list(held[key]) if key == "betas" else float(held[key])
                                for key in ("lr", "weight_decay", "betas", "eps")}}
            for (names, _), held in zip(groups, engine.optimizer.param_groups)]


def rank_main(rank, generator, o, folder, port, result):
    import numpy as np
    import torch
    world = o["ranks"]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world),
                      LOCAL_SIZE=str(world), CROSS_RANK="0", CROSS_SIZE="1",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    random.seed(o["seed"]), np.random.seed(o["seed"]), torch.manual_seed(o["seed"])
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    get_accelerator().is_fp16_supported = lambda: True  # slow without the instructions, not wrong
    # Shared memory instead of gloo would wait without sleeping, and outlive ended ranks.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    deepspeed.init_distributed("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                               world_size=world)
    model = build(generator, o)
    groups = groups_of(model, o)
    named = dict(model.named_parameters())
    shadow = Shadow(model, groups, o["clip"], o["dtype"] == "fp16")
    own = o["optimizer"] in BUILT
    optimizer = getattr(deepspeed.ops.adam if own else torch.optim, o["optimizer"])(
        [{"params": [named[n] for n in names], **options} for names, options in groups],
        **({} if own else {"foreach": False, "fused": False}))
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings_of(o))
    case = {"model": "odd" if o["model"] == "mixed" else o["model"], "lm": o["lm"] or {}}
    cast = {"f32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[o["dtype"]]
    saved = []
    for step in range(max(after for after, _, _ in o["saves"])):
        x = generator.step_input(case, o["seed"], step, rank)
        if o["lm"]:
            loss = engine(input_ids=x, labels=x).loss
        else:
            loss = engine(x.to(cast))
        scale, skipped = scale_of(engine), engine.skipped_steps
        engine.backward(loss)
        engine.step()
        shadow.step(scale, engine.skipped_steps > skipped)
        for after, tag, latest in o["saves"]:
            if after == step + 1:
                steps = engine.global_steps - engine.skipped_steps
                tensors, buffers, said = gather(generator, engine, model, o, steps)
                engine.save_checkpoint(folder, tag=tag, client_state=client_of(o),
                                       save_latest=latest, exclude_frozen_parameters=o["exclude"])
                saved.append({"tag": tag or f"global_step{engine.global_steps}", "steps": steps,
                              "step": step_of(engine),
                              "skipped": engine.skipped_steps, "tensors": tensors,
                              "buffers": buffers, "api": said,
                              "groups": options_now(engine, groups),
                              "shadow": shadow.distance(tensors) if steps else None})
    if o["gather"]:
        engine.save_16bit_model(folder, "pytorch_model.bin")
    if rank == 0:
        if hasattr(model, "config"):
            model.config.save_pretrained(folder)
        torch.save(saved, result)
    torch.distributed.barrier()


# ------------------------------------------------------------ the facts about the folder

def shared_names(generator, o):
    """Alias -> name of every parameter that has two."""
    first, out = {}, {}
    for module_name, module in build(generator, o).named_modules(remove_duplicate=False):
        for name, p in module.named_parameters(recurse=False):
            full = f"{module_name}.{name}" if module_name else name
            if first.setdefault(id(p), full) != full:
                out[full] = first[id(p)]
    return out


def describe(generator, o, saved, tied):
    """Tensors and buffers as digests; what exclude_frozen_parameters leaves out is not there. It
    leaves out the names of parameters, and so not the second names of a tie, which stages 0 to 2
    save with the values."""
    import torch
    digest = generator.digest
    trained = {name for group in saved["groups"] for name in group["names"]}
    tensors = {}
    for name, t in saved["tensors"].items():
        w = t["weight"]
        kind = "trained" if name in trained else "frozen" if w.numel() else "empty"
        if kind == "trained":
            assert torch.equal(t["f32"].to(w.dtype), w), f"{name}: its master rounds to another"
        if kind == "frozen" and o["exclude"] and not (o["stage"] < 3 and name in tied.values()):
            continue
        entry = {"kind": kind, "shape": list(w.shape), "dtype": str(w.dtype)[6:],
                 "weight": digest(w), "f32": None, "exp_avg": None, "exp_avg_sq": None}
        if kind == "frozen":
            entry["f32"] = digest(w.float())
        for key in ("f32", "exp_avg", "exp_avg_sq"):
            if key in t and kind == "trained":
                assert t[key].dtype == torch.float32 and t[key].shape == w.shape, (name, key)
                entry[key] = digest(t[key])
        tensors[name] = entry
    buffers = {name: {"shape": list(b.shape), "dtype": str(b.dtype)[6:], "weight": digest(b)}
               for name, b in saved["buffers"].items()}
    return tensors, buffers


def against_zero_to_fp32(folder, saved, tensors, tied):
    """The result of DeepSpeed's own script for the folder, in words."""
    import torch
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    try:
        found = get_fp32_state_dict_from_zero_checkpoint(folder)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).replace(folder + '/', '')}"
    known = {**saved["tensors"], **{a: saved["tensors"][n] for a, n in tied.items()}}
    lacks, wrong = [], []
    for name in [*tensors, *tied]:
        want = known[name].get("f32", known[name]["weight"])
        if name not in found:
            lacks.append(name)
        elif not torch.equal(found[name].float(), want.float()):
            wrong.append(name)
    said = [f"{word} {len(names)}: {' '.join(names)}" for word, names in
            (("lacks", lacks), ("wrong", wrong)) if names]
    more = found.keys() - known.keys() - saved["buffers"].keys()
    said += [f"has {len(more)} more: {' '.join(sorted(more))}"] if more else []
    for name, buffer in saved["buffers"].items():
        if name not in found or not torch.equal(found[name], buffer):
            said.append(f"buffer {name} differs")
    return "; ".join(said) or "equal"


def to_universal(folder, beside):
    """ds_to_universal's folder, beside the tag or in its place."""
    from deepspeed.checkpoint import ds_to_universal
    with open(os.path.join(folder, "latest"), encoding="utf-8") as file:
        tag = file.read()
    out = os.path.join(folder, tag + "_universal")
    ds_to_universal.main(argparse.Namespace(
        input_folder=os.path.join(folder, tag), output_folder=out, num_extract_workers=1,
        num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=False))
    if not beside:
        shutil.rmtree(os.path.join(folder, tag))
        os.remove(os.path.join(folder, "latest"))


def make_run(generator, seed, folder):
    """Makes FOLDER anew and returns what is true of it. In a process that may be thrown away."""
    import torch
    import torch.multiprocessing as mp
    o = options_of(seed)
    shutil.rmtree(folder, ignore_errors=True)
    inner = folder
    if o["trainer"]:
        inner = os.path.join(folder, f"checkpoint-{o['saves'][-1][0]}")
    os.makedirs(inner)
    result = folder + ".live"
    mp.start_processes(rank_main, args=(generator, o, inner, generator.free_port(), result),
                       nprocs=o["ranks"], start_method="fork")
    saves = torch.load(result, weights_only=False)
    os.remove(result)
    if o["trainer"]:
        with open(os.path.join(inner, "trainer_state.json"), "w", encoding="utf-8") as file:
            json.dump({"epoch": 1.0, "global_step": o["saves"][-1][0], "log_history": []}, file)
    with open(os.path.join(inner, "latest"), encoding="utf-8") as file:
        latest = file.read()
    held = next(saved for saved in saves if saved["tag"] == latest)
    tied = shared_names(generator, o)
    tensors, buffers = describe(generator, o, held, tied)
    says = against_zero_to_fp32(inner, held, tensors, tied)
    if o["universal"]:
        to_universal(inner, o["universal"] == "beside")
    for script in ("zero_to_fp32.py", "zero_to_torch.py"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(inner, script))
    truth = {"folder": os.path.basename(folder) + inner[len(folder):], "what": words_of(o),
             "family": o["model"] if o["lm"] else None, "dtype": FLOATS[o["dtype"]],
             "ranks": o["ranks"], "stage": o["stage"], "universal": bool(o["universal"]),
             "tag": latest, "steps": held["steps"], "step": held["step"],
             "skipped": held["skipped"],
             "tensors": tensors, "buffers": buffers, "tied": tied, "groups": held["groups"],
             "excluded": sorted(held["tensors"].keys() - tensors.keys()),
             "zero_to_fp32": says, "api": held["api"], "shadow": held["shadow"], "tags": {}}
    for saved in saves:
        if saved is not held:
            other = describe(generator, o, saved, tied)
            truth["tags"][saved["tag"]] = {key: saved[key] for key in ("steps", "step", "groups")}
            truth["tags"][saved["tag"]].update(tensors=other[0], buffers=other[1])
    return truth


def apart(work, log):
    """Returns what work() returns, made in a process of its own, and its error in words."""
    path = log + ".value"
    child = os.fork()
    if not child:
        os.setsid()
        with open(log, "w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1), os.dup2(file.fileno(), 2)
        try:
            value = [work(), ""]
        except BaseException as error:  # SystemExit too
            traceback.print_exc()
            sys.stderr.flush()
            value = [None, f"{type(error).__name__}: {str(error).strip()[-400:]}"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        os._exit(0)
    end, done = time.monotonic() + TIMEOUT, 0
    while not done and time.monotonic() < end:
        time.sleep(0.05)
        done = os.waitpid(child, os.WNOHANG)[0]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not done:
        os.waitpid(child, 0)
        return None, f"no end after {TIMEOUT} seconds"
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    os.remove(path)
    return value


def build_optimizers(names):
    """Why those of deepspeed's own optimizers that cannot be compiled here cannot."""
    import torch
    import deepspeed.ops.adam
    without = {}
    for name in names & set(BUILT):
        p = torch.nn.Parameter(torch.ones(4))
        p.grad = torch.ones(4)
        try:
            getattr(deepspeed.ops.adam, name)([p]).step()
        except Exception as error:
            without[name] = f"skipped: no {name}: {str(error).strip()[-200:]}"
    return without


def make(generator_folder, work, seeds):
    """Folders WORK/seed_NN and WORK/seed_NN.json: what is true of each, or {"failed": why}."""
    import torch
    torch.set_num_threads(1)
    import deepspeed  # noqa: F401, so that the forks need not
    import deepspeed.checkpoint.ds_to_universal  # noqa: F401
    import transformers
    for family in ("Llama", "Qwen2", "Qwen3"):
        getattr(transformers, family + "ForCausalLM")
    generator = load_generator(generator_folder)
    without = build_optimizers({options_of(seed)["optimizer"] for seed in seeds})
    for seed in seeds:
        folder = os.path.join(work, f"seed_{seed:02}")
        for _ in range(2):  # a gloo process may hang
            begin = time.monotonic()
            truth, failed = None, without.get(options_of(seed)["optimizer"], "")
            if not failed:
                truth, failed = apart(lambda: make_run(generator, seed, folder), folder + ".log")
            if not failed:
                break
        print(f"{seed:2} {time.monotonic() - begin:5.1f} s", failed or truth["zero_to_fp32"],
              flush=True)
        with open(folder + ".json", "w", encoding="utf-8") as file:
            json.dump({"failed": failed} if failed else truth, file)

