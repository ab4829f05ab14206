"""Tensors of this process in place of files."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._checkpoint import Checkpoint
from ._dtypes import DTYPES, word_of
from ._handle import MemoryRecipe, plain_options
from ._tensor import Tensor

Shards = Union[Sequence[Mapping[str, Any]], Mapping[Any, Mapping[str, Any]]]


class _Array(NamedTuple):
    """Elements in memory: strides in elements, None if packed; `keep` holds them."""

    dtype: str
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]
    address: int
    keep: object


class Source(Checkpoint):
    """Arrays of this process as a checkpoint: for convert(), verify(against=...), diff(), rank().

    tensors: names and torch tensors (on the CPU, with any strides), numpy arrays (BF16 and F8
    from ml_dtypes), nxdkit.Tensors (which are read now), objects with a buffer, or triples
    (dtype, shape, buffer) such as ("BF16", (2, 3), data). The first two are not copied, except
    arrays with negative strides; they must not change while the source is used, and it keeps
    them alive until it is closed. TypeError for a tensor that cannot be read here, such as one
    on a device, which needs .cpu().

    config: the model's configuration: a dict, transformers' object, the path of a config.json, or of a folder with one
    (whose tokenizer is then used). name: for messages. layout: the layout of the names, "hf".
    options: more options of the layout. Cannot be pickled; a forked child can use it.
    """

    __module__ = "nxdkit"

    def __init__(
        self,
        tensors: Mapping[str, Any],
        *,
        config: Any = None,
        name: str = "memory",
        layout: str = "hf",
        **options: Any,
    ) -> None:
        self._open([({}, tensors)], config, name, layout, options)

    @classmethod
    def from_shards(
        cls,
        shards: Shards,
        *,
        config: Any = None,
        name: str = "memory",
        layout: str = "nxd",
        **options: Any,
    ) -> Source:
        """The shards of all ranks of a layout: a list by tensor parallel rank, or a dict whose
        keys are tensor parallel ranks, or (pipeline rank, tensor parallel rank)."""
        source = cls.__new__(cls)
        source._open(list(_placed(shards)), config, name, layout, options)
        return source

    def _open(
        self,
        parts: Sequence[Tuple[Dict[str, int], Mapping[str, Any]]],
        config: Any,
        name: str,
        layout: str,
        options: Mapping[str, Any],
    ) -> None:
        self._folder: Optional[weakref.finalize[Any, Any]] = None
        rows, arrays = [], []
        for place, tensors in parts:
            for key, value in tensors.items():
                array = _array_of(key, value)
                row = {"name": key, "dtype": array.dtype, "shape": list(array.shape), **place}
                if array.strides is not None:
                    row["strides"] = list(array.strides)
                rows.append(row)
                arrays.append(array)
        options = plain_options(options)
        if config is not None:
            options["config"] = self._config_path(config)
        request = {"name": name, "layout": layout, "options": options, "tensors": rows}
        recipe = MemoryRecipe(request, [array.address for array in arrays], arrays)
        try:
            super().__init__(recipe, recipe.open())
        except BaseException:
            self._forget_folder()
            raise

    def _config_path(self, config: Any) -> str:
        if hasattr(config, "to_dict"):  # transformers' configuration of a model
            config = config.to_dict()
        if not isinstance(config, Mapping):
            path = os.fspath(config)
            return os.path.join(path, "config.json") if os.path.isdir(path) else path
        import json
        import tempfile

        folder = tempfile.mkdtemp(prefix="nxdkit-")
        self._folder = weakref.finalize(self, _remove, folder, os.getpid())
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return path

    def _forget_folder(self) -> None:
        if self._folder is not None:
            self._folder()

    def close(self) -> None:
        super().close()
        self._recipe = None  # and with it the arrays, unless a rank reads them
        self._forget_folder()


def _remove(folder: str, pid: int) -> None:
    import shutil

    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _placed(shards: Shards) -> Iterator[Tuple[Dict[str, int], Mapping[str, Any]]]:
    items = shards.items() if isinstance(shards, Mapping) else enumerate(shards)
    for key, tensors in items:
        pp_rank, rank = key if isinstance(key, tuple) else (0, key)
        yield {"rank": rank, "pp_rank": pp_rank}, tensors


def _array_of(name: str, value: Any) -> _Array:
    if isinstance(value, Tensor):
        return _packed(value.dtype, value.shape, value.bytes())
    if isinstance(value, tuple):
        dtype, shape, buffer = value
        return _packed(dtype, shape, buffer)
    if hasattr(value, "data_ptr"):
        return _of_torch(name, value)
    if hasattr(value, "__array_interface__"):
        return _of_numpy(name, value)
    return _of_buffer(name, value)


def _packed(dtype: str, shape: Sequence[int], buffer: Any) -> _Array:
    """A buffer of packed elements; one that cannot be written to is copied, for its address."""
    from ._dtypes import bytes_of

    if dtype not in DTYPES:
        raise TypeError(f"no element type {dtype!r}; there are {', '.join(DTYPES)}")
    view = memoryview(buffer)
    if view.readonly or not view.c_contiguous:
        view = memoryview(bytearray(view.tobytes()))
    elements = 1
    for count in shape:
        elements *= count
    needed = bytes_of(dtype, elements)
    if view.nbytes != needed:
        raise ValueError(f"{view.nbytes} bytes, and {dtype} of shape {list(shape)} has {needed}")
    if view.nbytes == 0:
        return _Array(dtype, tuple(shape), None, 0, view)
    memory = (ctypes.c_char * view.nbytes).from_buffer(view)
    return _Array(dtype, tuple(shape), None, ctypes.addressof(memory), memory)


def _of_torch(name: str, value: Any) -> _Array:
    import torch  # type: ignore[import-not-found,unused-ignore]

    if value.device.type != "cpu":
        where = "has no values" if value.device.type == "meta" else "is not in this memory: .cpu()"
        raise TypeError(f"{name}: a tensor on the device {value.device} {where}")
    if value.layout != torch.strided or value.is_quantized:
        raise TypeError(f"{name}: a {value.layout} tensor of {value.dtype} has no plain elements")
    if hasattr(value, "full_tensor"):
        raise TypeError(f"{name}: a DTensor is in several processes: .full_tensor()")
    value = value.detach().resolve_conj().resolve_neg()
    word = word_of(str(value.dtype).rpartition(".")[2])
    if word is None:
        raise TypeError(f"{name}: {value.dtype} is not an element type of a checkpoint")
    if word == "F4":
        return _packed(
            word, (*value.shape[:-1], 2 * value.shape[-1]), value.view(torch.uint8).numpy()
        )
    address = value.data_ptr()
    if address == 0 and value.numel() > 0:
        raise TypeError(f"{name}: a {type(value).__name__} has no memory of its own")
    strides = None if value.is_contiguous() else tuple(value.stride())
    return _Array(word, tuple(value.shape), strides, address, value)


def _of_numpy(name: str, value: Any) -> _Array:
    import numpy

    value = numpy.asarray(value)
    word = word_of(value.dtype.name)
    if word is None or not value.dtype.isnative:
        raise TypeError(f"{name}: {value.dtype} is not an element type of a checkpoint")
    size = value.dtype.itemsize
    if any(stride < 0 or stride % size for stride in value.strides):
        value = numpy.ascontiguousarray(value)
    strides = tuple(stride // size for stride in value.strides)
    address = value.__array_interface__["data"][0]
    packed = None if value.flags.c_contiguous else strides
    return _Array(word, value.shape, packed, address, value)


def _of_buffer(name: str, value: Any) -> _Array:
    try:
        view = memoryview(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"{name}: a {kind} is not an array; (dtype, shape, buffer) is one"
        ) from None
    code = view.format.lstrip("@=<")
    code = {"l": "q", "L": "Q"}.get(code, code)
    word = next((word for word, row in DTYPES.items() if row.format == code), None)
    if word is None:
        raise TypeError(f"{name}: a buffer of {view.format!r} is not an array of a checkpoint")
    return _packed(word, view.shape or (), view)
