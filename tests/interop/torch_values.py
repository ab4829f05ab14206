"""A Python value as JSON: the twin of JsonOf() in tests/formats/torch/archive_io.cc.

None, bool, int and str stand for themselves; everything else is an object of one word:
{"float": repr}, {"int": digits} beyond 64 bits, {"bytes": hex}, {"list": [..]}, {"tuple": [..]},
{"set": [..]}, {"dict": [[key, value], ..]}, {"ordered_dict": ..}, {"dtype": name}, {"size": [..]},
{"reference": tid}, {"opaque": class}, and {"tensor": dtype, "shape": [..], "sha256": ..} with the
digest of the row-major little-endian bytes.
"""
import collections
import hashlib
import json
import sys
import types

import torch


class TensorReference:
    """Stands in for torch_xla's class; pickles as torch_xla.utils.serialization.TensorReference."""

    def __init__(self, tid):
        self.tid = tid


class InternalTensorReference:
    """Stands in for NxD's class for references inside lists."""

    def __init__(self, tid, shape, dtype, expert_model_parallel):
        self.tid = tid
        self.shape = shape
        self.dtype = dtype
        self.expert_model_parallel = expert_model_parallel


def _install(cls, module, name):
    parts = module.split(".")
    for i in range(len(parts)):
        path = ".".join(parts[: i + 1])
        if path not in sys.modules:
            sys.modules[path] = types.ModuleType(path)
    cls.__module__ = module
    cls.__name__ = cls.__qualname__ = name
    setattr(sys.modules[module], name, cls)


def install_stubs():
    """Makes the reference classes importable, so that pickle can save and load them."""
    _install(TensorReference, "torch_xla.utils.serialization", "TensorReference")
    _install(InternalTensorReference, "neuronx_distributed.trainer.checkpoint",
             "_InternalTensorReference")


def logical_bytes(tensor):
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    if flat.numel() == 0:
        return b""
    if flat.dtype == getattr(torch, "complex32", None):
        flat = torch.view_as_real(flat).reshape(-1)
    return bytes(flat.view(torch.uint8).tolist())


def to_json(value):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else {"int": str(value)}
    if isinstance(value, float):
        return {"float": json.dumps(value)}
    if isinstance(value, complex):
        return {"opaque": "builtins.complex"}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.hex()}
    if isinstance(value, torch.Size):
        return {"size": list(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value)[len("torch."):]}
    if isinstance(value, torch.device):
        return {"opaque": "torch.device"}
    if isinstance(value, torch.Tensor):
        return {"tensor": str(value.dtype)[len("torch."):], "shape": list(value.shape),
                "sha256": hashlib.sha256(logical_bytes(value)).hexdigest()}
    if isinstance(value, (TensorReference, InternalTensorReference)):
        return {"reference": value.tid}
    if isinstance(value, collections.OrderedDict):
        return {"ordered_dict": [[to_json(k), to_json(v)] for k, v in value.items()]}
    if isinstance(value, dict):
        return {"dict": [[to_json(k), to_json(v)] for k, v in value.items()]}
    if isinstance(value, list):
        return {"list": [to_json(item) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [to_json(item) for item in value]}
    if isinstance(value, set):
        return {"set": [to_json(item) for item in value]}
    raise TypeError(f"no JSON for {type(value)}")
