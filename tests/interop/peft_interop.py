"""nxd-convert --merge-lora against PEFT itself: adapters that PEFT makes and saves, merged by both.

Usage: python peft_interop.py --bin-dir DIR   (see lora_interop.py)

PEFT multiplies A and B with the library at hand, in an order of its own: values are compared with a
tolerance. Where it leaves one parameter of a tied model as two, nxd-convert has to refuse.
"""

import json
import os
import subprocess
import tempfile
import unittest
import warnings

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

import interop

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Peft(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def base(self, tied):
        torch.manual_seed(3)
        config = Qwen2Config(hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                             num_attention_heads=4, num_key_value_heads=2, vocab_size=40,
                             tie_word_embeddings=tied)
        model = Qwen2ForCausalLM(config)
        model.save_pretrained(self.path("base"))
        return model

    def adapter(self, tied=False, save=None, same_head=False, **config):
        """Saves an adapter as if it had been trained."""
        model = get_peft_model(self.base(tied), LoraConfig(
            **{"r": 4, "lora_alpha": 6, "task_type": "CAUSAL_LM", "target_modules": ALL, **config}))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                torch.nn.init.normal_(parameter)
                if "magnitude" in name:
                    parameter.data.abs_().add_(0.5)
        if same_head:
            head = model.base_model.model.lm_head.modules_to_save.default
            head.weight.data = model.base_model.model.model.embed_tokens.weight.data.clone()
        model.save_pretrained(self.path("adapter"), **(save or {}))

    def run_merge(self):
        return subprocess.run([interop.program("nxd-convert"), "--no-sync", "-f", "--from", "hf",
                               "--to", "hf", "--merge-lora", self.path("adapter"), "--verify",
                               self.path("base"), self.path("merged")],
                              capture_output=True, text=True, check=False)

    def expect_merges(self, tied=False, note=""):
        done = self.run_merge()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(note, done.stderr + done.stdout)
        found = load_file(self.path("merged", "model.safetensors"))
        model = PeftModel.from_pretrained(self.base(tied), self.path("adapter")).merge_and_unload()
        expected = dict(model.state_dict())
        if tied:
            self.assertTrue(torch.equal(expected["lm_head.weight"],
                                        expected["model.embed_tokens.weight"]))
            del expected["lm_head.weight"]
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=2e-5, atol=2e-5, msg=name)
        changed = [name for name, tensor in self.base(tied).state_dict().items()
                   if name in found and not torch.equal(found[name], tensor)]
        self.assertTrue(changed)

    def expect_refused(self, part, code=4):
        done = self.run_merge()
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(part, done.stderr)
        self.assertLessEqual(len(done.stderr.strip().splitlines()), 4, done.stderr)

    def test_plain(self):
        self.adapter()
        self.expect_merges()

    def test_rslora(self):
        self.adapter(use_rslora=True)
        self.expect_merges()

    def test_patterns(self):
        self.adapter(rank_pattern={"q_proj": 3, r".*layers\.1\..*(gate|up)_proj": 5},
                     alpha_pattern={"^model.layers.0.self_attn.v_proj": 9, "(k|o)_proj": 2.5,
                                    r"layers\.\d+\.mlp\.down_proj": 20})
        self.expect_merges()

    def test_patterns_with_rslora(self):
        self.adapter(rank_pattern={r"mlp\..*": 7}, alpha_pattern={"o_proj": 3}, use_rslora=True)
        self.expect_merges()

    def test_dora(self):
        self.adapter(use_dora=True)
        self.expect_merges()

    def test_dora_with_patterns_and_rslora(self):
        self.adapter(use_dora=True, use_rslora=True, rank_pattern={"q_proj": 2})
        self.expect_merges()

    def test_dora_of_an_embedding_is_refused(self):
        self.adapter(use_dora=True, target_modules=["embed_tokens"])
        self.expect_refused("DoRA of an embedding")

    def test_all_linear_and_a_pattern_of_targets(self):
        self.adapter(target_modules="all-linear")
        self.expect_merges()

    def test_a_pattern_of_targets(self):
        self.adapter(target_modules=r".*\.(q|v)_proj")
        self.expect_merges()

    def test_an_embedding_and_its_own_weights_beside_it(self):
        self.adapter(target_modules=["q_proj", "embed_tokens", "lm_head"])
        self.expect_merges()

    def test_whole_modules(self):
        self.adapter(modules_to_save=["lm_head", "embed_tokens", "norm"])
        self.expect_merges()

    def test_a_block_that_is_saved_whole(self):
        self.adapter(target_modules=["q_proj"], modules_to_save=["mlp"])
        self.expect_merges()

    def test_biases(self):
        for bias in ("all", "lora_only"):
            with self.subTest(bias=bias):
                self.adapter(bias=bias)
                self.expect_merges()

    def test_tokens(self):
        for tied in (False, True):
            with self.subTest(tied=tied):
                self.adapter(tied, trainable_token_indices=[1, 39])
                self.expect_merges(tied)

    def test_tokens_of_embedding_and_head(self):
        self.adapter(trainable_token_indices={"embed_tokens": [1, 5], "lm_head": [7]})
        self.expect_merges()

    def test_tied(self):
        for more in ({"modules_to_save": ["embed_tokens"]}, {"modules_to_save": ["lm_head"]},
                     {"modules_to_save": ["embed_tokens", "lm_head"]}):
            with self.subTest(**more):
                self.adapter(True, **more)
                self.expect_refused("tie_word_embeddings")
                self.adapter(True, ensure_weight_tying=True, **more)
                self.expect_merges(True)

    def test_what_the_hint_says_helps(self):
        self.adapter(True, modules_to_save=["lm_head"])
        self.expect_refused("give the base a lm_head.weight of its own")
        model = PeftModel.from_pretrained(self.base(True), self.path("adapter"))
        expected = model.merge_and_unload().state_dict()
        path = self.path("base", "model.safetensors")
        tensors = load_file(path)
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        save_file(tensors, path, {"format": "pt"})
        path = self.path("base", "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**config, "tie_word_embeddings": False}, file)
        done = self.run_merge()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = load_file(self.path("merged", "model.safetensors"))
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=2e-5, atol=2e-5, msg=name)

    def test_tied_with_equal_copies(self):
        self.adapter(True, modules_to_save=["embed_tokens", "lm_head"], same_head=True)
        path = self.path("adapter", "adapter_model.safetensors")
        tensors = load_file(path)
        tensors["base_model.model.lm_head.weight"] = tensors[
            "base_model.model.model.embed_tokens.weight"].clone()
        save_file(tensors, path, {"format": "pt"})
        self.expect_merges(True)

    def test_tied_and_saved_along(self):
        self.adapter(True, save={"save_embedding_layers": True})
        self.expect_merges(True, "modules_to_save does not name it")

    def test_tied_embedding_or_head_adapted(self):
        for target in ("embed_tokens", "lm_head"):
            with self.subTest(target=target):
                self.adapter(True, target_modules=["q_proj", target])
                self.expect_refused("tie_word_embeddings")

    def test_a_state_dict_that_peft_did_not_save(self):
        self.adapter(modules_to_save=["lm_head"])
        model = PeftModel.from_pretrained(self.base(False), self.path("adapter"))
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()
                 if "lora_" in name or "modules_to_save" in name or "original_module" in name}
        self.assertTrue(any(".default." in name for name in state))
        save_file(state, self.path("adapter", "adapter_model.safetensors"), {"format": "pt"})
        done = self.run_merge()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = load_file(self.path("merged", "model.safetensors"))
        expected = model.merge_and_unload().state_dict()
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=2e-5, atol=2e-5, msg=name)

    def test_options_as_every_release_writes_them(self):
        """A configuration with all keys of this release, at what they are by default."""
        self.adapter()
        with open(self.path("adapter", "adapter_config.json"), encoding="utf-8") as file:
            self.assertIn("peft_version", json.load(file))
        self.expect_merges()


