"""A checkpoint as a mapping from names to tensors."""

from __future__ import annotations

import os
from ctypes import byref, c_void_p
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from ._errors import DamagedError, Error, warn
from ._handle import Handle, PathRecipe, RankRecipe, plain_options, read_box
from ._library import check, taken
from ._progress import Callback
from ._report import Report, parse
from ._tensor import Tensor, whole

PathLike = Union[str, "os.PathLike[str]"]


class Checkpoint(Mapping[str, Tensor]):
    """An open checkpoint: its tensors by name, lazy, in the layout's own order.

    format: "hf", "nxd", "rollout", "dcp", ... path: the absolute path, or the name of a memory source.
    family: the model type of its configuration, "" without one. parallel: {"tp": 8, ...}.
    config: config.json as a dict, or None. warnings: the warnings that a command would print.
    nbytes: bytes of all tensors.

    A context manager; close() ends it, and so does the garbage collector. After that the names
    and shapes remain, and reading raises ValueError. Threads may share it, and so may child
    processes: a forked one opens it again on first use, and a spawned one gets it by pickle, as
    its path and options (tensors in memory cannot be pickled: TypeError).
    """

    __module__ = "nxdkit"

    def __init__(self, recipe: Any, handle: Handle) -> None:
        self._recipe = recipe.elsewhere()
        self._handle: Optional[Handle] = handle
        self._read_index(parse(handle.index()))
        warn(self._index)

    def _read_index(self, index: Report) -> None:
        self._index = index
        self._numbers: Dict[str, int] = {}
        for number, row in enumerate(index["tensors"]):
            self._numbers.setdefault(row["name"], number)

    # Properties.

    @property
    def format(self) -> str:
        return str(self._index.get("format") or "")

    @property
    def family(self) -> str:
        return str(self._index.get("model_type") or "")

    @property
    def path(self) -> str:
        return str(self._index.get("path") or "")

    @property
    def parallel(self) -> Dict[str, int]:
        return dict(self._index.get("parallel") or {})

    @property
    def config(self) -> Optional[Dict[str, Any]]:
        config = self._index.get("config")
        return None if config is None else _plain(config)

    @property
    def warnings(self) -> List[str]:
        return list(self._index.get("warnings") or [])

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.values())

    # The mapping.

    def __getitem__(self, name: str) -> Tensor:
        number = self._numbers.get(name)
        if number is None:
            raise _NoTensor(name, self)
        return whole(self, number, self._index["tensors"][number])

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # Methods.

    def rank(
        self,
        layout: str,
        rank: int = 0,
        tp: Optional[int] = None,
        *,
        pp_rank: int = 0,
        ep_rank: int = 0,
        **options: Any,
    ) -> Checkpoint:
        """The tensors that a rank of a layout will hold of these weights, made on reading.

        layout: "nxd", "rollout", another format that convert() writes, "vllm" or "vllm-neuron".
        rank: the tensor parallel rank. tp and other options: those of the layout. UsageError if
        the layout has no such rank or option. Its tensors can be read; no command takes it.
        """
        asked = {**({} if tp is None else {"tp": tp}), **plain_options(options)}
        request = {"layout": layout, "rank": rank, "options": asked}
        request.update({k: v for k, v in (("pp_rank", pp_rank), ("ep_rank", ep_rank)) if v})
        recipe = RankRecipe(self._recipe, request)
        return Checkpoint(recipe, recipe.open_of(self._current()))

    def digest(self, *, progress: Optional[Callback] = None, **options: Any) -> str:
        """nxdkit.digest() of it."""
        from . import _calls

        return _calls.digest(self, progress=progress, **options)

    def verify(
        self, against: Any = None, *, progress: Optional[Callback] = None, **options: Any
    ) -> Report:
        """nxdkit.verify() of it."""
        from . import _calls

        return _calls.verify(self, against, progress=progress, **options)

    def inspect(self, *, progress: Optional[Callback] = None, **options: Any) -> Report:
        """nxdkit.inspect() of it."""
        from . import _calls

        return _calls.inspect(self, progress=progress, **options)

    def close(self) -> None:
        """Closes its files, once no other thread is reading."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    @property
    def closed(self) -> bool:
        return self._handle is None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        return _reopened, (self._recipe,)

    def __repr__(self) -> str:
        from ._html import size_text

        words = [self.format, self.family, repr(self.path), f"{len(self)} tensors"]
        return f"<nxdkit.Checkpoint {' '.join(filter(None, words))} {size_text(self.nbytes)}>"

    def _repr_html_(self) -> str:
        """ckpt-inspect's page: tensors by size, and the ranks that hold a chosen one."""
        from html import escape

        from ._html import framed, page_of

        words = repr(self)[1:-1]
        if self.closed or isinstance(self._recipe, RankRecipe):  # no command takes these
            return f"<b>{escape(words)}</b>"
        return framed(page_of("ckpt-inspect", self, top=0), words)

    # The library's side.

    def _current(self) -> Handle:
        """The handle of this process: a forked child opens its own."""
        handle = self._handle
        if handle is None:
            raise ValueError(f"the checkpoint {self.path!r} is closed")
        if handle.pid != os.getpid():
            handle = self._handle = self._opened_again()
        return handle

    def _opened_again(self) -> Handle:
        handle: Handle = self._recipe.open()
        if parse(handle.index())["tensors"] != self._index["tensors"]:
            handle.close()
            place = Report(code="corrupt", file=self.path)
            report = Report(exit_code=3, error=place)
            raise DamagedError("other tensors than when it was opened in the parent", report)
        return handle

    def _read(self, number: int, box: List[Tuple[int, int, int]], address: int, count: int) -> None:
        handle = self._current()
        if count == 0:
            return
        try:
            read_box(handle, number, box, address, count)
        except Error as error:
            if error.tensor is None:
                error.tensor = self._index["tensors"][number]["name"]
            raise

    def _explain(self, number: int) -> str:
        text = c_void_p()
        with self._current() as pointer:
            check("nxdkit_explain", pointer, number, byref(text))
        return (taken(text) or b"").decode("utf-8", "replace")


def open(path: PathLike, *, progress: Optional[Callback] = None, **options: Any) -> Checkpoint:
    """Opens a checkpoint of any layout: a folder, a file, a URL; its format is recognised.

    options: ckpt-digest's options about the input, with "_" for "-": from_="nxd",
    config="config.json", tp=8, tag="step_20"; and optimizer=True, which adds the training
    state. Only the structure is read. Raises MissingError, DamagedError, UnsupportedError,
    UsageError, or ImportError if the library itself is missing.
    """
    # The working folder may have changed when something is read.
    recipe = PathRecipe(os.fsdecode(path), plain_options(options)).elsewhere()
    return Checkpoint(recipe, recipe.open(progress))


class _NoTensor(KeyError):
    """A name that a checkpoint does not have; the message suggests a similar one."""

    def __init__(self, name: str, checkpoint: Checkpoint) -> None:
        super().__init__(name)
        self._checkpoint = checkpoint

    def __str__(self) -> str:
        import difflib

        text = f"no tensor {self.args[0]!r} in {self._checkpoint.path}"
        near = difflib.get_close_matches(str(self.args[0]), self._checkpoint, 1)
        return f"{text}; there is {near[0]!r}" if near else text

    def __reduce__(self) -> Tuple[Any, ...]:
        return KeyError, (str(self),)


def _reopened(recipe: Any) -> Checkpoint:
    return Checkpoint(recipe, recipe.open())


def _plain(value: Any) -> Any:
    """A copy of parsed JSON with plain dicts and lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
