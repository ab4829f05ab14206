"""Distributed checkpoints against the real torch.distributed.checkpoint.

Usage: python dcp_interop.py --bin-dir DIR
    DIR is tests/interop of the build; the commands lie in tools of the build.

Training tags of every family go to checkpoints; models of 1, 2 and 4 gloo processes, cut by FSDP2
with and without tensor and expert parallelism, load them with dcp.load, save what they loaded, and
take one step of AdamW. Every parameter, moment and option must be the source's, the step that of a
plain optimizer over the source, and the tag made of what torch saved the tag that was there.
"""

import filecmp
import json
import os
import subprocess
import tempfile
import unittest

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

import dcp_models as models
import dcp_resume as resume
import interop
import reshard_interop as reshard

LAYERS = 2
FSDP = {world: [{"fsdp": world}] for world in (1, 2)}
FSDP[4] = [{"fsdp": 4}, {"fsdp": 2, "tp": 2}]
STACKED = {**FSDP, 4: FSDP[4] + [{"fsdp": 4, "experts": "ep"},
                                 {"fsdp": 2, "tp": 2, "experts": "ep,tp"}]}
# Family, style, nxd-convert's mesh for the checkpoint, and the mesh on which torch loads it.
CASES = [("llama", "torchtitan-unfused", ("--mesh", "dp=2,tp=2"), FSDP),
         ("qwen2", "hf", ("--mesh", "dp=3"), FSDP),
         ("qwen3", "torchtitan-unfused", ("--mesh", "dp=4,tp=2"), FSDP),
         ("mixtral", "hf", ("--chunks", "3"), FSDP),
         ("qwen3_moe", "hf", ("--mesh", "dp=1"), FSDP),
         ("qwen3_moe", "torchtitan-unfused", ("--mesh", "dp=2,tp=2"), STACKED)]
