"""python -m nxdkit convert ARGUMENT...: the command of that word, or of that name."""

from __future__ import annotations

import os
import sys

from nxdkit._command import WORDS, command


def refuse(message: str) -> None:
    print(message, file=sys.stderr)
    sys.exit(2)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        refuse(f"usage: python -m nxdkit WORD [ARGUMENT ...]\nwords: {', '.join(WORDS)}")
    try:
        path = command(WORDS.get(sys.argv[1], sys.argv[1]))
    except FileNotFoundError as error:
        refuse(f"nxdkit: error: {error}")
    os.execv(path, [path, *sys.argv[2:]])


main()
