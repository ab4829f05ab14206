"""neuron_weights.py in workers of the CPU build of vLLM, for tests: beside the model that generates lies one with the
parameters of vLLM Neuron's, filled of the same folder (tests/interop/neuron_model.py), and that is what is digested.
"""

import os
import pathlib

import neuron_model
import neuron_weights
from vllm.v1.worker.gpu_worker import Worker

# vLLM Neuron's worker has no such method, and an extension may not have a method of the worker.
del Worker.compute_weight_checksums


class Extension(neuron_weights.Extension):
    def neuron_model(self):
        if not hasattr(self, "shaped"):
            parallel, folder = self.vllm_config.parallel_config, self.vllm_config.model_config.model
            config = neuron_model.config_of(folder, parallel.tensor_parallel_size)
            self.shaped = neuron_model.NeuronModel(folder, config, self.rank)
            self.damage()
        return self.shaped

    def damage(self):
        """Changes one bit of the parameter of rank 0 that the file named by TAMPERED gives."""
        said = pathlib.Path(os.environ.get("TAMPERED", os.devnull)).read_text().strip()
        if said and self.rank == 0:
            tensor = dict(self.shaped.named_parameters())[said]
            tensor.data.view(neuron_model.torch.int16).view(-1)[3] ^= 1

    def reload_in_place_experiment(self, weights_path):
        count = super().reload_in_place_experiment(weights_path)
        self.reload_weights(weights_path=weights_path)
        return count
