"""A tensor of a checkpoint, or a part of one: read when its values are needed."""

from __future__ import annotations

import ctypes
import operator
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._dtypes import DTYPES, Dtype, bytes_of, word_of

if TYPE_CHECKING:
    import numpy as _numpy  # type: ignore[import-not-found,unused-ignore]
    import torch as _torch  # type: ignore[import-not-found,unused-ignore]

    from ._checkpoint import Checkpoint

PIECE = 256 << 20  # bytes per call at most, so that Ctrl-C is noticed between calls

Part = Union[int, slice, "ellipsis"]  # noqa: F821


class _Span(NamedTuple):
    """The elements of a dimension of the whole tensor; if not `kept`, one, and the dimension is
    dropped."""

    begin: int
    step: int
    size: int
    kept: bool = True

    def box(self) -> Tuple[int, int, int]:
        end = self.begin + (self.size - 1) * self.step + 1 if self.size else self.begin
        return self.begin, end, self.step


class Tensor:
    """A tensor of a checkpoint, read only when its values are needed.

    name: its name in the checkpoint. dtype: its element type as safetensors writes it, such as
    "BF16". shape: elements of each dimension, a tuple. nbytes: bytes of its elements, packed.

    tensor[0:128, ::2, -1] is a part, which is just as lazy; only its elements are then read, from
    the files that hold them. Indices are Python's: ints (which drop the dimension), slices with
    steps of 1 and more, and `...`. IndexError if an int is out of range or there are too many;
    ValueError for steps below 1.

    May be used by several threads, and in a child process, forked or spawned. Reading raises
    DamagedError if a file is damaged or has changed since the checkpoint was opened, and
    ValueError if the checkpoint is closed.
    """

    __module__ = "nxdkit"
    __slots__ = ("_checkpoint", "_number", "_spans", "name", "dtype", "__weakref__")

    name: str
    dtype: str

    def __init__(
        self, checkpoint: Checkpoint, number: int, name: str, dtype: str, spans: Sequence[_Span]
    ) -> None:
        self._checkpoint, self._number, self._spans = checkpoint, number, tuple(spans)
        self.name, self.dtype = name, dtype

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(span.size for span in self._spans if span.kept)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        elements = 1
        for span in self._spans:
            elements *= span.size
        return elements

    @property
    def nbytes(self) -> int:
        return bytes_of(self.dtype, self.size)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<nxdkit.Tensor {self.name!r} {self.dtype} {list(self.shape)}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuilt, (self._checkpoint, self.name, self._spans)

    def __getitem__(self, key: Union[Part, Tuple[Part, ...]]) -> Tensor:
        parts = iter(_expanded(key if isinstance(key, tuple) else (key,), self.ndim))
        spans = [
            _part_of(span, next(parts), dimension) if span.kept else span
            for dimension, span in self._numbered()
        ]
        return Tensor(self._checkpoint, self._number, self.name, self.dtype, spans)

    def _numbered(self) -> Iterator[Tuple[int, _Span]]:
        dimension = 0
        for span in self._spans:
            yield dimension, span
            dimension += span.kept

    def bytes(self) -> bytearray:
        """The elements as stored, little-endian, packed row-major."""
        data = bytearray(self.nbytes)
        self.into(data)
        return data

    def into(self, buffer: Any) -> None:
        """Reads into memory of the caller's: a writable buffer, or a contiguous torch tensor on
        the CPU, of exactly nbytes bytes and of this type or of bytes (else ValueError). After a
        failure its contents are undefined."""
        _check_type(buffer, self.dtype)
        address, size, _keep = _writable(buffer)
        if size != self.nbytes:
            raise ValueError(f"the buffer has {size} bytes, and {self!r} has {self.nbytes}")
        self._read(address)

    def torch(self) -> _torch.Tensor:
        """A torch tensor of this shape, in memory of its own. F4 has two elements per byte, so
        its last dimension is halved. TypeError for F6, which torch lacks; bytes() reads it."""
        import torch

        row = self._row("torch")
        dtype = getattr(torch, row.torch or "", None)
        if dtype is None:
            raise TypeError(
                f"torch {torch.__version__} has no {self.dtype}; bytes() reads {self!r}"
            )
        result = torch.empty(self._packed(row), dtype=dtype, device="cpu")
        self._read(result.data_ptr())
        return result

    def numpy(self) -> _numpy.ndarray[Any, Any]:
        """A numpy array of this shape. numpy has no BF16 and no F8: they use ml_dtypes if it is
        installed, else their bits as uint16 and uint8, with a warning. F4 is uint8 with half its
        last dimension. TypeError for F6 and C32."""
        import numpy

        row = self._row("numpy")
        result = numpy.empty(self._packed(row), dtype=_numpy_dtype(self.dtype, row))
        self._read(result.__array_interface__["data"][0])
        return result

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        if copy is False:
            raise ValueError("a tensor of a checkpoint has to be read to be an array")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, without numpy: for small tensors."""
        import struct

        row, data = DTYPES[self.dtype], bytes(self.bytes())
        if self.dtype == "BF16":
            data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
        code = "f" if self.dtype == "BF16" else row.format
        if code is None:
            raise TypeError(f"Python has no {self.dtype}; bytes() or torch() read {self!r}")
        values = list(struct.unpack(f"<{self.size}{code}", data))
        return _nested(values, self.shape)

    def explain(self) -> str:
        """The sources of the whole tensor's elements, as nxd-convert --explain prints them."""
        return self._checkpoint._explain(self._number)

    def _row(self, where: str) -> Dtype:
        row = DTYPES[self.dtype]
        if getattr(row, where) is None:
            raise TypeError(f"{where} has no {self.dtype}; bytes() reads {self!r}")
        return row

    def _packed(self, row: Dtype) -> List[int]:
        """The shape in elements of torch and numpy, which have no half bytes."""
        shape = list(self.shape)
        if row.bits >= 8:
            return shape
        if not shape or shape[-1] * row.bits % 8:
            raise TypeError(f"{self!r} ends within a byte; bytes() reads it")
        return [*shape[:-1], shape[-1] * row.bits // 8]

    def _read(self, address: int) -> None:
        """Reads the elements to `address`, in pieces of the outermost dimension that is not 1."""
        box = [span.box() for span in self._spans]
        outer = next((i for i, span in enumerate(self._spans) if span.size != 1), None)
        if self.nbytes <= PIECE or outer is None or DTYPES[self.dtype].bits < 8:
            self._checkpoint._read(self._number, box, address, self.nbytes)
            return
        span = self._spans[outer]
        row_bytes = self.nbytes // span.size
        rows = max(1, PIECE // row_bytes)
        for first in range(0, span.size, rows):
            count = min(rows, span.size - first)
            box[outer] = _Span(span.begin + first * span.step, span.step, count).box()
            self._checkpoint._read(
                self._number, box, address + first * row_bytes, count * row_bytes
            )


def whole(checkpoint: Checkpoint, number: int, row: Any) -> Tensor:
    """A whole tensor of the index."""
    spans = [_Span(0, 1, count) for count in row["shape"]]
    return Tensor(checkpoint, number, row["name"], row["dtype"], spans)


def _rebuilt(checkpoint: Checkpoint, name: str, spans: Sequence[_Span]) -> Tensor:
    tensor = checkpoint[name]
    return Tensor(checkpoint, tensor._number, name, tensor.dtype, spans)


def _expanded(key: Tuple[Any, ...], ndim: int) -> List[Any]:
    """The key with one part for each dimension."""
    dots = [i for i, part in enumerate(key) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    given = len(key) - len(dots)
    if given > ndim:
        raise IndexError(f"too many indices: {given} for a tensor of {ndim} dimensions")
    at = dots[0] if dots else len(key)
    return [*key[:at], *[slice(None)] * (ndim - given), *key[at + 1 :]]


def _part_of(span: _Span, part: Any, dimension: int) -> _Span:
    if isinstance(part, slice):
        start, stop, step = part.indices(span.size)
        if step < 1:
            raise ValueError(f"dimension {dimension}: a step of {step} is below 1")
        count = len(range(start, stop, step))
        begin = span.begin + (start * span.step if count else 0)
        return _Span(begin, span.step * step if count > 1 else 1, count)
    if isinstance(part, bool) or not hasattr(part, "__index__"):
        raise TypeError(f"an index is an int, a slice or '...', and not {type(part).__name__}")
    index = operator.index(part)
    if not -span.size <= index < span.size:
        raise IndexError(f"index {index} is out of range for dimension {dimension} of {span.size}")
    return _Span(span.begin + index % span.size * span.step, 1, 1, kept=False)


def _nested(values: List[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return values[0]
    size = len(values) // max(1, shape[0])
    return [_nested(values[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


def _writable(buffer: Any) -> Tuple[int, int, object]:
    """Address and bytes of memory to write to, and the object that keeps it in place."""
    if hasattr(buffer, "data_ptr"):
        if buffer.device.type != "cpu" or not buffer.is_contiguous():
            raise ValueError("a torch tensor to read into is contiguous, and on the CPU")
        return buffer.data_ptr(), buffer.numel() * buffer.element_size(), buffer
    view = _view_of(buffer)
    if view.readonly or not view.c_contiguous:
        raise ValueError("a buffer to read into is writable, and contiguous")
    if view.nbytes == 0:
        return 0, 0, view
    memory = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.addressof(memory), view.nbytes, memory


def _check_type(buffer: Any, dtype: str) -> None:
    """ValueError for an array of another type; bits may go into unsigned integers."""
    given = str(getattr(buffer, "dtype", "")).rpartition(".")[2]
    word = word_of(given) if given else None
    if word is not None and word != dtype and not word.startswith("U"):
        raise ValueError(f"the buffer is of {given}, and the tensor of {dtype}")


def _view_of(buffer: Any) -> memoryview:
    if hasattr(buffer, "__array_interface__"):
        buffer = buffer.view("uint8") if buffer.ndim else buffer.reshape(1).view("uint8")
    return memoryview(buffer)


_told: List[str] = []


def _numpy_dtype(word: str, row: Dtype) -> Any:
    import numpy

    if row.ml_dtypes is None:
        return numpy.dtype(row.numpy)
    try:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, row.ml_dtypes))
    except (ImportError, AttributeError):
        if word not in _told:
            from ._errors import warn

            _told.append(word)
            warn(
                {
                    "warnings": [
                        f"numpy has no {word}: these are its bits as {row.numpy}; "
                        "pip install ml_dtypes for numbers"
                    ]
                }
            )
        return numpy.dtype(row.numpy)
