"""Makes small models with transformers 5, and saves the same weights again with transformers 4.

Usage: python make.py 5        (torch, transformers 5)
       python4 make.py 4       (torch, transformers 4), after it
"""

import os
import sys

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = dict(vocab_size=16, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=32, tie_word_embeddings=False)
EXPERTS = dict(num_experts_per_tok=1)
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL, attention_bias=True, rope_theta=500.0),
    "qwen2": lambda: transformers.Qwen2Config(**SMALL),
    "qwen3": lambda: transformers.Qwen3Config(**SMALL, head_dim=8),
    "mixtral": lambda: transformers.MixtralConfig(**SMALL, **EXPERTS, num_local_experts=3),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**SMALL, **EXPERTS, head_dim=8, num_experts=3,
                                                     moe_intermediate_size=4),
}


def folder(name):
    return os.path.join(HERE, name)


def by_5():
    for number, (name, config) in enumerate(MODELS.items()):
        torch.manual_seed(number)
        model = transformers.AutoModelForCausalLM.from_config(config())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        model = model.bfloat16()
        model.save_pretrained(folder(name + "_5"))
        if hasattr(model.config, "num_local_experts"):
            model.save_pretrained(folder(name + "_5_fused"), save_original_format=False)


def by_4():
    for name in MODELS:
        config = transformers.AutoConfig.from_pretrained(folder(name + "_5"))
        if name == "qwen3_moe":  # transformers 4 does not know the key of transformers 5
            config.num_experts = config.num_local_experts
            del config.num_local_experts
        model = transformers.AutoModelForCausalLM.from_pretrained(folder(name + "_5"), config=config,
                                                                  dtype="auto")
        model.save_pretrained(folder(name + "_4"))


by_5() if sys.argv[1] == "5" else by_4()
for root, _, files in os.walk(HERE):
    if "generation_config.json" in files:
        os.remove(os.path.join(root, "generation_config.json"))
