"""python -m nxdkit convert ARGUMENT...: runs the command with that word or name, like nxdkit(1)."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import List

from nxdkit._command import WORDS, command
from nxdkit._library import load


def train(arguments: List[str]) -> None:
    """grpo-train takes the place of this process; where it is not installed, the library says so."""
    try:
        path = command("grpo-train")
    except FileNotFoundError:
        return
    os.execv(path, [path, *arguments])


def main() -> int:
    words = sys.argv[1:]
    if words[:1] and words[0] in ("train", WORDS["train"]):
        train(words[1:])
    texts = [b"nxdkit", *map(os.fsencode, words)]
    run = load().nxdkit_main
    run.restype, run.argtypes = ctypes.c_int, [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    code: int = run(b"nxdkit", len(texts), (ctypes.c_char_p * (len(texts) + 1))(*texts, None))
    return code


if __name__ == "__main__":
    sys.exit(main())
