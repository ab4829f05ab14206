"""Writes the folders of this folder with transformers, huggingface_hub and torch; see SOURCES.md.

Usage: python make.py   (in an environment with transformers, torch and safetensors)
"""

import json
import os
import shutil

import huggingface_hub
import safetensors
import torch
import transformers
from huggingface_hub import split_torch_state_dict_into_shards
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))


def model():
    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=32, max_position_embeddings=64,
                         tie_word_embeddings=False, dtype="bfloat16")
    return LlamaForCausalLM(config).to(torch.bfloat16)


def fresh(name):
    path = os.path.join(HERE, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def expectations(llama, names):
    """What transformers' own split and sizes are, for limits from tiny to all in one."""
    state = llama.state_dict()
    rows = []
    for limit in (1, 512, 1000, 1024, 1025, 2048, 3000, 5000, 10_000, 1_000_000):
        split = split_torch_state_dict_into_shards(state, max_shard_size=limit)
        rows.append({"limit": limit, "is_sharded": split.is_sharded,
                     "total_size": split.metadata["total_size"],
                     "files": {file: tensors for file, tensors in split.filename_to_tensors.items()}})
    return {"tensors": [{"name": name, "bytes": tensor.nbytes} for name, tensor in state.items()],
            "folders": names, "splits": rows}


def main():
    llama = model()
    sharded = fresh("sharded")
    llama.save_pretrained(sharded, max_shard_size=3000)
    single = fresh("single")
    llama.save_pretrained(single)

    # transformers 5 no longer writes .bin; this is what 4.x wrote, with torch.save and its index rule.
    legacy = fresh("sharded_bin")
    state = llama.state_dict()
    split = split_torch_state_dict_into_shards(
        state, max_shard_size=5000, filename_pattern="pytorch_model{suffix}.bin")
    for file, tensors in split.filename_to_tensors.items():
        torch.save({name: state[name].clone() for name in tensors}, os.path.join(legacy, file))
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    with open(os.path.join(legacy, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(index, indent=2, sort_keys=True) + "\n")

    folders = {name: sorted(os.listdir(os.path.join(HERE, name)))
               for name in ("sharded", "single", "sharded_bin")}
    for name, files in folders.items():
        for file in files:
            os.chmod(os.path.join(HERE, name, file), 0o644)
    with open(os.path.join(HERE, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expectations(llama, folders), file, indent=1)
        file.write("\n")
    for module in (transformers, huggingface_hub, torch, safetensors):
        print(module.__name__, module.__version__)


if __name__ == "__main__":
    main()
