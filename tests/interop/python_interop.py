"""The Python package beside torch, numpy, safetensors, transformers and mypy: all of tests/python,
none of it skipped.

Usage: python python_interop.py --bin-dir DIR
"""

import os
import subprocess
import sys
import unittest

import interop

PACKAGE = os.path.join(interop.SOURCE, "tools", "python")
TESTS = os.path.join(interop.SOURCE, "tests", "python")


class PythonTest(unittest.TestCase):
    def test_every_test_runs_and_passes(self):
        environment = {
            **os.environ,
            "NXDKIT_LIBRARY": interop.program("libnxdkit.so.1"),
            "PYTHONPATH": PACKAGE,
            "PYTHONDONTWRITEBYTECODE": "1",
            "TOKENIZERS_PARALLELISM": "false",  # it warns of forks otherwise
        }
        command = [sys.executable, "-X", "dev", "-m", "unittest", "discover", "-s", TESTS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("skipped", done.stderr)


if __name__ == "__main__":
    interop.main()
