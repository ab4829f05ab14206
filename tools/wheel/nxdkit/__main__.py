"""python -m nxdkit COMMAND ARGUMENT..."""

import os
import sys

from nxdkit import command


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m nxdkit COMMAND [ARGUMENT ...], such as: python -m nxdkit ckpt-inspect FILE")
    try:
        path = command(sys.argv[1])
    except FileNotFoundError as error:
        sys.exit(f"nxdkit: error: {error}")
    os.execv(path, [path, *sys.argv[2:]])


main()
