"""nxd-reshard's checkpoints against the real torch.

Usage: python reshard_interop.py --bin-dir DIR
    DIR is tests/interop of the build; nxd-reshard lies in tools of the build.

A tag is saved with torch: the model cut by testdata/nxd/make.py, the optimizer's state as ZeRO-1
shards it, with torch.chunk after padding. nxd-reshard makes a tag of another geometry of it, which
is loaded with torch and compared with the same cut anew.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import torch

import interop

NXD = interop.load_make("nxd")

# Vectors of 10, matrices of 20 and more rows: several data parallel sizes leave whole shards empty.
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 10,
         "intermediate_size": 12, "num_hidden_layers": 5, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 20, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16"}
QWEN2 = {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
QWEN3 = {**LLAMA, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
ENTRIES = ("exp_avg", "exp_avg_sq", "sharded_master_weights")


class Geometry:
    def __init__(self, tp=1, pp=1, vpp=1, dp=1, m=1, style="linear", hardware="trn1"):
        self.tp, self.pp, self.vpp, self.dp, self.m = tp, pp, vpp, dp, m
        self.style, self.hardware = style, hardware

    def options(self):
        return ["--tp", str(self.tp), "--pp", str(self.pp), "--vpp", str(self.vpp),
                "--dp", str(self.dp), "--kv-multiplier", str(self.m), "--qkv", self.style,
                "--hw", self.hardware]

    def layer_ranks(self, layers):
        """Stages of layers // S layers, the last layers % S with one more; stage s on s mod pp."""
        stages = self.pp * self.vpp
        ranks, layer = [], 0
        for stage in range(stages):
            size = layers // stages + (1 if stage >= stages - layers % stages else 0)
            ranks += [stage % self.pp] * size
            layer += size
        assert layer == layers
        return ranks


def module_order(state, config):
    """Biases of separate projections come with their weight; make.py has them behind all three."""
    if config["model_type"] != "qwen2":
        return state
    names = list(state)
    for name in list(names):
        if name.endswith(("q_proj.bias", "k_proj.bias", "v_proj.bias")):
            names.remove(name)
            names.insert(names.index(name.replace("bias", "weight")) + 1, name)
    return {name: state[name] for name in names}


def on_rank(model, config, g, t, p):
    """The tensors of one tp and pp rank, in the module's order."""
    state = NXD.shard(model, config, g.tp, t, g.style, g.hardware, g.m)
    ranks = g.layer_ranks(config["num_hidden_layers"])
    return {name: tensor for name, tensor in module_order(state, config).items()
            if NXD.on_pipeline_rank(name, ranks, p, g.pp)}


def grouped(names, rule):
    """Parameter names by group, as the trainers part them."""
    second = {"norms": ("bias", "norm"), "biases": ("bias",), "one": ()}[rule]
    first = [n for n in names if not any(word in n for word in second)]
    return [first] if rule == "one" else [first, [n for n in names if n not in first]]


def zero_shard(tensor, dp, d):
    rows = (dp - tensor.shape[0] % dp) % dp
    padded = torch.cat([tensor, tensor.new_zeros(rows, *tensor.shape[1:])])
    return torch.chunk(padded, dp)[d].clone()


