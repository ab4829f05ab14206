"""Sources of the library: how one is opened, used and closed, in this process and its children."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from ctypes import byref, c_void_p
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ._errors import error_of
from ._library import call, check, load, request_of
from ._progress import Callback, watched

# Options that name a file, which a process with another working folder must find too.
_FILES = ("config", "family", "base")


class Handle:
    """A nxdkit_source. `with handle as pointer:` uses it; it is closed when the last use ends."""

    def __init__(self, pointer: c_void_p, keep: object = None) -> None:
        self.pid = os.getpid()
        self._pointer = pointer
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False
        self._finalizer = weakref.finalize(self, _close, pointer, self.pid, keep)
        self._finalizer.atexit = False  # a thread may still be reading

    def __enter__(self) -> c_void_p:
        with self._lock:
            if self._closed:
                raise ValueError("the checkpoint is closed")
            self._users += 1
        return self._pointer

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            last = self._closed and self._users == 0
        if last:
            self._finalizer()

    def close(self) -> None:
        """Closes it, now or with the end of its last use."""
        if self.pid != os.getpid():
            return  # the parent's; its lock may be locked forever
        with self._lock:
            self._closed = True
            last = self._users == 0
        if last:
            self._finalizer()

    def index(self) -> bytes:
        with self as pointer:
            text: bytes = load().nxdkit_index(pointer)
            return text


def _close(pointer: c_void_p, pid: int, keep: object) -> None:
    """Closes the source; `keep`, which it reads from, is released after it."""
    if os.getpid() == pid:
        load().nxdkit_close(pointer)


class PathRecipe:
    """How to open a path, now and in another process."""

    def __init__(self, path: str, options: Mapping[str, Any]) -> None:
        self.path = path
        self.options = dict(options)

    def open(self, progress: Optional[Callback] = None) -> Handle:
        source = c_void_p()
        request = request_of({"path": self.path, "options": self.options})
        try:
            code, report = watched(
                progress,
                lambda callback: call("nxdkit_open", request, callback, None, byref(source)),
            )
        except BaseException:
            load().nxdkit_close(source)
            raise
        if code != 0:
            raise error_of(code, report)
        return Handle(source)

    def elsewhere(self) -> PathRecipe:
        """The same without the working folder."""
        options = {
            key: _absolute(os.fspath(value)) if key in _FILES and value is not None else value
            for key, value in self.options.items()
        }
        return PathRecipe(_absolute(self.path), options)


class RankRecipe:
    """How to open a rank of a layout of another source."""

    def __init__(self, parent: Any, request: Mapping[str, Any]) -> None:
        self.parent = parent
        self.request = dict(request)

    def open(self, progress: Optional[Callback] = None) -> Handle:
        parent = self.parent.open(progress)
        try:
            return self.open_of(parent)
        finally:
            parent.close()

    def open_of(self, parent: Handle) -> Handle:
        source = c_void_p()
        with parent as pointer:
            check("nxdkit_open_rank", pointer, request_of(self.request), byref(source))
        return Handle(source)

    def elsewhere(self) -> RankRecipe:
        return RankRecipe(self.parent.elsewhere(), self.request)


class MemoryRecipe:
    """How to open arrays: `addresses` are their first elements, `keep` has the arrays."""

    def __init__(self, request: Mapping[str, Any], addresses: Sequence[int], keep: object) -> None:
        self.request = dict(request)
        self.addresses = addresses
        self.keep = keep

    def open(self, progress: Optional[Callback] = None) -> Handle:
        source = c_void_p()
        data = (c_void_p * max(1, len(self.addresses)))(*self.addresses)
        check("nxdkit_open_memory", request_of(self.request), data, byref(source))
        return Handle(source, self)

    def elsewhere(self) -> MemoryRecipe:
        return self  # a forked child has the arrays, too

    def __reduce__(self) -> Any:
        raise TypeError("a source in memory cannot be pickled: its arrays are in this process only")


def _absolute(path: str) -> str:
    return os.path.abspath(path) if os.path.lexists(path) else path  # else a URL, or a hub's name


def plain_options(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Options without the underscore that avoids a Python keyword: from_, as_."""
    return {name.rstrip("_"): value for name, value in options.items()}


def run_command(
    request: Mapping[str, Any], handles: Sequence[Handle], progress: Optional[Callback]
) -> Tuple[int, Any]:
    """Calls nxdkit_run with sources, which stay open meanwhile; returns exit code and report."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        pointers = [stack.enter_context(handle).value for handle in handles]
        sources = (c_void_p * max(1, len(pointers)))(*pointers)
        text = request_of(request)
        return watched(
            progress,
            lambda callback: call("nxdkit_run", text, sources, len(pointers), callback, None),
        )


def read_box(
    handle: Handle, number: int, box: List[Tuple[int, int, int]], address: int, bytes: int
) -> None:
    """Reads the box of (begin, end, step) into `bytes` bytes at `address`."""
    numbers = ctypes.c_int64 * len(box)
    begin, end, step = (numbers(*(side[i] for side in box)) for i in range(3))
    with handle as pointer:
        check("nxdkit_read", pointer, number, begin, end, step, address, bytes)
