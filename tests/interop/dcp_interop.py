"""Distributed checkpoints against the real torch.distributed.checkpoint.

Usage: python dcp_interop.py --bin-dir DIR
    DIR is tests/interop of the build; the commands lie in tools of the build.

A training tag goes to a checkpoint; FSDP2 models of 1, 2 and 4 gloo processes, with and without
tensor parallelism, load it with dcp.load, take one step of AdamW, and save what they had before it.
Every parameter and moment must be the source's, the step that of a plain optimizer over the source,
and the tag that is made of what torch saved the tag that was there.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file

import interop
import reshard_interop as reshard

TITAN = [("model.embed_tokens.", "tok_embeddings."), ("model.layers.", "layers."),
         ("model.norm.", "norm."), ("self_attn.q_proj.", "attention.qkv_linear.wq."),
         ("self_attn.k_proj.", "attention.qkv_linear.wk."),
         ("self_attn.v_proj.", "attention.qkv_linear.wv."),
         ("self_attn.o_proj.", "attention.wo."), ("self_attn.q_norm.", "attention.q_norm."),
         ("self_attn.k_norm.", "attention.k_norm."), ("mlp.gate_proj.", "feed_forward.w1."),
         ("mlp.up_proj.", "feed_forward.w3."), ("mlp.down_proj.", "feed_forward.w2."),
         ("post_attention_layernorm.", "ffn_norm."), ("input_layernorm.", "attention_norm.")]
OPTIONS = ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable",
           "differentiable", "fused", "decoupled_weight_decay")
EXPERTS = (("mixtral", "hf"), ("qwen3_moe", "hf"), ("qwen3_moe", "torchtitan"))
ROWWISE = ("wo", "w2", "o_proj", "down_proj")


def titan_name(name):
    for old, new in TITAN:
        name = name.replace(old, new)
    return name


def in_pairs(tensor, head_dim):
    """Rows of q and k as TorchTitan's Llama has them: its own permutation, for one projection."""
    heads = tensor.shape[0] // head_dim
    return (tensor.view(heads, 2, head_dim // 2, -1).transpose(1, 2)
            .reshape(tensor.shape).contiguous())


def renamed(tensors, config, style):
    """The source's tensors as a checkpoint of this style has them."""
    if style == "hf":
        return dict(tensors)
    out = {}
    for name, tensor in tensors.items():
        turned = config["model_type"] == "llama" and (".q_proj." in name or ".k_proj." in name)
        out[titan_name(name)] = in_pairs(tensor, config["head_dim"]) if turned else tensor
    return out


class Node(torch.nn.Module):
    """A module that only holds others."""


def module_of(tensors):
    """Modules with these parameters; what they hold before it is loaded is nothing to go by."""
    root = Node()
    for name, tensor in tensors.items():
        *path, leaf, kind = name.split(".")
        at = root
        for part in path:
            if not hasattr(at, part):
                at.add_module(part, Node())
            at = getattr(at, part)
        if not hasattr(at, leaf):
            weight = tensors[name.rsplit(".", 1)[0] + ".weight"]
            if "embed" in leaf:
                made = torch.nn.Embedding(*weight.shape)
            elif weight.dim() == 2:
                bias = name.rsplit(".", 1)[0] + ".bias" in tensors
                made = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias)
            else:
                made = torch.nn.RMSNorm(weight.shape[0])
            at.add_module(leaf, made)
        assert getattr(getattr(at, leaf), kind).shape == tensor.shape
    return root


def parallel(root, mesh):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   SequenceParallel, parallelize_module)
    if "tp" in mesh.mesh_dim_names:
        plan = {}
        for name, module in root.named_modules():
            if isinstance(module, torch.nn.Embedding):
                plan[name] = RowwiseParallel()
            elif isinstance(module, torch.nn.Linear):
                row = name.rsplit(".", 1)[-1] in ROWWISE
                plan[name] = RowwiseParallel() if row else ColwiseParallel()
            elif isinstance(module, torch.nn.RMSNorm) and "q_norm" not in name and (
                    "k_norm" not in name):
                plan[name] = SequenceParallel()
        parallelize_module(root, mesh["tp"], plan)
        mesh = mesh["fsdp"]
    fully_shard(root, mesh=mesh)
    return root