class Training:
    """A model, and what an optimizer keeps of it."""

    def __init__(self, config, rule="norms", dtype=torch.float32, step=torch.tensor(10.0)):
        self.config, self.rule, self.step = config, rule, step
        self.model = NXD.make_model(config, 3)
        self.states = {}
        for seed, entry in enumerate(ENTRIES):
            self.states[entry] = {name: tensor.to(dtype) * (1 + seed / 7)
                                  for name, tensor in NXD.make_model(config, 10 + seed).items()}

    def groups(self, names):
        out, pid = [], 0
        for i, group in enumerate(grouped(names, self.rule)):
            out.append({"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "foreach": None,
                        "maximize": False, "weight_decay": 0.01 if i == 0 else 0.0,
                        "params": list(range(pid, pid + len(group))), "initial_lr": 3e-4})
            pid += len(group)
        return out

    def optimizer(self, g, t, p, cut, sharded=True):
        """The dict of one file; `cut` takes the rank's part of a tensor of the tp and pp rank."""
        local = {entry: on_rank(state, self.config, g, t, p)
                 for entry, state in self.states.items()}
        names = [name for group in grouped(local["exp_avg"], self.rule) for name in group]
        state = {pid: {"step": self.step, "exp_avg": cut(local["exp_avg"][name]),
                       "exp_avg_sq": cut(local["exp_avg_sq"][name])}
                 for pid, name in enumerate(names)}
        if not sharded:
            return {"state": state, "param_groups": self.groups(local["exp_avg"])}
        return {"state": {}, "param_groups": self.groups(local["exp_avg"]), "base_state": state,
                "shape_info": {pid: list(local["exp_avg"][name].shape)
                               for pid, name in enumerate(names)},
                "sharded_master_weights": {
                    pid: cut(local["sharded_master_weights"][name])
                    for pid, name in enumerate(names)}}

    def files(self, g, form):
        """Path below the tag and contents of every file of tensors."""
        for t in range(g.tp):
            for p in range(g.pp):
                yield (f"model/{NXD.v2_name(t, p)}", on_rank(self.model, self.config, g, t, p))
                end = f"tp_rank_{t:02d}_pp_rank_{p:02d}.pt"
                if form == "merged":
                    yield f"optim/full_{end}", self.optimizer(g, t, p, lambda x: x)
                elif form == "replicated":
                    yield f"optim/dp_rank_00_{end}", self.optimizer(g, t, p, lambda x: x, False)
                else:
                    for d in range(g.dp):
                        yield (f"optim/dp_rank_{d:02d}_{end}",
                               self.optimizer(g, t, p, lambda x, d=d: zero_shard(x, g.dp, d)))

    def save(self, tag, g, form="zero1", xser=False):
        for path, value in self.files(g, form):
            if xser:
                NXD.save_xser(value, os.path.join(tag, path), info=True)
            else:
                NXD.save(value, os.path.join(tag, path))
        NXD.save({"last_epoch": 10, "_last_lr": [1e-3]}, tag + "/scheduler.pt")
        NXD.save({"epoch": 0, "global_step": 10}, tag + "/user_content.pt")
        NXD.write(json.dumps(self.config), tag + "/config.json")
        NXD.markers(tag)


def load(path, xser):
    value = torch.load(path, weights_only=True)
    if not xser:
        return value

    def walk(v):
        if isinstance(v, NXD.TensorReference):
            return torch.load(f"{path}.tensors/tensor_{v.tid}.pt", weights_only=True)
        if isinstance(v, dict):
            return {key: walk(x) for key, x in v.items()}
        return v

    return walk(value)


