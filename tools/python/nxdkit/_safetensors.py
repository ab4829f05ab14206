"""safetensors' own interface for a checkpoint of any layout, for code written for it."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterable, Iterator, List, Union

from ._checkpoint import Checkpoint, PathLike
from ._checkpoint import open as open_checkpoint
from ._errors import UnsupportedError
from ._tensor import Tensor

FRAMEWORKS = {"pt": "torch", "torch": "torch", "pytorch": "torch", "np": "numpy", "numpy": "numpy"}


class safe_open:
    """safetensors.safe_open for a checkpoint of any layout.

    filename: a path as for nxdkit.open. framework: "pt" or "np", or a longer name of one of them;
    UnsupportedError for others. device: the device for torch tensors, "cpu", "cuda:0", 0.
    backend: "mmap" or "pread", as in safetensors; it has no effect here. options: those of
    nxdkit.open. A missing tensor is a KeyError.

    with nxdkit.safe_open("runs/grpo", framework="pt") as f:
        column = f.get_slice("lm_head.weight")[:, ::8]
    """

    __module__ = "nxdkit"

    def __init__(
        self,
        filename: PathLike,
        framework: str,
        device: Union[str, int] = "cpu",
        *,
        backend: str = "mmap",
        **options: Any,
    ) -> None:
        if framework not in FRAMEWORKS:
            raise UnsupportedError(
                f"the framework {framework!r} is not one of {', '.join(FRAMEWORKS)}"
            )
        if backend not in ("mmap", "pread"):
            raise ValueError(f"the backend {backend!r} is not mmap or pread")
        self._framework = FRAMEWORKS[framework]
        self._device = device
        self._checkpoint = open_checkpoint(filename, **options)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        self._checkpoint.close()

    def keys(self) -> List[str]:
        """The names of the tensors, sorted."""
        return sorted(self._checkpoint)

    def offset_keys(self) -> List[str]:
        """The names of the tensors in the checkpoint's own order."""
        return list(self._checkpoint)

    def metadata(self) -> Dict[str, str]:
        """The metadata in the headers of safetensors files; {"format": "pt"} if there is none,
        or for another layout."""
        return dict(self._checkpoint._index.get("metadata") or {"format": "pt"})

    def get_tensor(self, name: str) -> Any:
        """The whole tensor, in the requested framework and on the requested device."""
        return self._made(self._checkpoint[name])

    def get_tensors(self) -> Dict[str, Any]:
        """All tensors by name."""
        return {name: self.get_tensor(name) for name in self._checkpoint}

    def get_slice(self, name: str) -> Slice:
        """The tensor for slicing: only the elements of the slice are read."""
        return Slice(self, self._checkpoint[name])

    def _made(self, tensor: Tensor) -> Any:
        if self._framework == "numpy":
            return tensor.numpy()
        made = tensor.torch()
        return made if self._device == "cpu" else made.to(self._device)


