"""Folders that transformers saves, of every family of testdata/families: inspected, digested, sharded,
brought back and compared.

Usage: python families_road_interop.py --bin-dir DIR   (see lora_interop.py)
"""

import json
import os
import subprocess
import tempfile
import unittest
import warnings

import torch
import transformers
from safetensors.torch import load_file

import interop

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata", "families")
WITHOUT_TEXT = ("gemma4_text",)


def cases():
    found = {}
    for name in ("families.json", "more.json"):
        with open(os.path.join(FOLDER, name)) as file:
            found.update(json.load(file)["families"])
    return found


class Road(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        transformers.utils.logging.disable_progress_bar()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_tool(self, name, *arguments):
        done = subprocess.run([interop.program(name), *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def save(self, case):
        model_class = getattr(transformers, case["architecture"])
        torch.manual_seed(5)
        model = model_class(model_class.config_class.from_dict(case["config"])).to(torch.bfloat16)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
        model.save_pretrained(self.path("model"))

    def walk(self, case):
        self.save(case)
        model, shards, back = map(self.path, ("model", "shards", "back"))
        seen = json.loads(self.run_tool("ckpt-inspect", "--json", "--top", "0", model))
        self.assertEqual(seen["layout_check"]["outcome"], "fits", seen["layout_check"])
        self.assertEqual(seen["layout_check"]["missing_parameters"], 0)
        digest = self.run_tool("ckpt-digest", model)
        self.run_tool("nxd-convert", "--no-sync", "--from", "hf", "--to", "nxd", "--tp", "2", "--verify", model, shards)
        self.assertEqual(self.run_tool("ckpt-digest", shards), digest)
        self.run_tool("nxd-convert", "--no-sync", "--from", "nxd", "--to", "hf", shards, back)
        self.run_tool("ckpt-diff", model, back)
        before, after = (load_file(os.path.join(path, "model.safetensors")) for path in (model, back))
        self.assertEqual(sorted(before), sorted(after))
        for name, tensor in before.items():
            self.assertTrue(torch.equal(tensor, after[name]), name)


def add(name, case):
    setattr(Road, "test_" + name.replace("-", "_"), lambda self: self.walk(case))


for one, row in cases().items():
    if one not in WITHOUT_TEXT:
        add(one, row)

if __name__ == "__main__":
    interop.main()
