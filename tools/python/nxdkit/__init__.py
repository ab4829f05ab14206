"""Checkpoints of every layout that nxdkit reads, tensor by tensor, and its commands as calls.

    run = nxdkit.open("runs/grpo")         # hf, nxd, fsdp, dcp, megatron, rollout, torch, delta
    q = run["model.layers.0.self_attn.q_proj.weight"]
    rows = q[0:128].torch()                # reads 128 rows, from the files that hold them
    mine = run.rank("vllm", tp=8, rank=3)  # what a rank of an engine will hold
    nxdkit.convert(run, "bundle", to="rollout", tp=8, progress=lambda p: bar.update(p.bytes))
    assert nxdkit.digest("bundle") == run.digest()
    nxdkit.verify("bundle", against=run)            # raises nxdkit.Findings
    nxdkit.save(model.state_dict(), "step_20", to="nxd", config="Qwen3-4B", tp=8)

It needs nothing but the standard library; torch and numpy are imported by what returns theirs.
The library itself, libnxdkit.so.1, is loaded by the first call: from this package, else from
$NXDKIT_LIBRARY, else from lib/ above this package, else where the system has it.
"""

# Each name is imported on first use, so that `import nxdkit` costs next to nothing.
_PLACES = {
    "_calls": "convert diff digest export inspect pack reshard run save verify",
    "_checkpoint": "Checkpoint open",
    "_command": "command",
    "_errors": "CheckpointWarning DamagedError Error Findings InputOutputError InternalError "
    "LimitError MissingError UnsupportedError UsageError",
    "_memory": "Source",
    "_progress": "Progress",
    "_report": "Difference Report",
    "_safetensors": "as_safetensors load_file load_files safe_open",
    "_tensor": "Tensor",
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names.split()}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._calls import convert, diff, digest, export, inspect, pack, reshard, run, save, verify
    from ._checkpoint import Checkpoint, open
    from ._command import command
    from ._errors import (
        CheckpointWarning,
        DamagedError,
        Error,
        Findings,
        InputOutputError,
        InternalError,
        LimitError,
        MissingError,
        UnsupportedError,
        UsageError,
    )
    from ._memory import Source
    from ._progress import Progress
    from ._report import Difference, Report
    from ._safetensors import as_safetensors, load_file, load_files, safe_open
    from ._tensor import Tensor

    __version__: str

__all__ = [
    "Checkpoint",
    "CheckpointWarning",
    "DamagedError",
    "Difference",
    "Error",
    "Findings",
    "InputOutputError",
    "InternalError",
    "LimitError",
    "MissingError",
    "Progress",
    "Report",
    "Source",
    "Tensor",
    "UnsupportedError",
    "UsageError",
    "as_safetensors",
    "command",
    "convert",
    "diff",
    "digest",
    "export",
    "inspect",
    "load_file",
    "load_files",
    "open",
    "pack",
    "reshard",
    "run",
    "safe_open",
    "save",
    "verify",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from ._library import version

        return version()
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'nxdkit' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"nxdkit.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__, "__version__"})
