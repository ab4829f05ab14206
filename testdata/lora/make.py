#!/usr/bin/python3
"""Writes the adapter of this folder with the safetensors package.

Usage: python3 make.py OUTPUT_FOLDER     (safetensors 0.8 and numpy; see SOURCES.md)
"""

import json
import sys

import numpy
from safetensors.numpy import save_file

CONFIG = {"alpha_pattern": {}, "auto_mapping": None, "base_model_name_or_path": "base",
          "bias": "none", "fan_in_fan_out": False, "inference_mode": True,
          "init_lora_weights": True, "layers_pattern": None, "layers_to_transform": None,
          "lora_alpha": 4, "lora_dropout": 0.0, "modules_to_save": None, "peft_type": "LORA",
          "r": 2, "rank_pattern": {}, "revision": None, "target_modules": ["q_proj"],
          "task_type": "CAUSAL_LM", "use_dora": False, "use_rslora": False}


def main(root):
    module = "base_model.model.model.layers.0.self_attn.q_proj."
    save_file({module + "lora_A.weight": numpy.arange(8, dtype=numpy.float32).reshape(2, 4),
               module + "lora_B.weight": numpy.arange(8, dtype=numpy.float32).reshape(4, 2)},
              f"{root}/adapter_model.safetensors", {"format": "pt"})
    with open(f"{root}/adapter_config.json", "w", encoding="ascii") as out:
        out.write(json.dumps(CONFIG, indent=2, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1])
