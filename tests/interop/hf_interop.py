"""Our Hugging Face folders against transformers and huggingface_hub.

Usage: python hf_interop.py --bin-dir DIR    (DIR holds hf_probe and safetensors_probe)
"""

import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest

import torch
from huggingface_hub.serialization._base import parse_size_to_int, split_state_dict_into_shards_factory
from safetensors import safe_open
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import interop



def tiny_model():
    torch.manual_seed(3)
    config = LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=40, max_position_embeddings=64,
                         tie_word_embeddings=False)
    return LlamaForCausalLM(config).to(torch.bfloat16)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_probe(self, program, *arguments):
        done = subprocess.run([interop.program(program), *arguments], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def ask(self, command, question):
        with open(self.path("question.json"), "w", encoding="utf-8") as file:
            json.dump(question, file)
        return self.run_probe("hf_probe", command, self.path("question.json"))

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()


class Split(Case):
    def test_random_sizes(self):
        rng = random.Random(1)
        for _ in range(200):
            sizes = [rng.choice([0, 1, rng.randint(0, 30), rng.randint(0, 300)]) for _ in range(rng.randint(0, 40))]
            limit = rng.choice([1, 10, 30, 100, 299, 10_000])
            state = {f"t{i}": size for i, size in enumerate(sizes)}
            theirs = split_state_dict_into_shards_factory(
                state, get_storage_size=lambda size: size, max_shard_size=limit,
                filename_pattern="model{suffix}.safetensors")
            ours = json.loads(self.ask("split", {"limit": limit, "bytes": sizes}))
            names = json.loads(self.ask("names", {"count": len(ours)}))
            found = {name: [f"t{i}" for i in shard] for name, shard in zip(names, ours, strict=True)}
            self.assertEqual(found, theirs.filename_to_tensors, (sizes, limit))

    def test_sizes_as_text(self):
        texts = ["5GB", "500MB", "1.5 gb", " 2kb ", "1TB", "0.3KB", "1e3 Mb", "1.0015KB", "2.675MB", "0.1GB",
                 "1.1GB", "4.35TB", "5GiB", "5G", "GB", "five GB", "1,5GB", "+5GB"]
        for text, ours in zip(texts, json.loads(self.ask("size", texts)), strict=True):
            try:
                theirs = parse_size_to_int(text)
            except ValueError:
                theirs = None
            self.assertEqual(ours, theirs, text)


class Folders(Case):
    def test_open_what_transformers_saves(self):
        model = tiny_model()
        for limit, sharded in (("1KB", True), ("3KB", True), ("5GB", False)):
            folder = self.path("saved")
            shutil.rmtree(folder, ignore_errors=True)
            model.save_pretrained(folder, max_shard_size=limit)
            answer = json.loads(self.run_probe("hf_probe", "open", folder))
            self.assertEqual(answer["sharded"], sharded)
            expected = {}
            for file in os.listdir(folder):
                if file.endswith(".safetensors"):
                    with safe_open(os.path.join(folder, file), framework="pt") as reader:
                        expected[file] = sorted(reader.keys())
            self.assertEqual({file: sorted(names) for file, names in answer["files"].items()}, expected)

    def test_index_is_transformers_index(self):
        model = tiny_model()
        model.save_pretrained(self.folder, max_shard_size="2KB")
        theirs = self.read(self.path("model.safetensors.index.json"))
        index = json.loads(theirs)
        ours = self.ask("index", {"weight_map": index["weight_map"], **index["metadata"]})
        self.assertEqual(ours, theirs)

    # Shards, headers and index are ours; config.json is copied.
    def test_transformers_loads_what_we_write(self):
        model = tiny_model()
        model.save_pretrained(self.path("theirs"), max_shard_size="5GB")
        os.mkdir(self.path("ours"))
        state = model.state_dict()
        names = list(state)
        shards = json.loads(self.ask("split", {"limit": 3000, "bytes": [state[n].nbytes for n in names]}))
        files = json.loads(self.ask("names", {"count": len(shards)}))
        self.assertGreater(len(files), 2)
        weight_map = {}
        for file, shard in zip(files, shards, strict=True):
            spec = {"metadata": {"format": "pt"}, "tensors": [
                {"name": names[i], "dtype": "BF16", "shape": list(state[names[i]].shape),
                 "hex": state[names[i]].contiguous().view(torch.uint8).numpy().tobytes().hex()} for i in shard]}
            weight_map.update({names[i]: file for i in shard})
            with open(self.path("spec.json"), "w", encoding="utf-8") as out:
                json.dump(spec, out)
            self.run_probe("safetensors_probe", "write", self.path("spec.json"), self.path("ours/" + file))
        index = self.ask("index", {"weight_map": weight_map, "total_parameters": model.num_parameters(),
                                   "total_size": sum(t.nbytes for t in state.values())})
        with open(self.path("ours/model.safetensors.index.json"), "w", encoding="utf-8") as out:
            out.write(index)
        shutil.copy(self.path("theirs/config.json"), self.path("ours/config.json"))
        loaded = AutoModelForCausalLM.from_pretrained(self.path("ours"), dtype=torch.bfloat16).state_dict()
        self.assertEqual(sorted(loaded), sorted(state))
        for name, tensor in state.items():
            self.assertTrue(torch.equal(loaded[name], tensor), name)


if __name__ == "__main__":
    interop.main()
