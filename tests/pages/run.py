#!/usr/bin/python3
"""Opens the pages that the commands write in a browser; all test_*.py of this folder.

Usage: run.py --bin-dir DIR [-v] [-k NAME]
    DIR is tests/interop of the build; the commands are in tools of the build.

The system's Python is needed: Debian's selenium is a package for it. Ubuntu has chromium only as a
snap, which containers cannot run: exit status 77 says that something is missing there.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "interop")]

import interop  # noqa: E402


def missing():
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "python3-selenium"
    return next((path for path in ("/usr/bin/chromium", "/usr/bin/chromedriver")
                 if not os.path.exists(path)), None)


def load_tests(loader, *_):
    return loader.discover(HERE)


if __name__ == "__main__":
    if missing():
        print(f"skipped: {missing()} is not installed")
        sys.exit(77)
    interop.main()
