"""TorchTitan's checkpoints of now and of 2025, through nxd-convert, in the real torch.

Usage: python dcp_titan_interop.py --bin-dir DIR
    DIR is tests/interop of the build; the commands lie in tools of the build.

The folders of testdata/dcp, which torch wrote, and what a run of 2025 would have saved, with the
names and the whole schedule of then, are converted between the names. A model resumes from each as
TorchTitan does: through get_ and set_optimizer_state_dict, flattened.
"""

import copy
import glob
import hashlib
import json
import os

import torch
import torch.distributed.checkpoint as dcp

import dcp_interop as dcps
import dcp_models as models
import dcp_resume as resume
import interop
import reshard_interop as reshard

DATA = os.path.join(interop.SOURCE, "testdata", "dcp")
STYLES = ("torchtitan-unfused", "torchtitan-2025", "hf")


class Epochs:
    """A schedule that adds nothing to the optimizer's groups."""

    def __init__(self, _):
        self.of, self.last_epoch = self, resume.UNLOADED

    def state_dict(self):
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state):
        self.last_epoch = state["last_epoch"]

    def step(self):
        self.last_epoch += 1


class WholeSchedule(resume.Schedule):
    """TorchTitan's LRSchedulersContainer of 2025."""

    def state_dict(self):
        return self.of.state_dict()

    def load_state_dict(self, state):
        """TorchTitan of then has one group of options; the optimizer here has two, of equal rates."""
        state = copy.deepcopy(state)
        for key in ("base_lrs", "_last_lr", "lr_lambdas"):
            state[key] = list(state[key]) * (len(self.of.base_lrs) // len(state[key]))
        self.of.load_state_dict(state)


def sha256(tensor):
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


class Fixtures(dcps.Dcp):
    """Three of the parameters are trained, and no schedule has added its initial_lr."""

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(DATA, "expected.json"), encoding="utf-8") as file:
            cls.said = json.load(file)
        with open(os.path.join(DATA, "config.json"), encoding="utf-8") as file:
            cls.config = json.load(file)
        cls.names = list(reshard.NXD.shapes(cls.config))

    def names_of(self, style):
        """The names of a style by those of expected.json."""
        return {models.titan_name(name):
                {"hf": name, "torchtitan-unfused": models.titan_name(name),
                 "torchtitan-2025": models.old_name(models.titan_name(name))}[style]
                for name in self.names}

    def expected(self, kind, style):
        """The folder as torch itself reads it, compared with expected.json."""
        keys = self.said["tensors"]
        flat = {key: torch.empty(keys[key]["shape"]) for key in keys}
        dcp.load(flat, checkpoint_id=os.path.join(DATA, kind), no_dist=True)
        for key, tensor in flat.items():
            self.assertEqual(sha256(tensor), keys[key]["sha256"], f"{kind} {key}")
        names, trained = self.names_of(style), self.said["trained"]
        weights = {names[name]: flat[name] for name in names}
        moments = {moment: {names[name]: flat[f"optimizer.state.{name}.{moment}"]
                            for name in trained} for moment in resume.MOMENTS}
        groups = [[names[name] for name in trained]]
        objects = self.said["objects"][kind]["optimizer"]
        options = {option: objects[f"param_groups.{trained[0]}.{option}"]
                   for option in ("lr", "betas", "eps", "weight_decay")}
        options["betas"] = tuple(options["betas"])
        step = resume.source_step({name: weights[name] for name in groups[0]}, moments, groups,
                                  [options], 1)
        step["stepped"] = {**weights, **step["stepped"]}
        return {"weights": weights, **moments, **step, "groups": groups, "options": [options],
                "step": 1}

    def run_of(self, expected):
        root = models.module_of(expected["weights"])
        for name, p in root.named_parameters():
            p.requires_grad_(name in expected["groups"][0])
        return resume.Run(root, expected["groups"], Epochs)

    def convert_to(self, kind, style):
        out = self.path(f"{kind}-{style}")
        self.convert("--from", "dcp", "--to", "dcp", "--style", style, "--mesh", "dp=2,tp=2",
                     "--config", os.path.join(DATA, "config.json"), "--verify",
                     os.path.join(DATA, kind), out)
        return out

    def test_torch_resumes_from_each_in_any_names(self):
        for kind in ("one", "fsdp4", "mesh2x2"):
            for style in STYLES:
                with self.subTest(kind, style=style):
                    expected = self.expected(kind, style)
                    run = self.run_of(expected)
                    run.load(self.convert_to(kind, style))
                    run.check_loaded(expected)
                    run.check_step(expected)

    def test_a_byte_that_differs_is_seen(self):
        """Torch does not look at checksums: what finds it is the comparison."""
        out = self.convert_to("one", "torchtitan-unfused")
        expected = self.expected("one", "torchtitan-unfused")
        name = expected["groups"][0][0]
        for where, tensor in (("weights", expected["weights"][name]),
                              ("exp_avg_sq", expected["exp_avg_sq"][name])):
            with self.subTest(where):
                # dp=2,tp=2: a part has adjacent rows of one half; one row is in one piece.
                piece = tensor[0].numpy().tobytes()
                self.flip(out, piece)
                run = self.run_of(expected)
                run.load(out)
                with self.assertRaisesRegex(AssertionError, name):
                    run.check_loaded(expected)
                self.flip(out, piece[:-1] + bytes([piece[-1] ^ 1]))
        run = self.run_of(expected)
        run.load(out)
        run.check_loaded(expected)

    def flip(self, folder, piece):
        """The lowest bit of these bytes' last one, which lie in one file."""
        found = 0
        for path in glob.glob(folder + "/*.distcp"):
            with open(path, "r+b") as file:
                at = file.read().find(piece)
                if at < 0:
                    continue
                file.seek(at + len(piece) - 1)
                file.write(bytes([piece[-1] ^ 1]))
                found += 1
        self.assertEqual(found, 1)


