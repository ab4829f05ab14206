"""From grpo-train to torch and back: its NxD tag, with the optimizer, becomes a distributed
checkpoint by one command, the real torch resumes from it, and what torch saves is the tag again.

Usage: python dcp_trainer_interop.py --bin-dir DIR
    DIR is tests/interop of the build; the commands lie in tools of the build.

Two steps of the arithmetic example, on 2 tensor parallel x 2 data parallel ranks: over weights in
F32, and in BF16 with master weights.
"""

import filecmp
import json
import os
import shutil
import tempfile

import torch

import dcp_interop as dcps
import dcp_models as models
import dcp_resume as resume
import interop
import trainer_interop as trainer

NXD = trainer.NXD
STEP = 2


def merged(ranks, config):
    """Tensors of tensor parallel ranks as one model. Where each number belongs is what the cut of a
    model of positions shows."""
    positions, count = {}, 0
    for name, shape in NXD.shapes(config).items():
        size = torch.Size(shape).numel()
        positions[name] = torch.arange(count, count + size).view(shape)
        count += size
    flat = torch.full((count,), float("nan"))
    for rank, tensors in enumerate(ranks):
        cut = NXD.shard(positions, config, trainer.TP, rank, "separate", "trn1", 1)
        assert cut.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert tensor.dtype == torch.float32, name
            flat[cut[name].flatten()] = tensor.flatten()
    return {name: flat[at] for name, at in positions.items()}


