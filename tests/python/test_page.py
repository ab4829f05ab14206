"""The examples of the users' page, one after the other in one folder, as they stand there."""

import functools
import os
import re
import subprocess
import sys
import unittest

import nxdkit
import workshop

PAGE = os.path.join(os.path.dirname(nxdkit.__file__), "..", "README.md")
OPTIONAL = ("torch", "tqdm", "transformers", "ray")  # Ray is run by hand: it is 70 MB


def examples():
    with open(PAGE, encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)


@functools.lru_cache(maxsize=None)
def is_there(name):
    """Whether this Python can import a module: PyPy sees those of others, and cannot."""
    command = [sys.executable, "-W", "ignore", "-c", f"import {name}"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def missing(code):
    """The modules that an example imports and this Python has not."""
    named = re.findall(r"^(?:import|from) (\w+)", code, re.M)
    return [name for name in named if name in OPTIONAL and not is_there(name)]


class PageTest(unittest.TestCase):
    def test_examples_run(self):
        self.assertGreaterEqual(len(examples()), 11)
        folder = workshop.fresh("page")
        os.makedirs(os.path.join(folder, "runs"))
        nxdkit.run("make-model", out=os.path.join(folder, "model"))
        step = os.path.join(folder, "runs", "grpo", "step_20")
        os.makedirs(os.path.dirname(step))
        nxdkit.convert(os.path.join(folder, "model"), step, to="nxd", tp=2)
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
        environment = {**os.environ, "PYTHONPATH": path}
        ran = 0
        for number, code in enumerate(examples()):
            if missing(code):
                continue
            with self.subTest(code.splitlines()[:3]):
                script = os.path.join(folder, f"example_{number}.py")
                with open(script, "w", encoding="utf-8") as file:
                    file.write(code)
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", script],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
                self.assertEqual(done.returncode, 0, done.stdout.decode())
                self.check_comments(code, done.stdout.decode())
                ran += 1
        self.assertGreaterEqual(ran, 5)

    def check_comments(self, code, printed):
        """A comment behind print(...) that is a value is what it prints."""
        for value in re.findall(r"^\s*print\(.*\)\s+# ((?:nxd|torch|True|\()[^:\n]*)", code, re.M):
            self.assertIn(value.strip(), printed)


if __name__ == "__main__":
    unittest.main()