def shard(full, p):
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


def target(named):
    """What dcp.load fills, as TorchTitan asks for it."""
    state = {}
    for name, p in named.items():
        state[f"state.{name}.step"] = torch.zeros(())
        for moment in ("exp_avg", "exp_avg_sq"):
            state[f"state.{name}.{moment}"] = torch.full_like(p, float("nan"))
        for option in OPTIONS:
            state[f"param_groups.{name}.{option}"] = "unset"
    return {**named, "optimizer": state, "lr_scheduler": {"last_epoch": -1},
            "train_state": {"step": -1, "ntokens_seen": -1}}


def step(named, state, grads):
    """One step of AdamW, each parameter with its own options."""
    for name, p in named.items():
        options = {o: state[f"param_groups.{name}.{o}"] for o in OPTIONS
                   if o != "decoupled_weight_decay"}
        options.update(foreach=False, fused=False)
        optimizer = torch.optim.AdamW([p], **options)
        optimizer.state[p] = {key: state[f"state.{name}.{key}"].clone()
                              for key in ("step", "exp_avg", "exp_avg_sq")}
        p.grad = shard(grads[name], p)
        optimizer.step()


def check_loaded(named, sd, expected):
    """Weights, moments and steps bit for bit, and how far the run is."""
    for name, tensor in expected["weights"].items():
        assert torch.equal(whole(named[name]).detach(), tensor), name
        for moment in ("exp_avg", "exp_avg_sq"):
            found = whole(sd["optimizer"][f"state.{name}.{moment}"])
            assert torch.equal(found, expected[moment][name]), f"{name} {moment}"
        assert sd["optimizer"][f"state.{name}.step"].item() == 10
    assert sd["lr_scheduler"] == {"last_epoch": 10} and sd["train_state"]["step"] == 10


def check_step(named, sd, expected):
    """The next step of AdamW is the one that the source would make."""
    step(named, sd["optimizer"], expected["grads"])
    for name, tensor in expected["stepped"].items():
        assert torch.equal(whole(named[name]).detach(), tensor), f"{name} after the step"


def leave():
    """At the end of a process: now and then a thread of torch's own aborts it later, on the way out."""
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


