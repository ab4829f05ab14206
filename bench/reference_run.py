"""The Python side of bench/reference.sh and bench/alternatives.sh.

  reference_run.py CHECKOUT ARGUMENT...          scripts/checkpoint_converter.py of a checkout of
                                                 neuronx-distributed, called as its
                                                 examples/training/llama/convert_checkpoints.py does
  reference_run.py --optimum FOLDER [SHARDS OUT] consolidation by the optimum-neuron unpacked in
                                                 FOLDER; without paths, only its imports
  reference_run.py --compare OURS THEIRS         fails unless two folders or files of weights hold the
                                                 same tensors, byte for byte
  reference_run.py --consolidate FOLDER FILE     one file of torch.save from a folder of safetensors
  reference_run.py --measure COMMAND ...         prints the seconds, the CPU seconds and the peak memory
                                                 in bytes of a command

Both packages run without the device: mocks replace the packages that need one, which are imported
but not called for files on a CPU.
"""

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

ROOTS = ("neuronx_distributed", "optimum", "torch_xla", "yaml")
REAL = (
    "neuronx_distributed.scripts.checkpoint_converter",
    "neuronx_distributed.pipeline.partition",
    "optimum.neuron.models.training.checkpointing",
    "optimum.neuron.models.training.transformations_utils",
    "optimum.neuron.utils.import_utils",
)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name in REAL or name.split(".")[0] not in ROOTS:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return mock.MagicMock(name=spec.name, __path__=[], __spec__=spec)

    def exec_module(self, module):
        pass


def load_only_real(folder, packages):
    """Imports the modules of REAL from `folder`; their packages stay empty, the rest are mocks."""
    for name in packages:
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = package
    sys.meta_path.insert(0, StandIns())


def convert(checkout, arguments):
    name = "neuronx_distributed"
    load_only_real(os.path.join(checkout, "src"), (name, f"{name}.scripts", f"{name}.pipeline"))
    from neuronx_distributed.scripts.checkpoint_converter import CheckpointConverterBase

    converter = CheckpointConverterBase()
    converter.run(converter.get_arg_parser().parse_args(arguments))


class TensorReference:
    """torch_xla's place holder for a tensor that has a file of its own."""


class Arena:
    """torch_xla's replacement of place holders, as far as a flat state_dict needs it."""

    def __init__(self, convert, select):
        self.convert, self.select = convert, select

    def transform(self, state):
        names = [name for name, value in state.items() if self.select(value)]
        return state | dict(zip(names, self.convert([state[name] for name in names])))


def consolidate_shards(folder, shards=None, out=None):
    sys.modules["peft"] = None  # only adapters need it
    name = "optimum.neuron"
    load_only_real(folder, ("optimum", name, f"{name}.utils", f"{name}.models", f"{name}.models.training"))
    import torch_xla.core.xla_model
    import torch_xla.utils.serialization
    from optimum.neuron.models.training import checkpointing

    torch_xla.core.xla_model.ToXlaTensorArena = Arena
    torch_xla.utils.serialization.TensorReference = TensorReference
    if shards:
        # The constant's module is a mock; with this value the function takes the given folder.
        checkpointing.MODEL_PARALLEL_SHARDS_DIR_NAME = os.path.basename(shards)
        checkpointing.consolidate_model_parallel_checkpoints_to_unified_checkpoint(shards, out)


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
    ranked = os.path.isdir(theirs) and not glob.glob(os.path.join(theirs, "*.safetensors"))
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
elif sys.argv[1] == "--optimum":
    consolidate_shards(*sys.argv[2:])
elif sys.argv[1] == "--consolidate":
    consolidate(*sys.argv[2:])
else:
    convert(sys.argv[1], sys.argv[2:])
