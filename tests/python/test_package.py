"""The package itself: what importing costs, its errors, and how the library is found."""

import copy
import inspect
import os
import pickle
import subprocess
import sys
import unittest

import nxdkit
from nxdkit import _errors
from nxdkit._report import Report


def python(program, **environment):
    """Runs a program in a Python of its own; what it prints."""
    command = [sys.executable, "-c", program]
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return result.stdout + result.stderr


class ImportTest(unittest.TestCase):
    def test_imports_nothing_before_it_is_used(self):
        program = (
            "import sys; before = set(sys.modules); import nxdkit; print(set(sys.modules) - before)"
        )
        self.assertEqual(python(program).strip(), "{'nxdkit'}")

    def test_costs_at_most_a_fifth_more_than_ctypes(self):
        program = (
            "import sys, time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
        )
        best = {
            module: min(float(python(program.format(module))) for _ in range(7))
            for module in ("ctypes", "nxdkit")
        }
        self.assertLess(best["nxdkit"], 1.2 * best["ctypes"])

    def test_torch_and_numpy_are_not_imported(self):
        program = (
            "import sys, nxdkit, workshop\n"
            "with nxdkit.open(workshop.model()) as model: model['model.norm.weight'].bytes()\n"
            "print([name for name in ('torch', 'numpy') if name in sys.modules])"
        )
        folder = os.path.dirname(__file__)
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        self.assertEqual(python(program, PYTHONPATH=path).strip(), "[]")

    def test_every_public_name_is_there_and_documented(self):
        for name in nxdkit.__all__:
            value = getattr(nxdkit, name)
            self.assertTrue(inspect.getdoc(value), name)
            if inspect.isclass(value):
                self.assertEqual(value.__module__, "nxdkit", name)
                for key, member in vars(value).items():
                    if not key.startswith("_") and callable(member) and value.__name__ != "Report":
                        self.assertTrue(inspect.getdoc(member), f"{name}.{key}")
        self.assertTrue(set(nxdkit.__all__) <= set(dir(nxdkit)))
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'"):
            nxdkit.nothing

    def test_has_the_version_of_the_library(self):
        self.assertRegex(nxdkit.__version__, r"^\d+\.\d+\.\d+$")

    def test_is_typed(self):
        folder = os.path.dirname(nxdkit.__file__)
        self.assertTrue(os.path.exists(os.path.join(folder, "py.typed")))

    def test_a_missing_library_names_the_places(self):
        text = python(
            "import nxdkit; from nxdkit import _library\n"
            "_library.NAME = 'libnothing.so.1'; nxdkit.run('env')",
            NXDKIT_LIBRARY="/nowhere/libnxdkit.so.1",
        )
        self.assertIn("ImportError: the library of nxdkit cannot be loaded", text)
        self.assertIn("/nowhere/libnxdkit.so.1", text)
        self.assertIn("libnothing.so.1", text)

    def test_another_library_is_refused(self):
        text = python(
            "import nxdkit._library as l; l.NAME = 'libc.so.6'; import nxdkit; nxdkit.run('env')",
            NXDKIT_LIBRARY="",
        )
        self.assertIn("has no nxdkit_abi: it belongs to another nxdkit", text)

    def test_another_interface_is_refused(self):
        text = python("import nxdkit._library as l; l.ABI = 99; import nxdkit; nxdkit.run('env')")
        self.assertIn("this package needs 99", text)

    def test_runs_as_a_module(self):
        text = subprocess.run([sys.executable, "-m", "nxdkit"], capture_output=True, text=True)
        self.assertEqual(text.returncode, 2)
        self.assertIn("the word of a command is missing", text.stderr)
        self.assertIn("make-model", text.stderr)

    def test_a_word_runs_its_command(self):
        for word in ("make-model", "nxdkit-make-model"):
            text = subprocess.run(
                [sys.executable, "-m", "nxdkit", word, "--version"],
                capture_output=True,
                text=True,
            ).stdout
            self.assertRegex(text, r"^nxdkit-make-model .*\d")

    def test_a_command_that_is_missing_is_a_file_not_found_error(self):
        with self.assertRaisesRegex(FileNotFoundError, "no command nxd-nothing"):
            nxdkit.command("nxd-nothing")


class ErrorTest(unittest.TestCase):
    PLACE = {"file": "f.bin", "member": "m", "tensor": "t", "rank": 0, "offset": 17, "hint": "look"}

    def error(self, exit_code, code):
        place = Report(code=code, message="3, expected 4", **self.PLACE)
        return _errors.error_of(exit_code, Report(exit_code=exit_code, error=place))

    def test_each_exit_code_has_its_class(self):
        for exit_code, code, own, python_class in (
            (1, "findings", nxdkit.Findings, Exception),
            (2, "usage", nxdkit.UsageError, ValueError),
            (3, "corrupt", nxdkit.DamagedError, Exception),
            (3, "not_found", nxdkit.MissingError, FileNotFoundError),
            (4, "unsupported", nxdkit.UnsupportedError, NotImplementedError),
            (5, "io", nxdkit.InputOutputError, OSError),
            (6, "limit", nxdkit.LimitError, MemoryError),
            (70, "internal", nxdkit.InternalError, RuntimeError),
            (75, "lost", nxdkit.Error, Exception),
        ):
            error = self.error(exit_code, code)
            self.assertIs(type(error), own)
            self.assertIsInstance(error, python_class)
            self.assertEqual((error.exit_code, error.code), (exit_code, code))
            for name, value in self.PLACE.items():
                self.assertEqual(getattr(error, name), value)
            text = "f.bin: m: t: rank 0: offset 17: 3, expected 4\nhint: look"
            self.assertEqual(str(error), text)

    def test_errors_are_pickled_and_copied_whole(self):
        for exit_code, code in ((1, "findings"), (3, "not_found"), (5, "io"), (6, "limit")):
            error = self.error(exit_code, code)
            for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
                self.assertIs(type(other), type(error))
                self.assertEqual((str(other), other.report), (str(error), error.report))

    def test_a_report_is_pickled_and_copied(self):
        report = Report(a=Report(b=[1]))
        for other in (pickle.loads(pickle.dumps(report)), copy.deepcopy(report)):
            self.assertEqual((other, other.a.b), (report, [1]))
            self.assertIs(type(other.a), Report)


if __name__ == "__main__":
    unittest.main()
