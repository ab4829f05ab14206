"""libnxdkit.so: finding it, nxdkit.h as ctypes declarations, and calls."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, List, Optional, Tuple

from ._errors import error_of
from ._report import Report, parse

ABI = 1
NAME = "libnxdkit.so.1"
PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_uint64, c_uint64, c_char_p)

_BOX = POINTER(c_int64)
_REPLY = POINTER(c_void_p)
_SOURCE = POINTER(c_void_p)
_FUNCTIONS = {
    "nxdkit_abi": (c_uint32, []),
    "nxdkit_version": (c_char_p, []),
    "nxdkit_run": (
        c_int,
        [c_char_p, POINTER(c_void_p), ctypes.c_size_t, PROGRESS, c_void_p, _REPLY],
    ),
    "nxdkit_open": (c_int, [c_char_p, PROGRESS, c_void_p, _SOURCE, _REPLY]),
    "nxdkit_open_memory": (c_int, [c_char_p, POINTER(c_void_p), _SOURCE, _REPLY]),
    "nxdkit_open_rank": (c_int, [c_void_p, c_char_p, _SOURCE, _REPLY]),
    "nxdkit_index": (c_char_p, [c_void_p]),
    "nxdkit_read": (c_int, [c_void_p, c_uint64, _BOX, _BOX, _BOX, c_void_p, c_uint64, _REPLY]),
    "nxdkit_explain": (c_int, [c_void_p, c_uint64, POINTER(c_void_p), _REPLY]),
    "nxdkit_close": (None, [c_void_p]),
    "nxdkit_free": (None, [c_void_p]),
}

_loaded: Optional[ctypes.CDLL] = None


def load() -> ctypes.CDLL:
    """The library, loaded by the first call. ImportError if there is no matching one.

    Two threads that load it at once get the same one, so no lock is needed, which a fork could
    leave locked.
    """
    global _loaded
    if _loaded is None:
        _loaded = _declare(_find())
    return _loaded


def _find() -> ctypes.CDLL:
    refusals: List[str] = []
    folder = os.path.dirname(__file__)
    for place in (
        os.path.join(folder, NAME),
        os.environ.get("NXDKIT_LIBRARY"),
        os.path.join(folder, "..", "..", "..", NAME),  # of lib/python3/dist-packages/nxdkit
        NAME,
    ):
        if not place:
            refusals.append("$NXDKIT_LIBRARY: not set")
            continue
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            refusals.append(str(error) if place in str(error) else f"{place}: {error}")
    raise ImportError("the library of nxdkit cannot be loaded:\n  " + "\n  ".join(refusals))


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(
                f"{library._name} has no {name}: it belongs to another nxdkit"
            ) from None
        function.restype, function.argtypes = result, arguments
    abi = library.nxdkit_abi()
    if abi != ABI:
        raise ImportError(f"{library._name} has interface {abi}, and this package needs {ABI}")
    return library


def version() -> str:
    """The version of the library, such as "0.1.0"."""
    text: bytes = load().nxdkit_version()
    return text.decode()


def request_of(request: Any) -> bytes:
    """A request as the library reads it: JSON; paths may be objects."""
    import json

    return json.dumps(request, default=os.fspath).encode()


def call(name: str, *arguments: Any) -> Tuple[int, Optional[Report]]:
    """Calls a function whose last parameter is its reply; returns the exit code and the reply."""
    reply = c_void_p()
    code: int = getattr(load(), name)(*arguments, byref(reply))
    text = taken(reply)
    return code, None if text is None else parse(text)


def check(name: str, *arguments: Any) -> None:
    """The same for functions with no reply but an error, which is raised."""
    code, report = call(name, *arguments)
    if code != 0:
        raise error_of(code, report)


def taken(text: c_void_p) -> Optional[bytes]:
    """A copy of a text that the library returned, which is freed."""
    if not text:
        return None
    try:
        return ctypes.string_at(text.value or 0)
    finally:
        load().nxdkit_free(text)
