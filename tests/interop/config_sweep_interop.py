"""Every field of config.json that transformers knows, of llama, qwen2 and qwen3, at unusual values: the trainer's
decoder gives transformers' distribution, or refuses and names the field. Fields that nobody knows are refused.
Then configurations of several such fields, drawn: what transformers refuses, the trainer refuses too, and what it refuses
by itself it names with its value.

Usage: python config_sweep_interop.py --bin-dir DIR   (DIR is tests/interop of the build)
"""

import inspect
import json
import math
import os
import random
import subprocess
import tempfile
import unittest

import numpy
import torch
import transformers

from safetensors.numpy import load_file, save_file

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
# Values for fields whose type does not imply the interesting ones.
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


# The random draws: NXDKIT_DRAWS and NXDKIT_SEED select others, to search further.
DRAWS = int(os.environ.get("NXDKIT_DRAWS", "400"))
SEED = int(os.environ.get("NXDKIT_SEED", "31"))
ODD = [None, 0, -1, 0.5, "x", True]
# The rules of the rotary embedding that have an effect come first.
ROPE_TYPES = ["linear", "dynamic", "yarn", "yarn", "yarn", "llama3", "llama3", "default"]
ROPE_ODD_TYPES = [None, 5, "", "longrope", "Linear", []]
ROPE_RULES = {
    "factor": [1.0, 2.0, 4, 0.5], "rope_theta": [10000.0, 500.0, 1.5], "original_max_position_embeddings": [16, 32, 64],
    "low_freq_factor": [1.0, 2, 4.0], "high_freq_factor": [4.0, 8, 2.0], "attention_factor": [1.0, 1.25],
    "beta_fast": [32, 8.0, 0], "beta_slow": [1, 2.0, 0], "mscale": [1.0, 0.7, 0], "mscale_all_dim": [1.0, 1.2, 0],
    "truncate": [True, False, None], "partial_rotary_factor": [1.0],
}
ROPE_NEEDS = {"default": [], "linear": ["factor"], "dynamic": ["factor"], "yarn": ["factor"],
              "llama3": ["factor", "low_freq_factor", "high_freq_factor"]}
DRAWN = {
    "is_causal": [True, False, None], "tie_word_embeddings": [True, False], "attention_bias": [True, False],
    "mlp_bias": [True, False], "num_attention_heads": [2, 8], "num_key_value_heads": [1, 4, None], "head_dim": [8, 32, None],
    "rms_norm_eps": [1e-5, 0.05], "max_position_embeddings": [32, 64, 128], "hidden_act": ["silu", "gelu"],
    "use_sliding_window": [True, False], "sliding_window": [3, None], "max_window_layers": [0, 1, 2],
    "layer_types": [["sliding_attention", "full_attention"], ["full_attention"] * 2, None],
    "rope_theta": [500.0, 1000000, 10000], "partial_rotary_factor": [1.0, 0.5, None],
    "original_max_position_embeddings": [16, 32], "attention_dropout": [0.0, 0.1],
}
# The keys of a config.json that the trainer reads; the types of keys without effect do not matter.
READ = set(DRAWN) | {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "rope_scaling",
                     "rope_parameters"}
SIZES = ["num_attention_heads", "num_key_value_heads", "head_dim", "attention_bias", "mlp_bias", "tie_word_embeddings"]


def draw_rope(draw):
    kind = draw.choice(ROPE_TYPES)
    rules = {draw.choice(["rope_type", "rope_type", "type"]): kind}
    for key in ROPE_NEEDS[kind] + draw.sample(sorted(ROPE_RULES), draw.randint(0, 4)):
        rules[key] = draw.choice(ROPE_RULES[key])
    if draw.random() < 0.25:
        rules[draw.choice(sorted(ROPE_RULES))] = draw.choice(ODD)
    if draw.random() < 0.1:
        rules["rope_type"] = draw.choice(ROPE_ODD_TYPES)
    if draw.random() < 0.1:
        del rules[draw.choice(sorted(rules))]
    return rules


def draw_change(draw):
    change = {}
    if draw.random() < 0.7:
        change[draw.choice(["rope_scaling", "rope_parameters"])] = draw_rope(draw)
    if draw.random() < 0.1:
        change[draw.choice(["rope_scaling", "rope_parameters"])] = draw.choice([None, {}, draw_rope(draw)])
    for key in draw.sample(sorted(DRAWN), draw.randint(0, 3)):
        change[key] = draw.choice(DRAWN[key])
    if draw.random() < 0.15:
        change[draw.choice(sorted(DRAWN))] = draw.choice(ODD)
    return change


def flat(change):
    for key, value in change.items():
        yield key, value
        if isinstance(value, dict):
            yield from value.items()


