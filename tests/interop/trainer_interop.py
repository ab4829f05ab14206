"""The files of grpo-train in the real torch and transformers: its NxD tag, its optimizer's state, and its Hugging Face
export.

Usage: python trainer_interop.py --bin-dir DIR
    DIR is tests/interop of the build; grpo-train lies in tools of the build.

Three steps of the arithmetic example on 2 tensor parallel x 2 data parallel ranks, each saved.
"""

import glob
import json
import os
import subprocess
import tempfile
import unittest

import torch
import transformers
from safetensors.torch import load_file

import interop

NXD = interop.load_make("nxd")
TP = DP = 2
CONFIGS = os.path.join(interop.SOURCE, "trainer", "configs")


def tag(run, step):
    return os.path.join(run, f"global_step_{step}", "actor")


def make_sums(folder):
    """The training data of arithmetic.yaml."""
    build = os.path.dirname(os.path.dirname(interop.program("grpo-train")))
    subprocess.run(["bash", os.path.join(CONFIGS, "arithmetic.sh"), "--build", build, folder],
                   check=True, stdout=subprocess.DEVNULL)


def train(sums, run, steps, *options):
    """Trains until there are so many steps, or continues to."""
    subprocess.run(
        [interop.program("grpo-train"), "--quiet", "--config",
         os.path.join(CONFIGS, "arithmetic.yaml"), f"data.train_files={sums}/data@train",
         f"data.val_files={sums}/data@test", f"worker.actor.model.model_path={sums}/model",
         f"trainer.save_checkpoint_path={run}", f"trainer.max_steps={steps}",
         "trainer.save_freq=1", "trainer.save_limit=-1", "trainer.val_freq=-1",
         "trainer.val_before_train=false", "trainer.cores=8", "trainer.logger=[file]",
         "worker.actor.optim.lr_scheduler_type=constant", *options], check=True)


def joined(parts, shape):
    """The tensor whose rows data parallel ranks share."""
    whole = torch.cat(parts)
    assert not whole[shape[0]:].any(), "padding"
    return whole[:shape[0]]


def load_rank(folder, rank):
    """The model of a tensor parallel rank, its optimizer's entries by parameter, whole again, the
    group, and the master weights: the model's where there are no others."""
    model = torch.load(f"{folder}/model/dp_rank_00_tp_rank_{rank:02d}_pp_rank_00.pt",
                       weights_only=True)
    shards = [torch.load(f"{folder}/optim/dp_rank_{d:02d}_tp_rank_{rank:02d}_pp_rank_00.pt",
                         weights_only=True) for d in range(DP)]
    state, masters = {}, dict(model)
    for pid, name in zip(shards[0]["param_groups"][0]["params"], model, strict=True):
        shape = torch.Size(shards[0]["shape_info"][pid])
        assert shape == model[name].shape, name
        state[name] = {"step": shards[0]["base_state"][pid]["step"]}
        for entry in ("exp_avg", "exp_avg_sq"):
            state[name][entry] = joined([s["base_state"][pid][entry] for s in shards], shape)
        if "sharded_master_weights" in shards[0]:
            masters[name] = joined([s["sharded_master_weights"][pid] for s in shards], shape)
    return model, state, shards[0]["param_groups"][0], masters


class Trainer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        sums = os.path.join(folder.name, "sums")
        cls.run_folder = os.path.join(folder.name, "run")
        make_sums(sums)
        train(sums, cls.run_folder, 3)
        with open(os.path.join(tag(cls.run_folder, 3), "config.json"), encoding="utf-8") as file:
            cls.config = json.load(file)

    def test_the_tag_is_the_export_cut_for_its_ranks(self):
        whole = load_file(os.path.join(tag(self.run_folder, 3), "huggingface", "model.safetensors"))
        for rank in range(TP):
            model, *_ = load_rank(tag(self.run_folder, 3), rank)
            expected = NXD.shard(whole, self.config, TP, rank, "separate", "trn1", 1)
            self.assertEqual(sorted(model), sorted(expected))
            for name, tensor in expected.items():
                self.assertTrue(torch.equal(model[name].bfloat16(), tensor), name)  # as EasyR1

    def test_torch_takes_the_next_step_from_the_saved_state(self):
        """The gradient of step 3 follows from the first moments; torch's AdamW, given it and the state of
        step 2, must arrive at the parameters and second moments of step 3."""
        for rank in range(TP):
            before, state, group, _ = load_rank(tag(self.run_folder, 2), rank)
            after, last, *_ = load_rank(tag(self.run_folder, 3), rank)
            beta1 = group["betas"][0]
            moved = 0
            for name, tensor in before.items():
                parameter = torch.nn.Parameter(tensor.clone())
                optimizer = torch.optim.AdamW([parameter], lr=3e-3, betas=tuple(group["betas"]),
                                              eps=group["eps"], weight_decay=group["weight_decay"])
                optimizer.state[parameter] = {key: torch.as_tensor(value).clone()
                                              for key, value in state[name].items()}
                first = state[name]["exp_avg"].double()
                parameter.grad = ((last[name]["exp_avg"].double() - beta1 * first)
                                  / (1 - beta1)).float()
                optimizer.step()
                with self.subTest(rank=rank, name=name):
                    # The gradient is rounded twice while passing through the moments.
                    torch.testing.assert_close(parameter.detach(), after[name],
                                               rtol=1e-4, atol=1e-6)
                    torch.testing.assert_close(optimizer.state[parameter]["exp_avg_sq"],
                                               last[name]["exp_avg_sq"], rtol=1e-4, atol=1e-12)
                    self.assertEqual(float(optimizer.state[parameter]["step"]),
                                     float(last[name]["step"]))
                moved += int((after[name] - tensor).abs().max() > 1e-4)
            self.assertGreater(moved, len(before) // 2, "hardly anything was trained")

    def test_transformers_opens_the_export(self):
        folder = os.path.join(tag(self.run_folder, 3), "huggingface")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = tokenizer("1+2=", return_tensors="pt").input_ids
        self.assertEqual(tuple(ids.shape), (1, 4))
        self.assertEqual(tokenizer.decode(ids[0]), "1+2=")
        out = model.generate(ids, max_new_tokens=2, do_sample=False)
        self.assertGreater(out.shape[1], 4)
        files = [os.path.basename(path) for path in glob.glob(os.path.join(folder, "*"))]
        self.assertIn("generation_config.json", files)


if __name__ == "__main__":
    interop.main()
