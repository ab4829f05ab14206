"""Models as real programs save them, with something around the names: torch.compile, DistributedDataParallel's and
Lightning's prefixes, a value head, a base model without its head, gpt2's tied head. Each has the digest of the folder
that transformers saves.

Usage: python names_interop.py --bin-dir DIR    (DIR holds the commands)
"""
import os
import subprocess
import tempfile
import unittest

import torch
import transformers
from torch import nn

import interop


def run(command, *arguments):
    done = subprocess.run([interop.program(command), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command} {arguments}: {done.stderr}")
    return done


def digest(path):
    return run("ckpt-digest", path).stdout.split()[0]


def qwen3(tied=True):
    torch.manual_seed(7)
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, tie_word_embeddings=tied))


class Wrapped(nn.Module):
    """The wrappers of DistributedDataParallel, an EMA or a reinforcement learning loop around a model."""

    def __init__(self, name, model):
        super().__init__()
        self.add_module(name, model)


class Names(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def check(self, model, state, says=""):
        model.save_pretrained(self.path("hub"))
        os.makedirs(self.path("own"), exist_ok=True)
        model.config.save_pretrained(self.path("own"))
        torch.save(state, self.path("own/state.pt"))
        done = run("ckpt-digest", self.path("own/state.pt"))
        self.assertEqual(done.stdout.split()[0], digest(self.path("hub")))
        self.assertIn(says, done.stderr)

    def test_compiled(self):
        model = qwen3()
        self.check(model, torch.compile(model).state_dict(), "without what is around them")

    def test_wrapped_twice(self):
        model = qwen3(tied=False)
        self.check(model, Wrapped("module", Wrapped("policy", model)).state_dict(), '"policy."')

    def test_lightning(self):
        model = qwen3()
        state = {"model." + name: tensor for name, tensor in model.state_dict().items()}
        self.check(model, {"epoch": 3, "global_step": 7, "state_dict": state, "optimizer_states": [{"state": {}}]})

    def test_plain_loop(self):
        model = qwen3()
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
        optimizer.step()
        self.check(model, {"epoch": 3, "model_state_dict": model.state_dict(),
                           "optimizer_state_dict": optimizer.state_dict(), "loss": 0.5})

    def test_value_head(self):
        model = qwen3()
        state = model.state_dict()
        state["v_head.summary.weight"] = torch.zeros(1, 32)
        state["v_head.summary.bias"] = torch.zeros(1)
        self.check(model, state)

    def test_base_model(self):
        model = qwen3()
        model.save_pretrained(self.path("hub"))
        model.model.save_pretrained(self.path("base"))
        self.assertEqual(digest(self.path("base")), digest(self.path("hub")))

    def test_gpt2_head(self):
        torch.manual_seed(7)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=32,
                                                                     n_layer=2, n_head=4))
        self.check(model, model.state_dict())


if __name__ == "__main__":
    interop.main()
