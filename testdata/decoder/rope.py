"""Asks transformers for the rotary embedding of small configurations in every spelling: the frequencies, or null
where it refuses.

Usage: python rope.py > rope.json      (torch and transformers; see SOURCES.md for the versions)
"""

import json
import os
import tempfile

import transformers

COMMON = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, vocab_size=64, rms_norm_eps=1e-5,
              max_position_embeddings=512)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LINEAR = dict(rope_type="linear", factor=4.0)
YARN = dict(rope_type="yarn", factor=4.0)
THETA = dict(rope_type="default", rope_theta=500.0)


def without(rules, key):
    return {k: v for k, v in rules.items() if k != key}


CASES = {
    "nothing": {},
    "theta": dict(rope_theta=500000.0),
    "parameters": dict(rope_parameters=THETA),
    "parameters without theta": dict(rope_parameters=dict(rope_type="default")),
    "parameters without theta, one on top": dict(rope_theta=500.0, rope_parameters=LINEAR),
    "parameters and top have a theta": dict(rope_theta=700.0, rope_parameters=THETA),
    "scaling beside parameters": dict(rope_scaling=LINEAR, rope_parameters=THETA),
    "scaling beside parameters, theta on top": dict(rope_theta=300.0, rope_scaling=LINEAR,
                                                    rope_parameters=THETA),
    "scaling with a theta": dict(rope_theta=300.0, rope_scaling=dict(LINEAR, rope_theta=200.0)),
    "empty scaling beside parameters": dict(rope_scaling={}, rope_parameters=THETA),
    "null scaling beside parameters": dict(rope_scaling=None, rope_parameters=THETA),
    "llama3": dict(rope_scaling=dict(LLAMA3, original_max_position_embeddings=64)),
    "llama3 without original length": dict(rope_scaling=LLAMA3),
    "llama3 without any length": dict(rope_scaling=LLAMA3, max_position_embeddings=None),
    "llama3, original length on top": dict(original_max_position_embeddings=128,
                                           rope_scaling=LLAMA3),
    "llama3, two original lengths": dict(
        original_max_position_embeddings=128,
        rope_scaling=dict(LLAMA3, original_max_position_embeddings=64)),
    "llama3 as parameters": dict(rope_parameters=dict(LLAMA3, rope_theta=10000.0)),
    "old name of the type": dict(rope_scaling=dict(type="linear", factor=2)),
    "both names of the type": dict(rope_scaling=dict(type="llama3", **LINEAR)),
    "partial heads, default": dict(partial_rotary_factor=0.5),
    "linear without factor": dict(rope_scaling=dict(rope_type="linear")),
    "linear with null": dict(rope_scaling=dict(rope_type="linear", factor=None)),
    "llama3 without factor": dict(rope_scaling=without(LLAMA3, "factor")),
    "llama3 without low": dict(rope_scaling=without(LLAMA3, "low_freq_factor")),
    "llama3 without high": dict(rope_scaling=without(LLAMA3, "high_freq_factor")),
    "dynamic": dict(rope_scaling=dict(rope_type="dynamic", factor=3.0)),
    "dynamic without factor": dict(rope_scaling=dict(rope_type="dynamic")),
    "yarn": dict(rope_scaling=dict(YARN, original_max_position_embeddings=64)),
    "yarn, theta on top": dict(rope_theta=1e6, rope_scaling=dict(
        YARN, original_max_position_embeddings=128)),
    "yarn without original length": dict(rope_scaling=YARN),
    "yarn, original length on top": dict(original_max_position_embeddings=128,
                                         rope_scaling=YARN),
    "yarn without factor": dict(rope_scaling=dict(rope_type="yarn",
                                                  original_max_position_embeddings=64)),
    "yarn with a null factor": dict(rope_scaling=dict(YARN, factor=None,
                                                      original_max_position_embeddings=64)),
    "yarn with an attention factor": dict(rope_scaling=dict(
        YARN, attention_factor=1.5, original_max_position_embeddings=64)),
    "yarn with other turns": dict(rope_scaling=dict(
        YARN, beta_fast=8.0, beta_slow=2.0, original_max_position_embeddings=256)),
    "yarn, not truncated": dict(rope_scaling=dict(YARN, truncate=False, beta_fast=0,
                                                  original_max_position_embeddings=256)),
    "yarn with scales": dict(rope_scaling=dict(YARN, mscale=0.7, mscale_all_dim=1.2,
                                               original_max_position_embeddings=64)),
    "yarn with one scale": dict(rope_scaling=dict(YARN, mscale=0.7, mscale_all_dim=0,
                                                  original_max_position_embeddings=64)),
    "yarn that shrinks": dict(rope_scaling=dict(YARN, factor=0.5,
                                                original_max_position_embeddings=64)),
    "the type is null": dict(rope_scaling=dict(LINEAR, rope_type=None)),
    "the type is null beside an old name": dict(rope_scaling=dict(LINEAR, rope_type=None, type="linear")),
    "the old name of the type is null": dict(rope_scaling=dict(type=None, factor=2)),
    "the type is a number": dict(rope_scaling=dict(LINEAR, rope_type=5)),
    "theta is null": dict(rope_scaling=dict(LINEAR, rope_theta=None)),
    "theta on top is null": dict(rope_theta=None, rope_scaling=LINEAR),
    "theta on top is null, and not used": dict(rope_theta=None, rope_parameters=THETA),
    "yarn, truncate is null": dict(rope_scaling=dict(YARN, truncate=None,
                                                     original_max_position_embeddings=64)),
    "yarn, the original length is null": dict(rope_scaling=dict(
        YARN, original_max_position_embeddings=None)),
    "yarn, the original length on top is null": dict(
        original_max_position_embeddings=None,
        rope_scaling=dict(YARN, original_max_position_embeddings=64)),
    "yarn that shrinks, with scales": dict(rope_scaling=dict(
        YARN, factor=0.5, mscale=0.7, mscale_all_dim=1.2, original_max_position_embeddings=64)),
    "yarn with a scale beside a null": dict(rope_scaling=dict(
        YARN, mscale=0.7, mscale_all_dim=None, original_max_position_embeddings=64)),
    "yarn, theta is one": dict(rope_scaling=dict(YARN, rope_theta=1,
                                                 original_max_position_embeddings=64)),
    "llama3, its factors the other way round": dict(rope_scaling=dict(
        LLAMA3, low_freq_factor=4.0, high_freq_factor=1.0)),
    "linear, a part of each head is null": dict(rope_scaling=dict(LINEAR, partial_rotary_factor=None)),
    "scaling is a word": dict(rope_scaling="linear"),
    "parameters are a number": dict(rope_parameters=7),
}


def frequencies(case, model_type):
    """A key of the case that is None and is in COMMON is left out."""
    wanted = {**COMMON, "model_type": model_type, **CASES[case]}
    config = {k: v for k, v in wanted.items() if v is not None or k not in COMMON}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        try:
            loaded = transformers.AutoConfig.from_pretrained(folder)
            model = transformers.AutoModel.from_config(loaded)
        except Exception:  # of many kinds
            return config, None, None
    rotary = model.rotary_emb
    return config, [float(f"{x:.9g}") for x in rotary.inv_freq.tolist()], rotary.attention_scaling


def rows():
    for model_type in ("llama", "qwen2", "qwen3"):
        for case in CASES:
            config, found, scale = frequencies(case, model_type)
            yield {"case": case, "config": config, "frequencies": found, "scale": scale}


if __name__ == "__main__":
    print("[\n" + ",\n".join(json.dumps(row) for row in rows()) + "\n]")