FAMILIES = {
    "gemma3_text": ALL,
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    "glm4": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"],
    "olmo2": ALL,
    "mistral": ALL,
    "granite": ALL,
    "gpt_oss": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "deepseek_v3": ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"],
    "glm4_moe": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "qwen3_next": ["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj"],
    "qwen2_moe": ["q_proj", "v_proj"],
    "starcoder2": ["q_proj", "v_proj", "c_fc", "c_proj"],
    "qwen3_vl": ALL + ["qkv", "linear_fc1"],
    "qwen2_5_vl": ALL,
    "gemma3": ["q_proj", "k_proj", "v_proj", "o_proj"],
}


class Families(Peft):
    """Models of the other families, by the configs of testdata/families."""

    def base(self, tied):
        architecture, config = self.case
        model_class = getattr(transformers, architecture)
        torch.manual_seed(3)
        model = model_class(model_class.config_class.from_dict(config)).float()
        model.save_pretrained(self.path("base"))
        return model

    def expect_merges(self, tied=False, note=""):
        done = self.run_merge()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = load_file(self.path("merged", "model.safetensors"))
        base = self.base(tied)
        before = load_file(self.path("base", "model.safetensors"))
        model = PeftModel.from_pretrained(base, self.path("adapter")).merge_and_unload()
        model.save_pretrained(self.path("expected"))
        expected = load_file(self.path("expected", "model.safetensors"))
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=2e-5, atol=2e-5, msg=name)
        changed = [name for name in found if not torch.equal(found[name], before[name])]
        self.assertTrue(changed)


def add_family(family, targets):
    def test(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata", "families")
        cases = {}
        for name in ("families.json", "more.json"):
            with open(os.path.join(folder, name)) as file:
                cases.update(json.load(file)["families"])
        self.case = cases[family]["architecture"], cases[family]["config"]
        self.adapter(target_modules=targets)
        self.expect_merges()

    setattr(Families, f"test_{family}", test)


for inherited in [name for name in dir(Peft) if name.startswith("test_")]:
    setattr(Families, inherited, None)
for one, modules in FAMILIES.items():
    add_family(one, modules)


if __name__ == "__main__":
    interop.main()
