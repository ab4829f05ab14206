"""Every field of config.json that transformers knows, of llama, qwen2 and qwen3, at unusual values: the trainer's
decoder gives transformers' distribution, or refuses and names the field. Fields that nobody knows are refused.

Usage: python config_sweep_interop.py --bin-dir DIR   (DIR is tests/interop of the build)
"""

import inspect
import json
import os
import subprocess
import tempfile
import unittest

import numpy
import torch
import transformers

import interop
from decoder_interop import read_records

make = interop.load_make("decoder")
TOLERANCE = 1e-4
COMMON = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, max_position_embeddings=64, rms_norm_eps=1e-6)
FAMILIES = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config,
            "qwen3": transformers.Qwen3Config}
LINEAR = {"rope_type": "linear", "factor": 3.0}
MISSING = object()
# Values of fields whose kind does not say which are telling.
VALUES = {
    "vocab_size": [24], "hidden_size": [64], "intermediate_size": [16], "num_hidden_layers": [1, 3],
    "num_attention_heads": [2, 8], "num_key_value_heads": [1, 4, None, MISSING], "head_dim": [8, 32, None, MISSING],
    "hidden_act": ["gelu", "silu", "relu", MISSING], "max_position_embeddings": [24, MISSING],
    "rms_norm_eps": [0.05, 1, MISSING], "attention_dropout": [0.5, 0],
    "attention_bias": [True, False, MISSING], "mlp_bias": [True, False], "tie_word_embeddings": [True, MISSING],
    "use_sliding_window": [True], "sliding_window": [3, None, 0], "max_window_layers": [0, 1],
    "layer_types": [["full_attention"] * 2, ["sliding_attention", "full_attention"], ["chunked_attention"] * 2,
                    ["full_attention"]],
    "rope_theta": [5.0, 1000000], "rope_scaling": [LINEAR, {"type": "dynamic", "factor": 2.0}],
    "rope_parameters": [LINEAR, {"rope_type": "default", "rope_theta": 7.0}, None,
                        {"rope_type": "longrope", "factor": 2.0, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
                        {"rope_type": "proportional", "partial_rotary_factor": 0.5},
                        {"full_attention": LINEAR, "sliding_attention": LINEAR}],
    "partial_rotary_factor": [0.5], "original_max_position_embeddings": [16], "dtype": ["float32", "bfloat16"],
    "torch_dtype": ["bfloat16"], "architectures": [None, ["Other"]], "model_type": [],
    "id2label": [{"0": "a", "1": "b", "2": "c"}], "label2id": [{"a": 0}], "pretraining_tp": [2],
    "quantization_config": [{"quant_method": "fp8"}], "brand_new_scaling": [2.0, {"kind": "new"}, [1], True, "on"],
    "logit_scale": [0.5], "final_logit_softcapping": [30.0], "query_pre_attn_scalar": [64],
    "transformers_version": ["9.9.9"], "use_qk_norm": [True], "attention_multiplier": [0.5],
}
# Together.
PAIRS = [
    {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
    {"use_sliding_window": True, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]},
    {"use_sliding_window": True, "sliding_window": None}, {"use_sliding_window": True, "max_window_layers": 0},
    {"sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]},
    {"rope_theta": 9.0, "rope_scaling": LINEAR}, {"rope_theta": 9.0, "rope_parameters": LINEAR},
    {"rope_scaling": LINEAR, "partial_rotary_factor": 0.5},
    {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "original_max_position_embeddings": 16},
    {"rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}},
    {"attention_bias": True, "tie_word_embeddings": True}, {"attention_bias": True, "mlp_bias": True},
]


def values_of(field, default):
    if field in VALUES:
        return VALUES[field]
    if isinstance(default, bool) or default is None:
        return [True, 3, "x"]
    if isinstance(default, (int, float)):
        return [default + 1, -1]
    return ["other"]


def changes(config_class):
    names = set(inspect.signature(config_class.__init__).parameters) | set(config_class().to_dict())
    names |= set(VALUES)
    defaults = config_class().to_dict()
    for name in sorted(names - {"self", "kwargs"}):
        for value in values_of(name, defaults.get(name)):
            yield {name: value}
    yield from PAIRS


class Sweep(unittest.TestCase):
    def ask(self, folder, config, model, batch):
        """Ours: the log-probabilities, or what it says."""
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        with open(os.path.join(folder, "batch.json"), "w") as file:
            json.dump(batch, file)
        out = os.path.join(folder, "out")
        ran = subprocess.run([interop.program("decoder_probe"), "1", "f32", folder,
                              os.path.join(folder, "batch.json"), out], capture_output=True, text=True, check=False)
        return (read_records(out)["log_probs"], None) if ran.returncode == 0 else (None, ran.stderr)

    def compare(self, model_type, change):
        config = {"model_type": model_type, **COMMON, **change}
        config = {key: value for key, value in config.items() if value is not MISSING}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(config, file)
            try:
                read = transformers.AutoConfig.from_pretrained(folder)
                model = make.make_model(read)
                batch = make.make_batch(model.config.vocab_size, (3, 9, 20))
                wanted = make.expected(model, batch)["log_probs"]
            except Exception as error:  # of many kinds
                return f"transformers refuses: {error!r:.100}"
            found, said = self.ask(folder, config, model, batch)
        if said is not None:
            self.assertTrue(any(key in said for key in change), f"names no field of it: {said}")
            return f"refused: {said.strip()}"
        worst = numpy.abs(found - wanted).max()
        self.assertLessEqual(worst, TOLERANCE * numpy.abs(wanted).max())
        return "the same"

    def test_every_field_is_read_or_refused(self):
        answers = {}
        for model_type, config_class in FAMILIES.items():
            for change in changes(config_class):
                shown = {k: "missing" if v is MISSING else v for k, v in change.items()}
                with self.subTest(model=model_type, change=str(shown)):
                    answer = self.compare(model_type, change)
                    answers[model_type, str(shown)] = answer
                    if os.environ.get("VERBOSE"):
                        print(model_type, shown, answer)
        same = sum(answer == "the same" for answer in answers.values())
        refused = sum(answer.startswith("refused") for answer in answers.values())
        print(f"{len(answers)} configurations: {same} the same, {refused} refused by name")
        self.assertGreater(same, 100)

    def test_a_new_field_is_refused(self):
        for model_type in FAMILIES:
            for value in VALUES["brand_new_scaling"]:
                answer = self.compare(model_type, {"brand_new_scaling": value})
                self.assertTrue(answer.startswith("refused"), answer)


if __name__ == "__main__":
    torch.set_num_threads(1)
    interop.main()
