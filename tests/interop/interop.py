"""Shared by the scripts of this folder: the places of programs, and the start of a script."""

import argparse
import importlib.util
import os
import sys
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OPTIONS = None  # from the command line, once main() has read it


def program(name):
    """The path of a probe of --bin-dir, or of a command in tools of the same build."""
    folder = os.path.abspath(OPTIONS.bin_dir)
    for place in (folder, os.path.join(folder, "..", "..", "tools")):
        path = os.path.join(place, name)
        if os.path.exists(path):
            return path
    raise SystemExit(f"no {name} in {folder} or ../../tools beside it")


def load_make(folder, name="make.py"):
    """A script of a testdata folder, as a module."""
    path = os.path.join(SOURCE, "testdata", folder, name)
    spec = importlib.util.spec_from_file_location(f"{name[:-3]}_{folder}", path)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


def main(*flags):
    """Reads --bin-dir and the flags; the rest is for unittest, which then runs the script's tests."""
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", required=True)
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
