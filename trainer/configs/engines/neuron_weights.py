"""A worker extension for vLLM Neuron: digests of the parameters that its loaders filled, and, as an EXPERIMENT, new weights.

  PYTHONPATH=trainer/configs/engines vllm serve MODEL ... --worker-extension-cls neuron_weights.Extension
  POST /collective_rpc {"method": "compute_weight_checksums"}, or llm.collective_rpc("compute_weight_checksums")
Each rank answers {"dp0:tp3:model.norm.weight": "64 digits", ...}: what `ckpt-digest --as vllm-neuron --tp N` predicts.
A worker that already has the method, like vLLM's own since 0.32, refuses the extension at start.

The engine's own names were read in sources of its 0.21 and 0.24 lines (model_runner.model, load_weights(folder, device),
one load_state_dict); nothing of this was run on a Neuron device. A digest covers the parameter as torch returns it: it
does not show what a kernel has made of it on the device, or what a compiled graph still holds.
"""

import collections
import hashlib

import torch

Loaded = collections.namedtuple("Loaded", "missing_keys unexpected_keys")  # like the result of torch's load_state_dict


def digest(tensor):
    """SHA-256 of a host copy in row-major order: one parameter at a time, since a slice is a program on the device."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy()).hexdigest()


def place(worker):
    """The core in ckpt-digest's notation; dp is the index of vLLM's data parallel engine."""
    parallel = worker.vllm_config.parallel_config
    dp = getattr(parallel, "data_parallel_index", parallel.data_parallel_rank)  # vLLM sets the rank to 0 for dense models
    return f"dp{dp}:tp{worker.rank % parallel.tensor_parallel_size}:"


class Extension:
    def neuron_model(self):
        model = self.model_runner.model
        return getattr(model, "_orig_mod", model)  # the model that torch.compile has wrapped

    def compute_weight_checksums(self):
        before = place(self)
        return {before + name: digest(tensor) for name, tensor in self.neuron_model().named_parameters()}

    @torch.no_grad()
    def reload_in_place_experiment(self, weights_path):
        """EXPERIMENT: copies the folder's tensors into the existing parameters; returns their number. Whether the runtime
        sees a parameter that is overwritten behind a compiled graph is not known. Nothing is overwritten unless the
        engine's own loader fills every parameter, in its shape; the loader needs a rank's weights twice, on the host."""
        model, made = self.neuron_model(), {}

        def collect(state, strict=True, assign=False):
            made.update(state)
            return Loaded([], [])

        model.load_state_dict = collect  # instead of new tensors for the parameters
        try:
            model.load_weights(weights_path, torch.device("cpu"))
        finally:
            del model.load_state_dict
        held = dict(model.named_parameters())
        for name, tensor in held.items():
            if name not in made:
                raise RuntimeError(f"{weights_path} does not fill {name}: nothing is overwritten")
            if made[name].shape != tensor.shape:
                raise RuntimeError(f"{weights_path} makes {name} {list(made[name].shape)}, the engine has "
                                   f"{list(tensor.shape)}: nothing is overwritten")
        for name, tensor in held.items():
            tensor.copy_(made[name])
            if digest(tensor) != digest(made[name].to(tensor.dtype)):
                raise RuntimeError(f"{name} does not hold what was written over it")
        return len(held)
