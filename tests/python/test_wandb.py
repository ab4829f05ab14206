"""The import of runs into Weights & Biases, without the client; tests/interop has it."""

import importlib
import json
import os
import subprocess
import sys
import unittest

import workshop

wandb = importlib.import_module("nxdkit.wandb")


class WandbTest(unittest.TestCase):
    def setUp(self):
        self.folder = workshop.fresh("wandb")
        os.makedirs(os.path.join(self.folder, "running_log"))
        self.write("running_log/trainer.log", b"2026-11-27T07:51:22Z begins\n")
        config = {"trainer": {"project_name": "p", "experiment_name": "n"}}
        self.write("experiment_config.json", json.dumps(config).encode())

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def test_damaged_lines_are_counted(self):
        good = b'{"step": 1, "a": {"b": 2}, "/a/c": 3, "text": "x", "flag": true}\n'
        for bad in (b"x\n", b"[]\n", b'{"a": 1}\n', b'{"step": true}\n', b'{"step": -1}\n',
                    b'{"step": 9223372036854775808}\n', b'{"step": 1, "a": "\\ud800"}\n',
                    b'{"step": 1, "a": "\xff"}\n', b'{"step": 1, "a": 1' + 400 * b"0" + b"}\n",
                    b"[" * 100000 + b"\n", b"\n", b'{"step": 1'):
            with self.subTest(bad[:40]):
                self.write("experiment_log.jsonl", good + bad)
                run = wandb.Run(self.folder)
                self.assertEqual(run.metrics, {1: {"a/b": 2, "a/c": 3}})
                self.assertEqual(run.damaged, {"experiment_log.jsonl": 1})

    def test_a_last_step_without_its_times_waits(self):
        records = ({"step": 1}, {"step": 2, "a": 1}, {"step": 2, "timing_s": {"step": 1}})
        rows = ((1, False, []), (1, True, [1]), (2, False, [1]), (3, False, [1, 2]))
        for lines, done, steps in rows:
            text = "".join(json.dumps(record) + "\n" for record in records[:lines])
            self.write("experiment_log.jsonl", text.encode())
            done_path = os.path.join(self.folder, "DONE")
            if done:
                self.write("DONE", b"")
            elif os.path.exists(done_path):
                os.remove(done_path)
            self.assertEqual(wandb.Run(self.folder).whole_steps(), steps)

    def test_a_run_keeps_its_id(self):
        self.write("experiment_log.jsonl", b'{"step": 1}\n')
        first = wandb.Run(self.folder).id()
        moved = self.folder + "_moved"
        os.rename(self.folder, moved)
        self.addCleanup(os.rename, moved, self.folder)
        with open(os.path.join(moved, "experiment_log.jsonl"), "ab") as file:
            file.write(b'{"step": 2}\n')
        self.assertEqual(wandb.Run(moved).id(), first)
        with open(os.path.join(moved, "running_log", "trainer.log"), "wb") as file:
            file.write(b"2026-11-27T07:51:23Z begins\n")
        self.assertNotEqual(wandb.Run(moved).id(), first)

    def test_what_is_missing_is_named(self):
        for name, message in ((self.folder, "not a run"), ("nothing", "no such folder")):
            command = [sys.executable, "-m", "nxdkit.wandb", name]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 3)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