ARCHITECTURES = {"mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
STEP = 10
OPTIONS = [{"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": decay,
            "initial_lr": 3e-4} for decay in (0.01, 0.0)]


def config_of(family):
    dense = {"llama": reshard.LLAMA, "qwen2": reshard.QWEN2, "qwen3": reshard.QWEN3}
    if family in dense:
        return {**dense[family], "num_hidden_layers": LAYERS}
    return {**reshard.LLAMA, "model_type": family, "num_hidden_layers": LAYERS,
            "architectures": [ARCHITECTURES[family]], "num_local_experts": 4, "num_experts": 4,
            "num_experts_per_tok": 2, "moe_intermediate_size": 12}


class Dcp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_it(self, program, *arguments):
        done = subprocess.run([interop.program(program), "-q", *arguments], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}{done.stderr}")

    def convert(self, *arguments):
        self.run_it("nxd-convert", "--no-sync", *arguments)

    def write_config(self, config, folder):
        os.makedirs(folder, exist_ok=True)
        with open(folder + "/config.json", "w", encoding="utf-8") as f:
            json.dump(config, f)

    def assert_same_files(self, a, b, folders=("model", "optim")):
        """Both have the same files in these folders, byte for byte."""
        for folder in folders:
            names = sorted(os.listdir(os.path.join(a, folder)))
            self.assertEqual(names, sorted(os.listdir(os.path.join(b, folder))))
            same, _, _ = filecmp.cmpfiles(os.path.join(a, folder), os.path.join(b, folder), names,
                                          shallow=False)
            self.assertEqual(same, names, f"{a}, {b}")


class Source:
    """A model in training, by the names of transformers, and its tag."""

    GEOMETRY = reshard.Geometry(tp=2, dp=3, style="separate")
    WAY = ("--tp", "2", "--dp", "3", "--param-order", "norms", "--verify")

    def __init__(self, test, family, folder, **config):
        self.test, self.folder, self.config = test, folder, {**config_of(family), **config}
        self.experts = family in ARCHITECTURES
        self.options = OPTIONS
        if self.experts:
            self.options = [{**said, "initial_lr": 5e-4} for said in OPTIONS]
            self.make_experts()
        else:
            self.make_dense()

    def make_dense(self):
        """Saved by torch, as NxD's trainers do."""
        training = self.training = reshard.Training(self.config, "norms")
        # Second moments of a real run are not negative.
        training.states["exp_avg_sq"] = {n: t.abs() for n, t in
                                         training.states["exp_avg_sq"].items()}
        self.weights = training.states["sharded_master_weights"]
        training.model = {name: t.to(training.model[name].dtype)
                          for name, t in self.weights.items()}
        self.moments = training.states
        training.save(self.folder + "/tag", self.GEOMETRY)

    def make_experts(self):
        """Made from torch's checkpoint: no script here cuts experts as NxD does."""
        self.test.write_config(self.config, self.folder)
        self.test.run_it("nxdkit-make-model", "--config", self.folder + "/config.json", "--out",
                         self.folder + "/hf")
        found = load_file(self.folder + "/hf/model.safetensors")
        self.weights = {name: t.float() * 1.001 for name, t in found.items()}
        random = torch.Generator().manual_seed(5)
        self.moments = {"exp_avg": {name: torch.randn(t.shape, generator=random)
                                    for name, t in self.weights.items()},
                        "exp_avg_sq": {name: torch.rand(t.shape, generator=random)
                                       for name, t in self.weights.items()}}
        state = {}
        for group, options in zip(reshard.grouped(list(self.weights), "norms"), self.options):
            for name in group:
                state[f"state.{name}.step"] = torch.tensor(float(STEP))
                for moment in resume.MOMENTS:
                    state[f"state.{name}.{moment}"] = self.moments[moment][name]
                for option, value in options.items():
                    state[f"param_groups.{name}.{option}"] = value
        dcp.save({**self.weights, "optimizer": state, "lr_scheduler": {"last_epoch": STEP},
                  "train_state": {"step": STEP, "ntokens_seen": 640}},
                 checkpoint_id=self.folder + "/first", no_dist=True)
        self.to_tag("first", "tag")

    def to_tag(self, saved, tag):
        """Torch's checkpoint has no record of the tag's form, nor of the model."""
        config = self.folder + ("/config.json" if self.experts else "/tag/config.json")
        self.test.convert("--from", "dcp", "--to", "nxd", "--config", config, *self.WAY,
                          f"{self.folder}/{saved}", f"{self.folder}/{tag}")

    def write_expected(self, style, **more):
        """The source in the checkpoint's names, and the step that it would take."""
        groups = reshard.grouped(list(self.weights), "norms")
        made = resume.source_step(self.weights, self.moments, groups, self.options, STEP)
        by_name = {"weights": self.weights, **made,
                   **{moment: self.moments[moment] for moment in resume.MOMENTS}}
        expected = {key: models.renamed(value, self.config, style)
                    for key, value in by_name.items()}
        names = list(expected["weights"])
        expected.update(name=f"{self.config['model_type']} {style}", step=STEP,
                        options=self.options, groups=reshard.grouped(names, "norms"), **more)
        torch.save(expected, self.folder + "/expected.pt")

    def check_tag(self, tag):
        """A tag made of what torch saved is the one that was there."""
        if self.experts:
            return self.test.assert_same_files(self.folder + "/tag", f"{self.folder}/{tag}")
        test = self.test
        for name, value in self.training.files(self.GEOMETRY, "zero1"):
            found = torch.load(f"{self.folder}/{tag}/{name}", weights_only=True)
            if name.startswith("model/"):
                test.assertEqual(list(found), list(value))
                for key, tensor in value.items():
                    test.assertTrue(torch.equal(found[key], tensor), f"{name} {key}")
                continue
            for pid, state in value["base_state"].items():
                for key, tensor in state.items():
                    test.assertTrue(torch.equal(found["base_state"][pid][key], tensor),
                                    f"{name} {pid} {key}")
                test.assertTrue(torch.equal(found["sharded_master_weights"][pid],
                                            value["sharded_master_weights"][pid]))
            for mine, theirs in zip(found["param_groups"], value["param_groups"], strict=True):
                for key in ("lr", "betas", "eps", "weight_decay", "params"):
                    test.assertEqual(mine[key], theirs[key])
        return None


class Matrix(Dcp):
    """Every family over every number of processes; one group of processes has them all."""

    def make(self):
        sources = {}
        for family, style, cut, meshes in CASES:
            name = f"{family}-{style}"
            source = Source(self, family, self.path(name))
            self.convert("--from", "nxd", "--to", "dcp", "--style", style, *cut, "--verify",
                         self.path(name, "tag"), self.path(name, "dcp"))
            source.write_expected(style)
            sources[name] = (source, meshes)
        return sources

    def test_torch_resumes_and_what_it_saves_is_the_tag(self):
        sources = self.make()
        saved = {name: [] for name in sources}
        for world in (1, 2, 4):
            jobs = []
            for name, (_, meshes) in sources.items():
                for i, cut in enumerate(meshes[world]):
                    saved[name].append(f"saved-{world}-{i}")
                    jobs.append((self.path(name), "dcp", cut, saved[name][-1]))
            resume.spawn(resume.resume, world, jobs)
        for name, (source, _) in sources.items():
            with self.subTest(name):
                for one in saved[name]:
                    source.to_tag(one, "back-" + one)
                first, *others = saved[name]
                source.check_tag("back-" + first)
                for one in others:
                    self.assert_same_files(self.path(name, "back-" + first),
                                           self.path(name, "back-" + one))
                self.check_scheduler(self.path(name, "back-" + first))

    def check_scheduler(self, tag):
        """torch's schedules load the file made from the checkpoint's last_epoch."""
        state = torch.load(tag + "/scheduler.pt", weights_only=True)
        optimizer = torch.optim.AdamW([{"params": [torch.nn.Parameter(torch.zeros(1))]}
                                       for _ in OPTIONS], lr=3e-4)
        for made in (torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n)),
                     torch.optim.lr_scheduler.StepLR(optimizer, 7)):
            made.load_state_dict(dict(state))
            self.assertEqual(made.last_epoch, STEP)
            optimizer.step()
            made.step()
            self.assertEqual(made.last_epoch, STEP + 1)