def names_one(change, said):
    """A key that was drawn, and its value, unless that is what is missing."""
    for key, value in flat(change):
        shown = {json.dumps(value)}
        if isinstance(value, str) and len(value) > 1:  # a single letter is in every message
            shown.add(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            shown |= {str(value), f"{value:g}"}
        if key in said and (isinstance(value, (dict, list)) or any(word in said for word in shown)):
            return True
    return any(key in said for key in ("rope_scaling", "rope_parameters")) and ("needs a" in said or "numbers" in said)


def values_of(field, default):
    if field in VALUES:
        return VALUES[field]
    if isinstance(default, bool) or default is None:
        return [True, 3, "x"]
    if isinstance(default, (int, float)):
        return [default + 1, -1]
    return ["other"]


def changes(config_class):
    yield from ({name: None} for name in sorted(READ - {"rope_scaling", "rope_parameters"}))
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
            wanted, model, batch, refusal = self.theirs(folder)
            if wanted is None:
                if set(change) <= READ and change != {"rms_norm_eps": 1}:  # an integer is a number here
                    self.both_refuse(folder, config, change, refusal)
                return f"transformers refuses: {refusal}"
            found, said = self.ask(folder, config, model, batch)
        if said is not None:
            self.assertTrue(any(key in said for key in change), f"names no field of it: {said}")
            return f"refused: {said.strip()}"
        self.agree(found, wanted)
        return "the same"

    def theirs(self, folder):
        """Log-probabilities, model and batch for the config.json in a folder; or the error."""
        try:
            read = transformers.AutoConfig.from_pretrained(folder)
            model = make.make_model(read)
            batch = make.make_batch(model.config.vocab_size, (3, 9, 20))
            return make.expected(model, batch)["log_probs"], model, batch, None
        except Exception as error:  # several kinds
            return None, None, None, f"{error!r:.100}"

    def agree(self, found, wanted):
        """f32 against f32: sums of other orders in two layers, 1e-6 of the largest at most times what layers add up."""
        worst = numpy.abs(found - wanted).max()
        self.assertLessEqual(worst, TOLERANCE * numpy.abs(wanted).max())

    def compare_drawn(self, model_type, change):
        config = {"model_type": model_type, **COMMON, **change}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(config, file)
            wanted, model, batch, refusal = self.theirs(folder)
            if wanted is None:
                said = self.both_refuse(folder, config, change, refusal)
                return f"both refuse: {said.strip()}"
            if not all(map(math.isfinite, wanted.tolist())):  # transformers ignores it
                said = self.both_refuse(folder, config, change, "what gives no numbers")
                self.assertTrue(names_one(change, said), f"names no field and value of it: {said}")
                return f"both refuse: {said.strip()}"
            found, said = self.ask(folder, config, model, batch)
        if said is not None:
            self.assertTrue(names_one(change, said), f"names no field and value of it: {said}")
            return f"refused: {said.strip()}"
        self.agree(found, wanted)
        return "the same"

    def both_refuse(self, folder, config, change, refusal):
        model, batch = self.model_of_sizes(folder, config["model_type"], change)
        _, said = self.ask(folder, config, model, batch)
        self.assertIsNotNone(said, f"loads what transformers refuses: {refusal}")
        return said

    def model_of_sizes(self, folder, model_type, change):
        """Weights with the sizes that are drawn, where these are not what transformers refuses: else the trainer would
        refuse the shapes, and not what is in the file."""
        drawn = {key: value for key, value in change.items() if key in SIZES and value is not MISSING}
        for sizes in (drawn, {}):
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump({"model_type": model_type, **COMMON, **sizes}, file)
            _, model, batch, refusal = self.theirs(folder)
            if model is not None:
                return model, batch
        raise AssertionError(refusal)

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

    def test_what_is_drawn_is_the_same_or_refused(self):
        draw = random.Random(SEED)
        counts = {}
        for _ in range(DRAWS):
            model_type = draw.choice(sorted(FAMILIES))
            change = draw_change(draw)
            with self.subTest(model=model_type, change=json.dumps(change)):
                answer = self.compare_drawn(model_type, change)
                kind = answer.split(":")[0]
                counts[kind] = counts.get(kind, 0) + 1
                if os.environ.get("VERBOSE"):
                    print(model_type, json.dumps(change), answer)
        print(f"{DRAWS} drawn configurations, seed {SEED}: {counts}")
        self.assertGreater(counts.get("the same", 0), DRAWS // 4)
        self.assertGreater(counts.get("both refuse", 0), DRAWS // 20)

    def test_another_head_beside_tied_embeddings_is_refused(self):
        """transformers takes the head then, the commands refuse the file, and so does the trainer."""
        with tempfile.TemporaryDirectory() as folder:
            config = {"model_type": "qwen3", **COMMON, "tie_word_embeddings": True}
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(config, file)
            _, model, batch, refusal = self.theirs(folder)
            self.assertIsNone(refusal)
            found, said = self.ask(folder, config, model, batch)
            self.assertIsNone(said)
            weights = os.path.join(folder, "model.safetensors")
            tensors = load_file(weights)
            for change, refused in ((0, False), (1, True)):
                tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + change
                save_file(tensors, weights, metadata={"format": "pt"})
                out = os.path.join(folder, "out")
                ran = subprocess.run([interop.program("decoder_probe"), "1", "f32", folder,
                                      os.path.join(folder, "batch.json"), out], capture_output=True, text=True, check=False)
                self.assertEqual(ran.returncode != 0, refused, ran.stderr)
                if refused:
                    self.assertIn("lm_head.weight", ran.stderr)
                else:
                    self.agree(read_records(out)["log_probs"], found)

    def test_a_new_field_is_refused(self):
        for model_type in FAMILIES:
            for value in VALUES["brand_new_scaling"]:
                answer = self.compare(model_type, {"brand_new_scaling": value})
                self.assertTrue(answer.startswith("refused"), answer)


if __name__ == "__main__":
    torch.set_num_threads(1)
    interop.main()
