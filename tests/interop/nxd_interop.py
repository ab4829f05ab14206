"""nxd-convert's shard sets, bundles and state dicts against the real torch and safetensors.

Usage: python nxd_interop.py --bin-dir DIR   (DIR is tests/interop of the build; nxd-convert lies in
                                              DIR itself or in tools of the build)

What nxd-convert wrote is loaded with the peers and compared with shards that testdata/nxd/make.py
and testdata/rollout/make.py cut on their own; what torch saved is converted and compared with its
source.
"""

import json
import os
import subprocess
import tempfile
import unittest

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import interop

NXD = interop.load_make("nxd")
ROLLOUT = interop.load_make("rollout")

# Only sizes that NxD requires to be are multiples of 4; head_dim is not hidden / heads.
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 10,
         "intermediate_size": 12, "num_hidden_layers": 3, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 20, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16"}
QWEN2 = {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 48,
         "num_key_value_heads": 8}
QWEN3 = {**LLAMA, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
         "tie_word_embeddings": True}


def read_safetensors(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def read_torch(path):
    return torch.load(path, weights_only=True)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def convert(self, *arguments):
        done = subprocess.run([interop.program("nxd-convert"), "-q", *arguments],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}{done.stderr}")

    def make_hf(self, config, seed=5):
        """A Hugging Face folder; returns its tensors."""
        model = NXD.make_model(config, seed)
        os.makedirs(self.path("hf"), exist_ok=True)
        save_file(model, self.path("hf", "model.safetensors"), {"format": "pt"})
        with open(self.path("hf", "config.json"), "w", encoding="ascii") as out:
            json.dump(config, out)
        return model

    def assert_same(self, found, expected, names_in_order=False):
        self.assertEqual(sorted(found), sorted(expected))
        if names_in_order:
            self.assertEqual(list(found), list(expected))
        for name, tensor in expected.items():
            self.assertEqual(found[name].dtype, tensor.dtype, name)
            self.assertEqual(found[name].shape, tensor.shape, name)
            self.assertTrue(torch.equal(found[name], tensor), name)


class Nxd(Case):
    LAYOUTS = [  # config, tp, style, hardware, kv multiplier
        (LLAMA, 1, "separate", "trn1", 1), (LLAMA, 2, "separate", "trn1", 1),
        (LLAMA, 2, "linear", "trn1", 1), (LLAMA, 4, "linear", "trn1", 2),
        (LLAMA, 4, "linear", "trn2", 2), (LLAMA, 4, "fused", "trn1", 2),
        (LLAMA, 4, "fused", "trn2", 2), (LLAMA, 4, "fused", "trn1", 4),
        (LLAMA, 2, "linear", "trn2", 4), (QWEN2, 4, "coalesced", "trn1", 1),
        (QWEN2, 2, "fused", "trn1", 1), (QWEN2, 2, "linear", "trn1", 1),
        (QWEN3, 4, "linear", "trn2", 2), (QWEN3, 4, "fused", "trn1", 2)]

    def options(self, tp, style, hardware, m):
        return ["--from", "hf", "--to", "nxd", "--tp", str(tp), "--qkv", style, "--hw", hardware,
                "--kv-multiplier", str(m)]

    def test_plain_sets_load_with_the_right_values(self):
        for config, tp, style, hardware, m in self.LAYOUTS:
            with self.subTest(config["model_type"], tp=tp, style=style, hardware=hardware, m=m):
                model = self.make_hf(config)
                self.convert(*self.options(tp, style, hardware, m), "--force", self.path("hf"),
                             self.path("tag"))
                for t in range(tp):
                    found = read_torch(self.path("tag", "model", NXD.v2_name(t)))
                    self.assertIs(type(found), dict)
                    self.assert_same(found, NXD.shard(model, config, tp, t, style, hardware, m))
                    for name, tensor in found.items():
                        self.assertTrue(tensor.is_contiguous(), name)
                        self.assertEqual(tensor.storage_offset(), 0, name)
                for marker in ("checkpoint", "done"):
                    with open(self.path("tag", marker), "rb") as file:
                        self.assertEqual(file.read(), b"1")

    def test_xser_sets_load_with_the_right_values(self):
        model = self.make_hf(QWEN3)
        self.convert(*self.options(4, "fused", "trn1", 2), "--xser", self.path("hf"),
                     self.path("tag"))
        with torch.serialization.safe_globals([NXD.TensorReference]):
            for t in range(4):
                main = self.path("tag", "model", NXD.v2_name(t))
                references = read_torch(main)
                self.assertEqual([r.tid for r in references.values()], list(range(len(references))))
                info = read_torch(main + ".info.pt")
                found = {}
                for name, reference in references.items():
                    self.assertIs(type(reference), NXD.TensorReference)
                    found[name] = read_torch(f"{main}.tensors/tensor_{reference.tid}.pt")
                    self.assertEqual(info[reference.tid], {
                        "dtype": found[name].dtype, "shape": found[name].shape,
                        "expert_model_parallel": False})
                    self.assertIs(type(info[reference.tid]["shape"]), torch.Size)
                self.assertEqual(len(os.listdir(main + ".tensors")), len(references))
                self.assert_same(found, NXD.shard(model, QWEN3, 4, t, "fused", "trn1", 2))

    def test_pipeline_ranks_hold_their_layers(self):
        model = self.make_hf(LLAMA)
        self.convert("--from", "hf", "--to", "nxd", "--tp", "2", "--pp", "2", self.path("hf"),
                     self.path("tag"))
        for t in range(2):
            whole = NXD.shard(model, LLAMA, 2, t, "separate")
            for p in range(2):
                # Three layers on two ranks: the last one holds one more.
                self.assert_same(read_torch(self.path("tag", "model", NXD.v2_name(t, p))),
                                 {name: tensor for name, tensor in whole.items()
                                  if NXD.on_pipeline_rank(name, [0, 1, 1], p, 2)})

    def test_megatron_names(self):
        model = self.make_hf(LLAMA)
        self.convert("--from", "hf", "--to", "nxd", "--tp", "2", "--style", "megatron",
                     self.path("hf"), self.path("tag"))
        for t in range(2):
            self.assert_same(read_torch(self.path("tag", "model", NXD.v2_name(t))),
                             NXD.megatron(NXD.shard(model, LLAMA, 2, t, "separate")))


class Rollout(Case):
    def check(self, config, tp, folder, flags, **expected):
        """nxd to rollout, so that nothing passes through Hugging Face's layout."""
        model = self.make_hf(config)
        self.convert("--from", "hf", "--to", "nxd", "--tp", "2", self.path("hf"), self.path("tag"))
        self.convert("--from", "nxd", "--to", "rollout", "--tp", str(tp), "--bs", "4",
                     "--seq", "512", *flags, self.path("tag"), self.path("bundle"))
        for rank in range(tp):
            path = self.path("bundle", folder, f"tp{rank}_sharded_checkpoint.safetensors")
            with safe_open(path, "pt") as file:
                self.assertFalse(file.metadata())
            found = read_safetensors(path)
            layers = {}
            for layer in range(config["num_hidden_layers"]):
                one = self.one_layer(model, layer)
                for name, tensor in ROLLOUT.shard(one, config, tp, rank, **expected).items():
                    layers[name.replace("layers.0.", f"layers.{layer}.")] = tensor
            self.assert_same(found, layers)
        with open(self.path("bundle", "neuron_config.json"), encoding="utf-8") as file:
            return json.load(file)

    @staticmethod
    def one_layer(model, layer):
        """The model as if `layer` were its only one."""
        return {name.replace(f"layers.{layer}.", "layers.0."): tensor
                for name, tensor in model.items()
                if ".layers." not in name or f".layers.{layer}." in name}

    def test_optimum(self):
        neuron = self.check(QWEN3, 4, "checkpoint/weights", ["--flavor", "optimum"], fused=True)
        self.assertEqual(neuron["tp_degree"], 4)
        self.assertEqual(neuron["torch_dtype"], "bfloat16")
        self.assertEqual(set(neuron), set(ROLLOUT.OPTIMUM))

    def test_optimum_with_padded_heads(self):
        # 8 query heads on 16 ranks, 2 key heads: 4 zero heads after each group of 4.
        self.check(LLAMA, 16, "checkpoint/weights", ["--flavor", "optimum", "--no-fused-qkv"],
                   fused=False)

    def test_nxdi(self):
        neuron = self.check(LLAMA, 4, "weights", ["--flavor", "nxdi", "--fused-qkv"], fused=True)
        self.assertEqual(neuron["neuron_config"]["tp_degree"], 4)
        self.assertEqual(neuron["neuron_config"]["quantize_clamp_bound"], float("inf"))
        self.assertEqual(neuron["hidden_size"], 10)

    def test_nxdi_fuses_biases(self):
        self.check(QWEN2, 8, "weights", ["--flavor", "nxdi", "--fused-qkv"], fused=True)


class RoundTrip(Case):
    def test_torch_and_hf(self):
        model = self.make_hf(QWEN3)
        self.convert("--from", "hf", "--to", "nxd", "--tp", "4", "--hw", "trn2", "--xser",
                     self.path("hf"), self.path("tag"))
        self.convert("--from", "nxd", "--to", "torch", self.path("tag"), self.path("model.pt"))
        self.assert_same(read_torch(self.path("model.pt")), model)
        self.convert("--from", "torch", "--to", "hf", "--config", self.path("hf", "config.json"),
                     self.path("model.pt"), self.path("back"))
        self.assert_same(read_safetensors(self.path("back", "model.safetensors")), model)


class Saved(Case):
    """Sets that this torch saved, in every style that is read."""

    SETS = [  # folder, model, options
        ("v2", "llama", []), ("v2/step_10/model", "llama", []), ("v2-xser", "llama", []),
        ("v1", "llama", []), ("v1-xser/epoch=0-step=10.ckpt", "llama", []), ("v0", "llama", []),
        ("trn1-m2", "llama", ["--hw", "trn1"]), ("trn2-m2", "llama", ["--hw", "trn2"]),
        ("ep", "llama", []), ("coalesced", "qwen2-mha", []), ("pp2-tied", "qwen3-tied", []),
        ("nnm", "llama-2-layers", [])]

    def test_convert_to_their_source(self):
        NXD.main(self.path("sets"))
        for folder, model, options in self.SETS:
            with self.subTest(folder):
                source = self.path("sets", f"hf-{model}")
                self.convert("--from", "nxd", "--to", "hf", "--force", "--config",
                             source + "/config.json", *options, self.path("sets", folder),
                             self.path("out"))
                self.assert_same(read_safetensors(self.path("out", "model.safetensors")),
                                 read_torch(source + "/pytorch_model.bin"))

    def test_the_wrong_trn2_set_is_refused(self):
        NXD.main(self.path("sets"))
        for options, code in ((["--hw", "trn2"], 3), ([], 2)):
            done = subprocess.run(
                [interop.program("nxd-convert"), "--from", "nxd", "--to", "hf", "--config",
                 self.path("sets/hf-llama/config.json"), *options,
                 self.path("sets/reference-trn2-m2"), self.path("out")],
                capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("tiled over the ranks", done.stderr)
            self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    NXD.install_torch_xla()
    interop.main()
