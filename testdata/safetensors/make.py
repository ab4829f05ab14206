"""Writes the files of this folder with the PyPI package safetensors; see SOURCES.md.

Usage: python make.py   (in an environment with safetensors, numpy and torch)

expected.json holds what the package itself reads back: per file its SHA-256 and metadata, per tensor
dtype, shape (both as in the header) and the SHA-256 of its bytes.
"""

import hashlib
import json
import os

import numpy as np
import safetensors
import torch
from safetensors import safe_open
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file as save_torch

HERE = os.path.dirname(os.path.abspath(__file__))

NUMPY_DTYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64",
]
TORCH_DTYPES = NUMPY_DTYPES + [
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn_x2",
]


def numpy_array(dtype, shape, seed):
    """Every bit pattern is fine but for bool, where only 0 and 1 are values."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    data = np.array([(seed * 37 + i * 11) % 251 for i in range(size)], dtype=np.uint8)
    if dtype == "bool":
        data &= 1
    return data.view(dtype).reshape(shape)


def torch_tensor(dtype, shape, seed):
    if dtype == "bool":
        return torch.from_numpy(numpy_array("bool", shape, seed))
    torch_dtype = getattr(torch, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * torch_dtype.itemsize
    data = numpy_array("uint8", [size], seed)
    return torch.from_numpy(data.copy()).view(torch_dtype).reshape(shape)


def files():
    """name -> (writer, tensors, metadata)"""
    np_all = {f"np.{d}": numpy_array(d, [2, 3], i) for i, d in enumerate(NUMPY_DTYPES)}
    pt_all = {f"pt.{d}": torch_tensor(d, [2, 4], i) for i, d in enumerate(TORCH_DTYPES)}
    shapes = {
        "scalar": numpy_array("float32", [], 1),
        "scalar_bool": numpy_array("bool", [], 2),
        "empty": numpy_array("float32", [0], 3),
        "empty_2d": numpy_array("int64", [2, 0, 3], 3),
        "rank7": numpy_array("uint8", [1, 2, 1, 3, 1, 2, 1], 4),
        "vector": numpy_array("float16", [5], 5),
    }
    names = {
        "": numpy_array("uint8", [1], 1),
        "caf\u00e9": numpy_array("uint8", [1], 2),
        "\uffff": numpy_array("uint8", [1], 3),
        "\U0001f600": numpy_array("uint8", [1], 4),
        "tab\tquote\"back\\slash/nul\u0000del\u007f": numpy_array("uint8", [1], 5),
        "layers.10.weight": numpy_array("uint8", [1], 6),
        "layers.2.weight": numpy_array("uint8", [1], 7),
    }
    tiny = {"weight": numpy_array("float32", [2, 2], 1)}
    return {
        "numpy_dtypes": (save_numpy, np_all, None),
        "torch_dtypes": (save_torch, pt_all, {"format": "pt"}),
        "shapes": (save_numpy, shapes, None),
        "names": (save_numpy, names, None),
        "no_tensors": (save_numpy, {}, None),
        "only_metadata": (save_numpy, {}, {"framework": "pt"}),
        "two_metadata": (save_numpy, tiny, {"format": "pt", "note": "l\u00e9gende\n"}),
        "odd_alignment": (save_numpy, {"a": numpy_array("uint8", [3], 1), "b": numpy_array("bool", [2], 2)},
                          None),
        "two_tensors": (save_numpy, {"test2": numpy_array("float16", [2, 2], 2),
                                     "test1": numpy_array("int32", [2, 2], 1)}, None),
    }


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def describe(path):
    with safe_open(path, framework="pt") as reader:
        tensors = {}
        for name in reader.keys():
            part = reader.get_slice(name)
            tensor = reader.get_tensor(name).contiguous().reshape(-1)
            data = tensor.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
            tensors[name] = {"dtype": part.get_dtype(), "shape": part.get_shape(), "sha256": sha256(data)}
        metadata = reader.metadata()
    with open(path, "rb") as file:
        whole = file.read()
    return {"bytes": len(whole), "sha256": sha256(whole), "metadata": metadata, "tensors": tensors}


def main():
    expected = {}
    for name, (save, tensors, metadata) in files().items():
        path = os.path.join(HERE, name + ".safetensors")
        save(tensors, path, metadata=metadata)
        os.chmod(path, 0o644)
        expected[name + ".safetensors"] = describe(path)
    with open(os.path.join(HERE, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1, sort_keys=True)
        file.write("\n")
    print("safetensors", safetensors.__version__, "numpy", np.__version__, "torch", torch.__version__)


if __name__ == "__main__":
    main()
