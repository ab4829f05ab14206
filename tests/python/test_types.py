"""Annotations, by mypy. tests/interop runs this where it is."""

import os
import subprocess
import sys
import tempfile
import unittest

import nxdkit

try:
    import mypy  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("mypy is not installed") from error


class TypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # One run for all of them: most of the time is spent reading torch.
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)

    def check(self, *arguments):
        package = os.path.dirname(nxdkit.__file__)
        cache = self.cache.name
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *arguments]
        environment = {**os.environ, "MYPYPATH": os.path.dirname(package)}
        # Not from the package's folder, whose modules have the names of others.
        done = subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_the_package_is_strictly_typed(self):
        code, text = self.check("-p", "nxdkit")
        self.assertEqual(code, 0, text)

    def test_its_use_is_typed(self):
        code, text = self.check(os.path.join(os.path.dirname(__file__), "typed_use.py"))
        self.assertEqual(code, 0, text)

    def test_a_wrong_use_is_told(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("import nxdkit\nx: int = nxdkit.digest(1)\n")
            file.flush()
            code, text = self.check(file.name)
        self.assertEqual(code, 1)
        self.assertIn('incompatible type "int"', text)
        self.assertIn('expression has type "str"', text)


if __name__ == "__main__":
    unittest.main()
