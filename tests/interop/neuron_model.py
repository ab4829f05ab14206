"""A torch model with the parameters of vLLM Neuron's and its way of loading, for tests without it.

Names, shapes and content are those of neuron_interop.Loader, the port of the loader's rules; load_weights and the new
tensors that it assigns are as in the engine's sources. It computes nothing.
"""

import json
import os

import numpy as np
import torch

import neuron_interop


def config_of(folder, tp):
    """The letters of neuron_interop for a dense folder on `tp` ranks."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        said = json.load(file)
    config = neuron_interop.Config.__new__(neuron_interop.Config)
    config.family, config.moe, config.E, config.J = said["model_type"], False, 0, 0
    config.q, config.k = said["num_attention_heads"], said["num_key_value_heads"]
    config.H, config.I, config.V = said["hidden_size"], said["intermediate_size"], said["vocab_size"]
    config.D = said.get("head_dim", config.H // config.q)
    config.L, config.tied = said["num_hidden_layers"], said.get("tie_word_embeddings", False)
    config.dtype, config.N, config.P, config.A = "bfloat16", tp, 1, 1
    return config


def to_torch(array):
    array = np.ascontiguousarray(array)
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


class NeuronModel(torch.nn.Module):
    """The tensors of a rank from a folder with the sizes of `config`."""

    def __init__(self, folder, config, rank):
        super().__init__()
        self.config, self.rank = config, rank
        for name, tensor in self.made_of(folder).items():
            self.add(name, torch.empty_like(tensor))
        self.load_weights(folder, torch.device("cpu"))

    def add(self, name, tensor):
        module = self
        *parents, last = name.split(".")
        for parent in parents:
            if not hasattr(module, parent):
                module.add_module(parent, torch.nn.Module())
            module = getattr(module, parent)
        module.register_parameter(last, torch.nn.Parameter(tensor, requires_grad=False))

    def made_of(self, folder):
        stored = neuron_interop.read_tensors(os.path.join(folder, "model.safetensors"))
        arrays = neuron_interop.Loader(self.config, stored).core(0, self.rank)
        return {name: to_torch(array) for name, array in arrays}

    def load_weights(self, checkpoint_path, device, cache_dir=None):
        made = self.made_of(checkpoint_path)
        self.load_state_dict({name: tensor.to(device) for name, tensor in made.items()}, strict=False, assign=True)
