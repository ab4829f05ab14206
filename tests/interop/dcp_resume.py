"""A run of several processes that goes on from a distributed checkpoint, as TorchTitan does it: the
model's tensors at the top, the flat state dict of the optimizer, the schedule's last epoch and the
run's counts through Stateful objects. What was loaded and the next step are compared with what a
file says."""

import contextlib
import logging
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict,
                                                     get_optimizer_state_dict, set_model_state_dict,
                                                     set_optimizer_state_dict)

import dcp_models as models

FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
MOMENTS = ("exp_avg", "exp_avg_sq")
UNLOADED = 7777


class Optimizer:
    """TorchTitan's OptimizersContainer, of one model and one optimizer."""

    def __init__(self, root, optimizer):
        self.root, self.of = root, optimizer

    def state_dict(self):
        return get_optimizer_state_dict(self.root, self.of, options=FLAT)

    def load_state_dict(self, state):
        set_optimizer_state_dict(self.root, self.of, state, options=FLAT)


class Schedule:
    """TorchTitan's LRSchedulersContainer."""

    def __init__(self, optimizer):
        self.of = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))

    def state_dict(self):
        return {"last_epoch": self.of.last_epoch}

    def load_state_dict(self, state):
        self.of.last_epoch = state["last_epoch"]
        self.of._step_count = self.of.last_epoch + 1
        self.of._last_lr = self.of.get_lr()


class Counts:
    """The state of TorchTitan's Trainer itself."""

    def __init__(self):
        self.step = self.ntokens_seen = UNLOADED

    def state_dict(self):
        return {"step": self.step, "ntokens_seen": self.ntokens_seen}

    def load_state_dict(self, state):
        self.step, self.ntokens_seen = state["step"], state["ntokens_seen"]


class Run:
    """A model, its optimizer with these groups of names, and a schedule; all of it yet unloaded."""

    def __init__(self, root, groups, schedule=Schedule):
        self.root = root
        self.named = dict(root.named_parameters())
        with torch.no_grad():
            for p in self.named.values():
                p.fill_(float("nan"))
        self.optimizer = torch.optim.AdamW([{"params": [self.named[name] for name in group]}
                                            for group in groups if group], lr=UNLOADED)
        self.schedule, self.counts = schedule(self.optimizer), Counts()
        self.states = {"optimizer": Optimizer(root, self.optimizer), "lr_scheduler": self.schedule,
                       "train_state": self.counts}
        self.states["optimizer"].state_dict()  # makes the state
        for state in self.optimizer.state.values():
            for tensor in state.values():
                tensor.fill_(float("nan"))

    def train(self, expected):
        """Makes it what the file says, as if it had been trained so far."""
        with torch.no_grad():
            for name, p in self.named.items():
                p.copy_(models.shard(expected["weights"][name], p))
                state = self.optimizer.state[p]
                state["step"].fill_(expected["step"])
                for moment in MOMENTS:
                    state[moment].copy_(models.shard(expected[moment][name], p))
        for group, options in zip(self.optimizer.param_groups, expected["options"], strict=True):
            group.update(options)
        self.schedule.of.last_epoch = self.counts.step = expected["step"]

    def load(self, folder):
        model = get_model_state_dict(self.root)
        dcp.load({**model, **self.states}, checkpoint_id=folder)
        set_model_state_dict(self.root, model)

    def save(self, folder, **more):
        dcp.save({**get_model_state_dict(self.root), **self.states, **more}, checkpoint_id=folder)

    def step(self, grads):
        for name, p in self.named.items():
            p.grad = models.shard(grads[name], p) if p.requires_grad else None
        self.optimizer.step()
        self.schedule.of.step()

    def check_loaded(self, expected):
        """Weights, moments, steps and options bit for bit, and how far the run is."""
        steps = expected["step"]
        for name, p in self.named.items():
            state = self.optimizer.state[p]
            assert torch.equal(models.whole(p).detach(), expected["weights"][name]), name
            if not p.requires_grad:
                continue
            for moment in MOMENTS:
                found = models.whole(state[moment])
                assert torch.equal(found, expected[moment][name]), f"{name} {moment}"
            assert state["step"].item() == steps, f"{name}: step {state['step']}"
        for group, options in zip(self.optimizer.param_groups, expected["options"], strict=True):
            for option, value in options.items():
                assert group[option] == value, f"{option} {group[option]}, not {value}"
        assert self.schedule.of.last_epoch == steps, self.schedule.state_dict()
        assert self.counts.step == steps, self.counts.state_dict()

    def check_step(self, expected):
        """The next step of AdamW is the one that the source would make."""
        self.step(expected["grads"])
        for name, p in self.named.items():
            found = models.whole(p).detach()
            assert torch.equal(found, expected["stepped"][name]), f"{name} after the step"
        assert self.schedule.of.last_epoch == expected["step"] + 1


def source_step(weights, moments, groups, options, steps):
    """Gradients, and the weights after the step that a plain optimizer makes with them."""
    named = {name: torch.nn.Parameter(t.clone()) for name, t in weights.items()}
    optimizer = torch.optim.AdamW([{"params": [named[name] for name in group], **said}
                                   for group, said in zip(groups, options, strict=True)])
    grads = {}
    for name, p in named.items():
        grads[name] = torch.linspace(-1, 1, p.numel()).view(p.shape)
        p.grad = grads[name].clone()
        optimizer.state[p] = {"step": torch.tensor(float(steps)),
                              **{moment: moments[moment][name].clone() for moment in MOMENTS}}
    optimizer.step()
    return {"grads": grads, "stepped": {name: p.detach() for name, p in named.items()}}


@contextlib.contextmanager
def of_processes(rank, world, store):
    """At its end: now and then a thread of torch's own aborts a process later, on the way out."""
    warnings.simplefilter("ignore")
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    yield
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


def of_transformers(config):
    import transformers  # not in every process: it takes seconds
    made = transformers.AutoConfig.for_model(**config)
    return transformers.AutoModelForCausalLM.from_config(made, dtype=torch.float32)


def root_of(expected):
    if "config" in expected:
        return of_transformers(expected["config"])
    return models.module_of(expected["weights"])


def resume(rank, world, jobs, store):
    """Each job: a folder with expected.pt, its checkpoint, how the model is cut, where to save."""
    with of_processes(rank, world, store):
        for folder, checkpoint, cut, saved in jobs:
            expected = torch.load(folder + "/expected.pt", weights_only=True)
            root = models.parallel(root_of(expected), **cut)
            run = Run(root, expected["groups"])
            try:
                run.load(f"{folder}/{checkpoint}")
                run.check_loaded(expected)
                if saved:
                    run.save(f"{folder}/{saved}")
                run.check_step(expected)
            except Exception as error:
                error.add_note(f"{checkpoint} of {expected['name']} over {cut}")
                raise


def spawn(function, world, *arguments):
    """function(rank, world, *arguments, store), in `world` processes."""
    with tempfile.TemporaryDirectory() as store:
        mp.spawn(function, args=(world, *arguments, store + "/store"), nprocs=world)