class Slice:
    """The result of safe_open.get_slice: get_shape(), get_dtype(), and [...] for the elements."""

    __module__ = "nxdkit"

    def __init__(self, file: safe_open, tensor: Tensor) -> None:
        self._file, self._tensor = file, tensor

    def get_shape(self) -> List[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """safetensors' name of the element type, such as "BF16"."""
        return self._tensor.dtype

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if all(_is_plain(part) for part in parts):
            return self._file._made(self._tensor[key])
        return self._file._made(self._tensor)[key]  # lists, masks, None: the framework knows


def _is_plain(part: Any) -> bool:
    if isinstance(part, (slice, int)):
        return not isinstance(part, bool)
    return part is Ellipsis or (hasattr(part, "__index__") and getattr(part, "ndim", 0) == 0)


def load_file(
    filename: PathLike, device: Union[str, int] = "cpu", *, backend: str = "mmap", **options: Any
) -> Dict[str, Any]:
    """safetensors.torch.load_file for a checkpoint of any layout: all tensors as torch has them.

    model.load_state_dict(nxdkit.load_file("runs/grpo")), or
    Qwen3ForCausalLM.from_pretrained(None, config=config, state_dict=nxdkit.load_file(...)).
    """
    with safe_open(filename, "pt", device, backend=backend, **options) as file:
        return file.get_tensors()


def load_files(
    filenames: Iterable[PathLike], device: Union[str, int] = "cpu", **options: Any
) -> Dict[str, Any]:
    """load_file for several files, such as a model and its adapter, in one dict."""
    tensors: Dict[str, Any] = {}
    for filename in filenames:
        tensors.update(load_file(filename, device, **options))
    return tensors


@contextlib.contextmanager
def as_safetensors(path: PathLike, **options: Any) -> Iterator[str]:
    """A folder in which from_pretrained finds the checkpoint at `path`, of any layout.

    with nxdkit.as_safetensors("runs/grpo") as folder:
        model = AutoModelForCausalLM.from_pretrained(folder)

    The folder is temporary. It has the configuration, links to the files next to it (tokenizer,
    generation_config.json), and a model.safetensors in name only: within the `with`, safe_open
    opens that name with this module, in safetensors and in every module that has imported it
    from there, so that loaders read tensor by tensor from the checkpoint's own files. Nothing is
    converted or copied. options: those of nxdkit.open. The file must be loaded within the `with`
    and in this process. UnsupportedError if the checkpoint has no configuration.
    """
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="nxdkit-")
    try:
        with open_checkpoint(path, **options) as checkpoint:
            _furnish(folder, checkpoint)
        name = os.path.join(folder, "model.safetensors")
        with _in_place_of_safetensors(name, path, options):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _furnish(folder: str, checkpoint: Checkpoint) -> None:
    import json

    if checkpoint.config is None:
        raise UnsupportedError(
            f"{checkpoint.path} has no configuration: config= names its config.json"
        )
    beside = os.path.dirname(str(checkpoint._index.get("config_path") or ""))
    for name in sorted(os.listdir(beside)) if os.path.isdir(beside) else ():
        if name.endswith((".json", ".txt", ".model", ".jinja")) and ".index." not in name:
            os.symlink(os.path.abspath(os.path.join(beside, name)), os.path.join(folder, name))
    config = os.path.join(folder, "config.json")
    if os.path.lexists(config):
        os.unlink(config)
    with open(config, "w", encoding="utf-8") as file:
        json.dump(checkpoint.config, file)
    # Not a safetensors file: opening it in another way, in another process, has to fail.
    with open(os.path.join(folder, "model.safetensors"), "wb") as stand_in:
        stand_in.write(b"this stands for a checkpoint that nxdkit reads, in one process only\n")


@contextlib.contextmanager
def _in_place_of_safetensors(name: str, path: PathLike, options: Dict[str, Any]) -> Iterator[None]:
    import sys

    import safetensors  # type: ignore[import-not-found,unused-ignore]
    import safetensors.torch  # type: ignore[import-not-found,unused-ignore]

    real = safetensors.safe_open

    def ours(filename: Any, *arguments: Any, **named: Any) -> Any:
        if os.path.realpath(os.fspath(filename)) == os.path.realpath(name):
            return safe_open(path, *arguments, **{**named, **options})
        return real(filename, *arguments, **named)

    try:
        with contextlib.suppress(ImportError):
            import transformers.modeling_utils  # type: ignore[import-not-found,unused-ignore] # noqa: F401
        _replace(sys.modules, real, ours)
        yield
    finally:
        _replace(sys.modules, ours, real)


def _replace(modules: Dict[str, Any], old: Any, new: Any) -> None:
    """Replaces safe_open in every module that has imported it."""
    for module in list(modules.values()):
        names = getattr(module, "__dict__", {})  # not getattr, which makes lazy modules import
        if names.get("safe_open") is old:
            names["safe_open"] = new