class Reshard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_it(self, *arguments, code=0):
        done = subprocess.run([interop.program("nxd-reshard"), "-q", *arguments,
                               self.path("in"), self.path("out")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}{done.stderr}")
        self.assertEqual(os.path.exists(self.path("out")), code == 0)
        return done.stderr

    def assert_same(self, found, expected, where):
        self.assertIs(type(found), type(expected), where)
        if isinstance(expected, dict):
            self.assertEqual(list(found), list(expected), where)
            for key, value in expected.items():
                self.assert_same(found[key], value, f"{where}[{key}]")
        elif isinstance(expected, torch.Tensor):
            self.assertEqual(found.dtype, expected.dtype, where)
            self.assertEqual(found.shape, expected.shape, where)
            self.assertTrue(torch.equal(found, expected), where)
        elif isinstance(expected, list):
            self.assertEqual(len(found), len(expected), where)
            for i, value in enumerate(expected):
                self.assert_same(found[i], value, f"{where}[{i}]")
        else:
            self.assertEqual(found, expected, where)

    def assert_tag(self, training, g, form="zero1", xser=False):
        expected = dict(training.files(g, form))
        for path, value in expected.items():
            self.assert_same(load(self.path("out", path), xser), value, path)
        for folder in ("model", "optim"):
            mains = [name for name in os.listdir(self.path("out", folder))
                     if name.endswith(".pt") and not name.endswith(".info.pt")]
            self.assertEqual(sorted(f"{folder}/{name}" for name in mains),
                             sorted(path for path in expected if path.startswith(folder)))
        for name in ("scheduler.pt", "user_content.pt"):
            with open(self.path("in", name), "rb") as a, open(self.path("out", name), "rb") as b:
                self.assertEqual(a.read(), b.read())

    def check(self, training, a, b, form="zero1", out_form="zero1", xser=False, out_xser=False,
              options=()):
        shutil.rmtree(self.path("in"), ignore_errors=True)
        shutil.rmtree(self.path("out"), ignore_errors=True)
        training.save(self.path("in"), a, form, xser)
        flag = "--xser" if out_xser else "--no-xser"
        self.run_it(*(options or b.options()), flag, "--verify")
        self.assert_tag(training, b, out_form, out_xser)

    def test_geometries(self):
        one = Geometry()
        for config, a, b in (
                (LLAMA, one, Geometry(tp=2, pp=2, dp=3)),
                (LLAMA, Geometry(tp=2, dp=16), Geometry(dp=4)),
                (LLAMA, Geometry(tp=2, pp=5, dp=4), Geometry(tp=2, pp=2, vpp=2, dp=7)),
                (LLAMA, Geometry(tp=4, m=2, dp=2), Geometry(tp=2, pp=2, dp=16)),
                (LLAMA, Geometry(tp=2, dp=2), Geometry(tp=4, m=4, dp=3, hardware="trn1")),
                (LLAMA, Geometry(tp=2, style="separate", dp=2),
                 Geometry(tp=4, m=2, dp=5, style="linear", hardware="trn2")),
                (LLAMA, Geometry(tp=2, style="fused", dp=3), Geometry(style="separate", dp=2)),
                (QWEN3, Geometry(tp=4, m=2, dp=3, style="fused"), Geometry(tp=2, pp=3, dp=2)),
                (QWEN2, Geometry(tp=2, dp=3, style="separate"),
                 Geometry(pp=2, dp=2, style="separate")),
                (QWEN2, Geometry(tp=2, dp=3), Geometry(tp=4, m=2, dp=2))):
            with self.subTest(config["model_type"], a=vars(a), b=vars(b)):
                # The input's hardware is unknown; --hw sets it for both.
                if a.m > 1:
                    b.hardware = a.hardware
                self.check(Training(config), a, b)

    def test_forms(self):
        training = Training(LLAMA)
        a, b = Geometry(tp=2, dp=3), Geometry(pp=2, dp=4)
        whole = [word for word in b.options()]
        dp = whole.index("--dp")
        whole = whole[:dp] + whole[dp + 2:]
        self.check(training, a, b, form="merged")
        self.check(training, a, b, form="merged", out_form="merged", options=whole)
        self.check(training, a, b, form="replicated", out_form="replicated", options=whole)

    def test_xser(self):
        training = Training(LLAMA, step=10)
        a, b = Geometry(tp=2, dp=3), Geometry(pp=2, dp=4)
        for xser in (False, True):
            for out_xser in (False, True):
                with self.subTest(xser=xser, out_xser=out_xser):
                    self.check(training, a, b, xser=xser, out_xser=out_xser)

    def test_groups_and_dtypes(self):
        a, b = Geometry(tp=2, dp=3), Geometry(pp=2, dp=4)
        self.check(Training(LLAMA, rule="biases", dtype=torch.float64), a, b)
        self.check(Training(QWEN2, rule="biases"), a, b)
        self.check(Training(LLAMA, rule="one", step=7), a, b)

    def damage(self, path, change):
        value = torch.load(self.path("in", path), weights_only=True)
        change(value)
        torch.save(value, self.path("in", path))

    def test_a_replica_that_differs_is_refused(self):
        def change(value):  # one element of a norm, which every tp rank has
            value["base_state"][max(value["base_state"])]["exp_avg"][0] += 1
        Training(LLAMA).save(self.path("in"), Geometry(tp=2, dp=2))
        self.damage("optim/dp_rank_01_tp_rank_01_pp_rank_00.pt", change)
        self.assertIn("model.norm.weight/exp_avg", self.run_it("--dp", "1", code=3))

    def test_padding_that_is_not_zero_is_refused(self):
        def change(value):  # 10 rows on 16 ranks: rank 15 has padding only
            value["base_state"][max(value["base_state"])]["exp_avg"][0] = 1
        Training(LLAMA).save(self.path("in"), Geometry(tp=2, dp=16))
        self.damage("optim/dp_rank_15_tp_rank_00_pp_rank_00.pt", change)
        self.assertIn("padding must be 0", self.run_it("--dp", "1", code=3))

    def test_state_without_an_order_is_refused(self):
        def change(value):
            value["param_groups"][0]["params"].pop()
            value["param_groups"][1]["params"].insert(0, value["param_groups"][1]["params"][0] - 1)
        Training(LLAMA).save(self.path("in"), Geometry())
        self.damage("optim/dp_rank_00_tp_rank_00_pp_rank_00.pt", change)
        self.assertIn("no known order", self.run_it("--dp", "2", code=4))

    def test_zero1_saved_as_if_replicated_is_refused(self):
        Training(LLAMA).save(self.path("in"), Geometry(tp=2, dp=4))
        for d in range(1, 4):
            for t in range(2):
                os.remove(self.path("in", f"optim/dp_rank_{d:02d}_tp_rank_{t:02d}_pp_rank_00.pt"))
        self.assertIn("NxDT", self.run_it("--dp", "2", code=3))

    def test_context_parallel_shards_over_each_other_are_refused(self):
        Training(LLAMA).save(self.path("in"), Geometry(tp=2, dp=4))
        for d in range(2, 4):
            for t in range(2):
                os.remove(self.path("in", f"optim/dp_rank_{d:02d}_tp_rank_{t:02d}_pp_rank_00.pt"))
        self.assertIn("context parallel", self.run_it("--dp", "2", code=3))


if __name__ == "__main__":
    NXD.install_torch_xla()
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals([NXD.TensorReference])
    interop.main()
