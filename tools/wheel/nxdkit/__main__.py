"""python -m nxdkit COMMAND ARGUMENT..."""

import os
import sys

from nxdkit import command


def refuse(message: str) -> None:
    print(message, file=sys.stderr)
    sys.exit(2)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        refuse("usage: python -m nxdkit COMMAND [ARGUMENT ...], such as: python -m nxdkit ckpt-inspect FILE")
    try:
        path = command(sys.argv[1])
    except FileNotFoundError as error:
        refuse(f"nxdkit: error: {error}")
    os.execv(path, [path, *sys.argv[2:]])


main()
