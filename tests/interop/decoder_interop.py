"""The trainer's decoder against transformers: the distribution at every position, or the value of the
critic, and the gradient of every parameter, of llama, qwen2 and qwen3 with the same weights, in f32.

Usage: python decoder_interop.py --bin-dir DIR   (DIR is tests/interop of the build)
"""

import json
import os
import subprocess
import tempfile
import unittest

import numpy
import torch
import transformers
from safetensors.numpy import load_file

import interop

make = interop.load_make("decoder")  # from the goldens: the same for larger models here
TOLERANCE = 1e-4  # relative to the largest value of each array
VOCAB = 96

COMMON = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=3,
              num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256,
              initializer_range=0.25, rms_norm_eps=1e-6, use_cache=False)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32, rope_theta=500000.0)
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**COMMON, tie_word_embeddings=False),
    "llama3": lambda: transformers.LlamaConfig(**COMMON, tie_word_embeddings=False,
                                               rope_parameters=LLAMA3),
    "llama_linear": lambda: transformers.LlamaConfig(
        **COMMON, rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0)),
    "llama_yarn": lambda: transformers.LlamaConfig(
        **COMMON, attention_bias=True, mlp_bias=True,
        rope_parameters=dict(rope_type="yarn", factor=8.0, rope_theta=10000.0,
                             original_max_position_embeddings=32)),
    "llama_dynamic": lambda: transformers.LlamaConfig(
        **COMMON, rope_parameters=dict(rope_type="dynamic", factor=8.0, rope_theta=10000.0)),
    "qwen2_windows": lambda: transformers.Qwen2Config(
        **COMMON, tie_word_embeddings=True, use_sliding_window=True, sliding_window=9,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "qwen3_windows": lambda: transformers.Qwen3Config(
        **COMMON, head_dim=16, attention_bias=True, use_sliding_window=True, sliding_window=50,
        max_window_layers=1),
    "qwen2": lambda: transformers.Qwen2Config(**COMMON, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, head_dim=16, tie_word_embeddings=False),
    "qwen3_tied": lambda: transformers.Qwen3Config(**COMMON, head_dim=16,
                                                   tie_word_embeddings=True),
}


def read_records(path):
    records = {}
    with open(path, "rb") as file:
        while name := file.readline():
            count = int(file.readline())
            records[name[:-1].decode()] = numpy.frombuffer(file.read(4 * count), dtype="<f4")
    return records


def expected_scores(model, batch):
    """The scores of every token; a sequence classifier itself returns only the last one's."""
    scores = torch.cat([model.score(model.model(torch.tensor([s])).last_hidden_state)[0, :, 0]
                        for s in batch["ids"]])
    scores = scores[torch.tensor([t for t, _ in batch["targets"]])]
    (scores * torch.tensor(batch["gradient"])).sum().backward()
    return {"scores": scores.detach().numpy(), **make.gradients(model)}


class Decoder(unittest.TestCase):
    def compare(self, name, model, expect):
        batch = make.make_batch(VOCAB, (5, 17, 140))
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(os.path.join(folder, "model"))
            with open(os.path.join(folder, "batch.json"), "w") as file:
                json.dump(batch, file)
            wanted = expect(model, batch)
            for tp in (1, 2, 8):
                out = os.path.join(folder, "out")
                subprocess.run(
                    [interop.program("decoder_probe"), str(tp), "f32",
                     os.path.join(folder, "model"), os.path.join(folder, "batch.json"), out],
                    check=True)
                found = read_records(out)
                self.assertEqual(sorted(found), sorted(wanted))
                for key, values in wanted.items():
                    with self.subTest(model=name, tp=tp, key=key):
                        worst = numpy.abs(found[key] - values.reshape(-1)).max()
                        self.assertLessEqual(worst, TOLERANCE * numpy.abs(values).max())

    def test_distribution_and_gradients(self):
        for name, config in MODELS.items():
            self.compare(name, make.make_model(config()), make.expected)

    def test_goldens_are_what_transformers_says(self):
        for name in make.MODELS:
            folder = os.path.join(make.HERE, name)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, attn_implementation="eager", dtype=torch.float32).eval()
            with open(os.path.join(folder, "batch.json")) as file:
                batch = json.load(file)
            committed = load_file(os.path.join(folder, "expected.safetensors"))
            wanted = make.expected(model, batch)
            self.assertEqual(sorted(committed), sorted(wanted))
            for key, values in wanted.items():
                with self.subTest(model=name, key=key):
                    worst = numpy.abs(committed[key] - values).max()
                    self.assertLessEqual(worst, 1e-5 * numpy.abs(values).max())

    def test_rope_goldens_are_what_transformers_says(self):
        rope = interop.load_make("decoder", "rope.py")
        with open(os.path.join(make.HERE, "rope.json")) as file:
            committed = json.load(file)
        self.assertEqual(len(committed), 3 * len(rope.CASES))
        for committed_row, row in zip(committed, rope.rows()):
            with self.subTest(row["case"]):
                self.assertEqual(committed_row, row)

    def test_values_and_gradients(self):
        for name, config in MODELS.items():
            for kind in (transformers.AutoModelForTokenClassification,
                         transformers.AutoModelForSequenceClassification):
                labelled = config()
                labelled.num_labels = 1
                model = make.make_model(labelled, kind)
                self.compare(f"{name} {type(model).__name__}", model, expected_scores)


if __name__ == "__main__":
    interop.main()