class Of2025(dcps.Dcp):
    def expected(self, source, style):
        source.write_expected(style)
        return torch.load(source.folder + "/expected.pt", weights_only=True)

    def resumed(self, folder, expected, schedule):
        run = resume.Run(models.module_of(expected["weights"]), expected["groups"], schedule)
        run.load(folder)
        run.check_loaded(expected)
        if schedule is WholeSchedule:
            self.assertEqual(run.schedule.of.base_lrs,
                             [options["initial_lr"] for options in expected["options"]])
        return run

    def test_from_a_tag_and_back_and_to_now(self):
        for family in ("llama", "qwen3", "qwen3_moe"):
            with self.subTest(family):
                source = dcps.Source(self, family, self.path(family))
                old = self.expected(source, "torchtitan-2025")
                self.convert("--from", "nxd", "--to", "dcp", "--style", "torchtitan-2025",
                             "--verify", self.path(family, "tag"), self.path(family, "dcp"))
                run = self.resumed(self.path(family, "dcp"), old, WholeSchedule)
                run.save(self.path(family, "saved"))
                run.check_step(old)
                source.to_tag("saved", "back")
                source.check_tag("back")
                self.check_names(source, old)

    def check_names(self, source, old):
        """Checks the saved state, under its own names and under today's."""
        config = source.folder + "/tag/config.json"
        for style, schedule, expected in (
                ("torchtitan-2025", WholeSchedule, old),
                ("torchtitan-unfused", resume.Schedule, self.expected(source, "torchtitan-unfused"))):
            out = f"{source.folder}/again-{style}"
            self.convert("--from", "dcp", "--to", "dcp", "--style", style, "--chunks", "2",
                         "--config", config, "--verify", source.folder + "/saved", out)
            self.resumed(out, expected, schedule).check_step(expected)


class Tied(dcps.Dcp):
    def test_embeddings_that_are_the_head(self):
        """The model has two names of them, the optimizer one."""
        source = dcps.Source(self, "qwen3", self.path("tied"), tie_word_embeddings=True)
        source.write_expected("torchtitan-unfused")
        expected = torch.load(source.folder + "/expected.pt", weights_only=True)
        head = expected["weights"]["tok_embeddings.weight"]
        self.convert("--from", "nxd", "--to", "dcp", "--style", "torchtitan-unfused", "--verify",
                     self.path("tied", "tag"), self.path("tied", "dcp"))
        root = models.module_of({**expected["weights"], "lm_head.weight": head})
        root.lm_head.weight = root.tok_embeddings.weight
        run = resume.Run(root, expected["groups"])
        run.load(self.path("tied", "dcp"))
        run.check_loaded(expected)
        run.save(self.path("tied", "saved"))
        run.check_step(expected)
        source.to_tag("saved", "back")
        source.check_tag("back")


if __name__ == "__main__":
    reshard.NXD.install_torch_xla()
    interop.main()