def worker(rank, world, tp, folder, store):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    expected = torch.load(folder + "/expected.pt", weights_only=True)
    mesh = (init_device_mesh("cpu", (world // tp, tp), mesh_dim_names=("fsdp", "tp")) if tp > 1
            else init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",)))
    root = parallel(module_of(expected["weights"]), mesh)
    named = dict(root.named_parameters())
    with torch.no_grad():
        for p in named.values():
            p.fill_(float("nan"))
    sd = target({name: p.detach() for name, p in named.items()})
    dcp.load(sd, checkpoint_id=folder + "/dcp")
    check_loaded(named, sd, expected)
    dcp.save(sd, checkpoint_id=folder + "/saved")
    check_step(named, sd, expected)
    leave()


def load_state(rank, world, folder, store):
    """Weights and state by rows, of models whose modules are not built here, and one step."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    expected = torch.load(folder + "/expected.pt", weights_only=True)
    named = {name: torch.nn.Parameter(distribute_tensor(torch.full_like(t, float("nan")), mesh,
                                                        [Shard(0)]))
             for name, t in expected["weights"].items()}
    sd = target({name: p.detach() for name, p in named.items()})
    dcp.load(sd, checkpoint_id=folder + "/dcp")
    check_loaded(named, sd, expected)
    check_step(named, sd, expected)
    leave()


def load_whole(rank, world, folder, store):
    """Plain tensors and rows of them, of any style: for models whose modules are not built here."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    expected = load_file(folder + "/expected.safetensors")
    sd = {name: distribute_tensor(torch.zeros_like(t), mesh, [Shard(0)])
          for name, t in expected.items()}
    dcp.load(sd, checkpoint_id=folder + "/dcp")
    for name, tensor in expected.items():
        assert torch.equal(whole(sd[name]), tensor), name
    leave()


class Dcp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def convert(self, *arguments):
        done = subprocess.run([interop.program("nxd-convert"), "-q", "--no-sync", *arguments],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}{done.stderr}")

    def spawn(self, function, world, *arguments):
        with tempfile.TemporaryDirectory() as store:
            mp.spawn(function, args=(world, *arguments, store + "/store"), nprocs=world)

    def expectations(self, training, style):
        """The source in the checkpoint's names, and the step that it would take."""
        weights, moments = training.states["sharded_master_weights"], {}
        grads = {name: torch.linspace(-1, 1, t.numel()).view(t.shape) for name, t in weights.items()}
        names = {name: i for i, group in enumerate(reshard.grouped(list(weights), training.rule))
                 for name in group}
        state = {}
        for name in weights:
            for option in OPTIONS:
                state[f"param_groups.{name}.{option}"] = {
                    "lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8,
                    "weight_decay": 0.01 if names[name] == 0 else 0.0}.get(
                        option, None if option in ("foreach", "fused") else False)
            state[f"state.{name}.step"] = torch.tensor(10.0)
            for moment in ("exp_avg", "exp_avg_sq"):
                state[f"state.{name}.{moment}"] = training.states[moment][name]
        stepped = {name: torch.nn.Parameter(t.clone()) for name, t in weights.items()}
        step(stepped, state, grads)
        for moment in ("exp_avg", "exp_avg_sq"):
            moments[moment] = renamed(training.states[moment], training.config, style)
        return {"weights": renamed(weights, training.config, style), **moments,
                "grads": renamed(grads, training.config, style),
                "stepped": renamed({n: p.detach() for n, p in stepped.items()}, training.config,
                                   style)}

    def check(self, config, style, world, tp, mesh, rule="norms"):
        training = reshard.Training(config, rule)
        # The second moments of a real run are not negative.
        training.states["exp_avg_sq"] = {n: t.abs() for n, t in
                                         training.states["exp_avg_sq"].items()}
        training.model = {name: t.to(training.model[name].dtype)
                          for name, t in training.states["sharded_master_weights"].items()}
        g = reshard.Geometry(tp=2, dp=3, style="separate")
        training.save(self.path("tag"), g)
        self.convert("--from", "nxd", "--to", "dcp", "--style", style, "--mesh", mesh, "--verify",
                     self.path("tag"), self.path("dcp"))
        torch.save(self.expectations(training, style), self.path("expected.pt"))
        self.spawn(worker, world, tp, self.folder)
        # What torch saved has no record of the tag's form.
        self.convert("--from", "dcp", "--to", "nxd", "--tp", "2", "--dp", "3", "--config",
                     self.path("tag", "config.json"), "--param-order", rule, "--verify",
                     self.path("saved"), self.path("back"))
        for name, value in training.files(g, "zero1"):
            found = torch.load(self.path("back", name), weights_only=True)
            if name.startswith("model/"):
                self.assertEqual(list(found), list(value))
                for key, tensor in value.items():
                    self.assertTrue(torch.equal(found[key], tensor), f"{name} {key}")
                continue
            for pid, state in value["base_state"].items():
                for key, tensor in state.items():
                    self.assertTrue(torch.equal(found["base_state"][pid][key], tensor),
                                    f"{name} {pid} {key}")
                self.assertTrue(torch.equal(found["sharded_master_weights"][pid],
                                            value["sharded_master_weights"][pid]))
            for mine, theirs in zip(found["param_groups"], value["param_groups"], strict=True):
                for key in ("lr", "betas", "eps", "weight_decay", "params"):
                    self.assertEqual(mine[key], theirs[key])
        self.check_scheduler(len(training.groups(training.model)))

    def check_scheduler(self, groups):
        """What is made of the checkpoint's last_epoch is what torch's schedules load."""
        state = torch.load(self.path("back", "scheduler.pt"), weights_only=True)
        optimizer = torch.optim.AdamW([{"params": [torch.nn.Parameter(torch.zeros(1))]}
                                       for _ in range(groups)], lr=3e-4)
        for made in (torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n)),
                     torch.optim.lr_scheduler.StepLR(optimizer, 7)):
            made.load_state_dict(dict(state))
            self.assertEqual(made.last_epoch, 10)
            optimizer.step()
            made.step()
            self.assertEqual(made.last_epoch, 11)

    def test_fsdp_of_one_two_and_four(self):
        for config, style, world, mesh in ((reshard.LLAMA, "torchtitan", 1, "dp=1"),
                                           (reshard.QWEN3, "torchtitan", 2, "dp=4,tp=2"),
                                           (reshard.QWEN2, "hf", 4, "dp=3"),
                                           (reshard.LLAMA, "torchtitan", 4, "dp=4")):
            with self.subTest(config["model_type"], world=world, mesh=mesh):
                self.setUp()
                self.check(config, style, world, 1, mesh)

    def test_fsdp_over_tensor_parallelism(self):
        for config, style, mesh in ((reshard.LLAMA, "torchtitan", "dp=2,tp=2"),
                                    (reshard.QWEN3, "torchtitan", "dp=3")):
            with self.subTest(config["model_type"], mesh=mesh):
                self.setUp()
                self.check(config, style, 4, 2, mesh)

    def make_experts(self, family):
        """A model with experts; its weights in F32, by the names of transformers."""
        config = {**reshard.LLAMA, "model_type": family, "num_hidden_layers": 2,
                  "architectures": [{"mixtral": "MixtralForCausalLM",
                                     "qwen3_moe": "Qwen3MoeForCausalLM"}[family]],
                  "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 12}
        with open(self.path("config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        made = subprocess.run([interop.program("nxdkit-make-model"), "-q", "--config",
                               self.path("config.json"), "--out", self.path("hf")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        return load_file(self.path("hf", "model.safetensors"))

    def test_experts(self):
        for family, style in EXPERTS:
            with self.subTest(family, style=style):
                self.setUp()
                tensors = self.make_experts(family)
                self.convert("--from", "hf", "--to", "dcp", "--style", style, "--mesh",
                             "dp=2,tp=2", self.path("hf"), self.path("dcp"))
                if style == "torchtitan":
                    tensors = self.stacked(tensors)
                save_file(tensors, self.path("expected.safetensors"))
                for world in (1, 2, 4):
                    self.spawn(load_whole, world, self.folder)

    def expert_state(self, weights):
        """A state that an optimizer could have of them, as TorchTitan keeps it."""
        random = torch.Generator().manual_seed(5)
        state = {}
        for name, tensor in weights.items():
            for option in OPTIONS:
                state[f"param_groups.{name}.{option}"] = {
                    "lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8,
                    "weight_decay": 0.0 if "norm" in name else 0.01}.get(
                        option, None if option in ("foreach", "fused") else
                        option == "decoupled_weight_decay")
            state[f"state.{name}.step"] = torch.tensor(10.0)
            state[f"state.{name}.exp_avg"] = torch.randn(tensor.shape, generator=random)
            state[f"state.{name}.exp_avg_sq"] = torch.rand(tensor.shape, generator=random)
        return state

    def test_state_of_experts(self):
        """What torch saves of experts goes to an NxD tag and, in any names, back to torch."""
        import torch.distributed.checkpoint as dcp
        for family, style in EXPERTS:
            with self.subTest(family, style=style):
                self.setUp()
                weights = {name: t.float() * 1.001 for name, t in self.make_experts(family).items()}
                state = self.expert_state(weights)
                dcp.save({**weights, "optimizer": state, "lr_scheduler": {"last_epoch": 10},
                          "train_state": {"step": 10, "ntokens_seen": 640}},
                         checkpoint_id=self.path("first"), no_dist=True)
                self.convert("--from", "dcp", "--to", "nxd", "--tp", "2", "--dp", "3", "--hw",
                             "trn1", "--config", self.path("config.json"), "--verify",
                             self.path("first"), self.path("tag"))
                self.convert("--from", "nxd", "--to", "dcp", "--style", style, "--mesh",
                             "dp=2,tp=2", "--verify", self.path("tag"), self.path("dcp"))
                grads = {name: torch.linspace(-1, 1, t.numel()).view(t.shape)
                         for name, t in weights.items()}
                stepped = {name: torch.nn.Parameter(t.clone()) for name, t in weights.items()}
                step(stepped, state, grads)
                expected = {"weights": weights, "grads": grads,
                            "stepped": {name: p.detach() for name, p in stepped.items()}}
                for moment in ("exp_avg", "exp_avg_sq"):
                    expected[moment] = {name: state[f"state.{name}.{moment}"] for name in weights}
                if style == "torchtitan":
                    expected = {key: self.stacked(value) for key, value in expected.items()}
                torch.save(expected, self.path("expected.pt"))
                for world in (1, 2, 4) if style == "torchtitan" else (4,):
                    self.spawn(load_state, world, self.folder)

    def test_groups_of_the_optimizer(self):
        """get_optimizer_state_dict, flattened or not: the same tag."""
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import (StateDictOptions,
                                                             get_optimizer_state_dict)
        training = reshard.Training(reshard.QWEN2, "biases")
        root = module_of(training.model)
        named = dict(root.named_parameters())
        with torch.no_grad():
            for name, p in named.items():
                p.copy_(training.states["sharded_master_weights"][name])
        biases = [p for name, p in named.items() if "bias" in name]
        others = [p for name, p in named.items() if "bias" not in name]
        optimizer = torch.optim.AdamW([{"params": others}, {"params": biases, "weight_decay": 0.0}],
                                      lr=torch.tensor(1e-3))
        for p in named.values():
            p.grad = torch.linspace(-1, 1, p.numel()).view(p.shape)
        optimizer.step()
        with open(self.path("config.json"), "w", encoding="utf-8") as f:
            json.dump(reshard.QWEN2, f)
        for flat in (True, False):
            state = get_optimizer_state_dict(
                root, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=flat))
            dcp.save({"model": root.state_dict(), "optimizer": state},
                     checkpoint_id=self.path(f"dcp{flat}"), no_dist=True)
            self.convert("--from", "dcp", "--to", "nxd", "--tp", "1", "--dp", "2", "--hw", "trn1",
                         "--config", self.path("config.json"), "--verify", self.path(f"dcp{flat}"),
                         self.path(f"tag{flat}"))
        for name in ("model/dp_rank_00_tp_rank_00_pp_rank_00.pt",
                     "optim/dp_rank_00_tp_rank_00_pp_rank_00.pt",
                     "optim/dp_rank_01_tp_rank_00_pp_rank_00.pt"):
            with open(self.path("tagTrue", name), "rb") as a:
                with open(self.path("tagFalse", name), "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)
        found = torch.load(self.path("tagFalse", name), weights_only=True)
        self.assertEqual([g["weight_decay"] for g in found["param_groups"]], [0.01, 0.0])
        self.assertEqual(found["param_groups"][0]["lr"], torch.tensor(1e-3).item())

    @staticmethod
    def stacked(tensors):
        out, experts = {}, {}
        for name, tensor in tensors.items():
            if ".mlp.experts." in name:
                layer, rest = name.split(".mlp.experts.")
                expert, kind, _ = rest.split(".")
                to = {"gate_proj": "w1_EFD", "up_proj": "w3_EFD", "down_proj": "w2_EDF"}[kind]
                key = f"{titan_name(layer + '.')}moe.routed_experts.inner_experts.{to}"
                experts.setdefault(key, {})[int(expert)] = tensor
            elif ".mlp.gate." in name:
                out[titan_name(name).replace("mlp.gate.", "moe.router.gate.")] = tensor
            else:
                out[titan_name(name)] = tensor
        for key, of in experts.items():
            out[key] = torch.stack([of[e] for e in sorted(of)])
        return out


if __name__ == "__main__":
    reshard.NXD.install_torch_xla()
    interop.main()
