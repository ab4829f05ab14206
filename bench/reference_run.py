"""reference_run.py CHECKOUT ARGUMENT...: runs scripts/checkpoint_converter.py of a checkout of
neuronx-distributed, as its examples/training/llama/convert_checkpoints.py does, on a machine without the
device: the device's packages, which it imports and does not call for plain files, are stood in for by
mocks. `reference_run.py --compare OURS THEIRS` says whether two folders or files of weights hold the same
tensors, byte for byte; `--consolidate FOLDER FILE` makes the one file that it reads of a folder of
safetensors; `--measure COMMAND ...` prints the seconds, the CPU seconds and
the peak memory in bytes of a command."""

import glob
import importlib.abc
import importlib.machinery
import os
import resource
import subprocess
import sys
import time
import types
from unittest import mock

ROOTS = ("neuronx_distributed", "torch_xla", "yaml")
REAL = ("neuronx_distributed.scripts.checkpoint_converter", "neuronx_distributed.pipeline.partition")


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name in REAL or name.split(".")[0] not in ROOTS:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return mock.MagicMock(name=spec.name, __path__=[], __spec__=spec)

    def exec_module(self, module):
        pass


def convert(checkout, arguments):
    source = os.path.join(checkout, "src", "neuronx_distributed")
    for name in ("", "scripts", "pipeline"):
        package = types.ModuleType(".".join(["neuronx_distributed", name]).rstrip("."))
        package.__path__ = [os.path.join(source, name)]
        sys.modules[package.__name__] = package
    sys.meta_path.insert(0, StandIns())
    from neuronx_distributed.scripts.checkpoint_converter import CheckpointConverterBase

    converter = CheckpointConverterBase()
    converter.run(converter.get_arg_parser().parse_args(arguments))


def files_of(path):
    if os.path.isfile(path):
        return [path]
    found = [f for kind in ("*.pt", "*.safetensors") for f in glob.glob(os.path.join(path, kind))]
    return sorted(found)


def tensors_of(path):
    """The tensors of a whole model by name. Ranks have the same names and are compared by file."""
    import safetensors.torch
    import torch

    tensors = {}
    for file in files_of(path):
        tensors |= safetensors.torch.load_file(file) if file.endswith(".safetensors") else torch.load(file)
    return tensors


def same(ours, theirs):
    import torch

    if ours.keys() != theirs.keys():
        return f"names differ: {sorted(ours.keys() ^ theirs.keys())[:4]}"
    for name, tensor in ours.items():
        other = theirs[name]
        if tensor.dtype != other.dtype or tensor.shape != other.shape:
            return f"{name}: {tensor.dtype} {tuple(tensor.shape)}, {other.dtype} {tuple(other.shape)}"
        if not torch.equal(tensor.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8)):
            return f"{name}: values differ"
    return None


def compare(ours, theirs):
    ranked = os.path.isdir(theirs)
    pairs = list(zip(files_of(ours), files_of(theirs))) if ranked else [(ours, theirs)]
    if ranked and len(files_of(ours)) != len(files_of(theirs)):
        sys.exit(f"{ours} and {theirs} have not as many files")
    count = 0
    for a, b in pairs:
        x, y = tensors_of(a), tensors_of(b)
        difference = same(x, y)
        if difference:
            sys.exit(f"{a}, {b}: {difference}")
        count += len(x)
    print(f"{count} tensors in {len(pairs)} files are equal, byte for byte")


def consolidate(folder, file):
    import torch

    torch.save(tensors_of(folder), file)


def measure(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.perf_counter() - start:.3f} {usage.ru_utime + usage.ru_stime:.3f} {usage.ru_maxrss * 1024}")


if sys.argv[1] == "--compare":
    compare(*sys.argv[2:])
elif sys.argv[1] == "--measure":
    measure(sys.argv[2:])
elif sys.argv[1] == "--consolidate":
    consolidate(*sys.argv[2:])
else:
    convert(sys.argv[1], sys.argv[2:])