def rows(run):
    """The metrics of each step, except time and memory."""
    found = {}
    with open(os.path.join(run, "experiment_log.jsonl"), encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            kept = {key: value for key, value in row.items()
                    if not key.startswith(("perf", "timing"))}
            found.setdefault(row["step"], {}).update(kept)
    return found


class FromTheTrainer(dcps.Dcp):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.sums = os.path.join(folder.name, "sums")
        trainer.make_sums(cls.sums)

    def train(self, run, steps):
        trainer.train(self.sums, self.path(run), steps, *self.options)
        return trainer.tag(self.path(run), STEP)

    def write_expected(self, tag):
        """The state in the tag's own files, read by torch, and the step that follows from it."""
        with open(tag + "/config.json", encoding="utf-8") as file:
            config = json.load(file)
        ranks = [trainer.load_rank(tag, rank) for rank in range(trainer.TP)]
        group = ranks[0][2]
        weights = merged([masters for *_, masters in ranks], config)
        moments = {moment: merged([{name: state[moment] for name, state in states.items()}
                                   for _, states, *_ in ranks], config)
                   for moment in resume.MOMENTS}
        for state in ranks[0][1].values():
            self.assertEqual(float(state["step"]), STEP)
        options = [{"lr": group["lr"], "betas": tuple(group["betas"]), "eps": group["eps"],
                    "weight_decay": group["weight_decay"]}]
        step = resume.source_step(weights, moments, [list(weights)], options, STEP)
        expected = {key: models.renamed(value, config, "torchtitan-unfused")
                    for key, value in {"weights": weights, **moments, **step}.items()}
        torch.save({**expected, "name": "the trainer's", "step": STEP, "options": options,
                    "groups": [list(expected["weights"])]}, self.path("expected.pt"))

    def check_back(self, tag, back):
        """Every file is the trainer's, but for those that are named here."""
        shutil.rmtree(tag + "/huggingface")  # its export, which nxd-convert --to hf makes
        os.remove(back + "/scheduler.pt")  # from lr_scheduler, for which the trainer has no file
        self.check_config(tag, back)
        if self.masters:
            self.assert_same_tree(tag, back, ["config.json"])
            return
        # Nothing in torch's checkpoint shows that the weights were F32, or that this made separate
        # master weights needless: they are in the tag as well.
        shutil.copytree(back, self.path("without"))
        for rank in range(trainer.TP):
            for d in range(trainer.DP):
                name = f"optim/dp_rank_{d:02d}_tp_rank_{rank:02d}_pp_rank_00.pt"
                found, there = (torch.load(f"{of}/{name}", weights_only=True)
                                for of in (back, tag))
                self.assertEqual(set(found) - set(there), {"sharded_master_weights"})
                self.assert_same_values(there, {key: found[key] for key in there}, name)
                os.remove(f"{self.path('without')}/{name}")
                shutil.copy(f"{tag}/{name}", f"{self.path('without')}/{name}")
            model, *_, masters = trainer.load_rank(back, rank)
            self.assert_same_values(model, masters, "master weights")
        self.assert_same_tree(tag, self.path("without"))

    def check_config(self, tag, back):
        """The trainer keeps its model's config.json, which does not know that it trains in BF16."""
        found = []
        for folder in (tag, back):
            with open(folder + "/config.json", encoding="utf-8") as file:
                found.append(json.load(file))
        trained_in = "bfloat16" if self.masters else "float32"
        self.assertEqual(found[1], {**found[0], "torch_dtype": trained_in})

    def assert_same_values(self, a, b, where):
        if isinstance(a, torch.Tensor):
            self.assertTrue(a.dtype == b.dtype and torch.equal(a, b), where)
        elif isinstance(a, dict):
            self.assertEqual(list(a), list(b), where)
            for key, value in a.items():
                self.assert_same_values(value, b[key], f"{where} {key}")
        else:
            self.assertEqual(a, b, where)

    def assert_same_tree(self, a, b, ignored=()):
        compared = filecmp.dircmp(a, b, ignore=list(ignored))
        self.assertEqual(compared.left_only + compared.right_only, [], f"{a}, {b}")
        _, differ, unread = filecmp.cmpfiles(a, b, compared.common_files, shallow=False)
        self.assertEqual(differ + unread, [], f"{a}, {b}")
        for name in compared.common_dirs:
            self.assert_same_tree(os.path.join(a, name), os.path.join(b, name))

    def check_resumed(self, back):
        """The trainer's next step from the tag that came back is the one from its own."""
        shutil.copytree(self.path("run"), self.path("again"))
        shutil.rmtree(trainer.tag(self.path("again"), STEP))
        shutil.copytree(back, trainer.tag(self.path("again"), STEP))
        for run in ("run", "again"):
            self.train(run, STEP + 1)
        own, again = rows(self.path("run")), rows(self.path("again"))
        self.assertEqual(sorted(own), [1, 2, 3])
        self.assertEqual(own, again)
        self.assert_same_tree(trainer.tag(self.path("run"), STEP + 1),
                              trainer.tag(self.path("again"), STEP + 1))

    def check(self):
        tag = self.train("run", STEP)
        self.write_expected(tag)
        self.convert("--from", "nxd", "--to", "dcp", "--style", "torchtitan-unfused", "--mesh", "dp=2",
                     "--verify", tag, self.path("dcp"))
        resume.spawn(resume.resume, 2, [(self.folder, "dcp", {"fsdp": 2}, "saved")])
        self.convert("--from", "dcp", "--to", "nxd", "--tp", "2", "--dp", "2", "--verify",
                     self.path("dcp"), self.path("untouched"))
        self.convert("--from", "dcp", "--to", "nxd", "--tp", "2", "--dp", "2", "--verify",
                     *self.dtype, "--config", tag + "/config.json", self.path("saved"),
                     self.path("back"))
        self.check_back(tag, self.path("back"))
        self.check_config(tag, self.path("untouched"))
        self.assert_same_tree(tag, self.path("untouched"), ["config.json"])
        self.check_resumed(self.path("back"))

    def test_weights_in_f32(self):
        self.options, self.masters, self.dtype = (), False, ()
        self.check()

    def test_weights_in_bf16_with_masters(self):
        self.options, self.masters = ("worker.actor.compute_dtype=bf16",), True
        self.dtype = ("--dtype", "bf16")
        self.check()


if __name__ == "__main__":
    dcps.reshard.NXD.install_torch_xla()
    interop.main()