class Transformers(Dcp):
    def test_models_of_transformers_resume(self):
        """Its own modules; of experts they have one tensor for all, where a checkpoint has each."""
        sources = [Source(self, family, self.path(family), hidden_size=16)
                   for family in ("llama", "qwen2", "qwen3", *ARCHITECTURES)]
        for source in sources:
            style = "hf-fused" if source.experts else "hf"
            self.convert("--from", "nxd", "--to", "dcp", "--style", style, "--mesh", "dp=2,tp=3",
                         "--verify", source.folder + "/tag", source.folder + "/dcp")
            source.write_expected(style, config=source.config)
        resume.spawn(resume.resume, 2, [(source.folder, "dcp", {"fsdp": 2}, "saved")
                                        for source in sources])
        for source in sources:
            source.to_tag("saved", "back")
            source.check_tag("back")

    def test_its_experts_are_read(self):
        for family in ARCHITECTURES:
            with self.subTest(family):
                self.check_experts(family)

    def check_experts(self, family):
        config = {**config_of(family), "hidden_size": 16}
        root = resume.of_transformers(config)
        shapes = {name: p.shape for name, p in root.named_parameters()}
        random = torch.Generator().manual_seed(6)
        state = {"weights": {n: torch.randn(s, generator=random) for n, s in shapes.items()},
                 "exp_avg": {n: torch.randn(s, generator=random) for n, s in shapes.items()},
                 "exp_avg_sq": {n: torch.rand(s, generator=random) for n, s in shapes.items()}}
        run = resume.Run(root, [list(shapes)])
        run.train({**state, "step": STEP, "options": OPTIONS[:1]})
        run.save(self.path(family, "saved"))
        self.write_config(config, self.path(family))
        self.convert("--from", "dcp", "--to", "nxd", "--config", self.path(family, "config.json"),
                     "--tp", "2", "--dp", "3", "--verify", self.path(family, "saved"),
                     self.path(family, "tag"))
        self.convert("--from", "nxd", "--to", "dcp", "--style", "hf", "--verify",
                     self.path(family, "tag"), self.path(family, "dcp"))
        expected = {key: models.apart(tensors, family) for key, tensors in state.items()}
        groups, options = [list(expected["weights"])], OPTIONS[:1]
        step = resume.source_step(expected["weights"], expected, groups, options, STEP)
        expected.update(step=STEP, options=options, **step)
        again = resume.Run(models.module_of(expected["weights"]), groups)
        again.load(self.path(family, "dcp"))
        again.check_loaded(expected)
        again.check_step(expected)


class Groups(Dcp):
    def test_groups_of_the_optimizer(self):
        """get_optimizer_state_dict, flattened or not: the same tag."""
        training = reshard.Training(reshard.QWEN2, "biases")
        root = models.module_of(training.model)
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
        self.write_config(reshard.QWEN2, self.folder)
        for flat in (True, False):
            state = get_optimizer_state_dict(
                root, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=flat))
            dcp.save({"model": root.state_dict(), "optimizer": state},
                     checkpoint_id=self.path(f"dcp{flat}"), no_dist=True)
            self.convert("--from", "dcp", "--to", "nxd", "--tp", "1", "--dp", "2", "--hw", "trn1",
                         "--config", self.path("config.json"), "--verify", self.path(f"dcp{flat}"),
                         self.path(f"tag{flat}"))
        self.assert_same_files(self.path("tagTrue"), self.path("tagFalse"))
        found = torch.load(self.path("tagFalse", "optim/dp_rank_01_tp_rank_00_pp_rank_00.pt"),
                           weights_only=True)
        self.assertEqual([g["weight_decay"] for g in found["param_groups"]], [0.01, 0.0])
        self.assertEqual(found["param_groups"][0]["lr"], torch.tensor(1e-3).item())


if __name__ == "__main__":
    reshard.NXD.install_torch_xla()
    interop.main()
