"""A worker extension for CPU test servers of vLLM 0.32: the weight checker then sees the weights as loaded.

CPU kernels pack linear weights and reorder experts once they are loaded. Here linear layers use torch's own product,
which packs nothing, and a copy of the experts is kept first. vLLM imports this in each worker before it builds the model:
  PYTHONPATH=trainer/configs/engines vllm serve ... --worker-extension-cls shown_weights.Extension
"""

import vllm._custom_ops
import vllm.model_executor.layers.fused_moe.experts.cpu_moe as cpu_moe
import vllm.model_executor.layers.utils as layer_utils
import vllm.model_executor.model_loader.weight_checksum as checker

EXPERTS = ("w13_weight", "w2_weight")

vllm._custom_ops._supports_onednn = False
layer_utils.check_cpu_sgl_kernel = lambda *sizes_and_dtype: False
reorder = cpu_moe.CPUUnquantizedExperts.process_weights_after_loading
checked_weights = checker._weights


def reorder_a_copy(self, layer):
    layer.as_loaded = {name: getattr(layer, name).detach().clone() for name in EXPERTS}
    reorder(self, layer)


def weights_as_loaded(model):
    loaded = {}
    for prefix, module in model.named_modules():
        for name, tensor in getattr(module, "as_loaded", {}).items():
            loaded[f"{prefix}.{name}"] = tensor
    for name, tensor in checked_weights(model):
        yield name, loaded.get(name, tensor)


cpu_moe.CPUUnquantizedExperts.process_weights_after_loading = reorder_a_copy
checker._weights = weights_as_loaded


class Extension:
    """Adds nothing to the worker; its purpose is the import of this module there."""
