"""Runs in Weights & Biases: the real client takes them to a stand-in for its server, where they are
compared with the files of the run, value by value.

Usage: python wandb_interop.py --bin-dir DIR
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import interop
import toy_run
import wandb_server

PACKAGE = os.path.join(interop.SOURCE, "tools", "python")
CONFIG = {"trainer": {"project_name": "sums", "experiment_name": "small"},
          "worker": {"actor": {"optim": {"lr": 1e-5, "betas": [0.9, 0.99]}}}, "none": None}
RECORDS = [
    '{"step": 0, "val": {"reward_score": 0.25}}',
    '{"step": 1, "actor": {"pg_loss": NaN, "grad_norm": Infinity, "kl": -Infinity}, "a": 3, '
    '"/a/b": 4}',
    '{"step": 1, "timing_s": {"step": 2.5}, "a": 5}',  # the second record of a step that saves
    '{"step": 2, "actor": {"pg_loss": 0.1',
    "[1]",
    '{"step": "3"}',
    '{"step": 1, "huge": 1' + 400 * "0" + "}",
    '{"step": 4, "actor": {"pg_loss": 0.30000000000000004}, "timing_s": {"step": 1}}',
]
ROWS = {0: {"val/reward_score": 0.25},
        1: {"actor/pg_loss": "NaN", "actor/grad_norm": "Infinity", "actor/kl": "-Infinity", "a": 5,
            "a/b": 4, "timing_s/step": 2.5},
        4: {"actor/pg_loss": 0.30000000000000004, "timing_s/step": 1}}
SAMPLES = [
    {"step": 0, "prompt": "1+1=\n", "output": "<a>\u221a\"</a>", "ground_truth": "2", "score": 1.0},
    {"step": 0, "prompt": "1+2=", "output": "", "ground_truth": "3", "score": 0.5},
    {"step": 4, "prompt": "1+3=", "output": "4", "ground_truth": "4", "score": 1.0},
]
COLUMNS = ["step", "prompt", "output", "ground_truth", "score"]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_run(folder, records=RECORDS, samples=SAMPLES):
    write(os.path.join(folder, "experiment_config.json"), json.dumps(CONFIG))
    write(os.path.join(folder, "experiment_log.jsonl"), "".join(line + "\n" for line in records))
    lines = [json.dumps(sample) + "\n" for sample in samples]
    write(os.path.join(folder, "generations.jsonl"), "".join(lines) + '{"step": 5, "prompt": "1+')
    write(os.path.join(folder, "running_log", "trainer.log"), "2026-11-27T07:51:22Z begins\n")
    return folder


def flat(record, name=""):
    """The metrics of a record by name."""
    if not isinstance(record, dict):
        return {name: record}
    return {whole: value for key, member in record.items()
            for whole, value in flat(member, f"{name}/{key}".lstrip("/")).items()}


class WandbTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.run_folder = os.path.join(self.folder, "run")
        self.server = wandb_server.Server()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def start(self, *command, expected=0, **environment):
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1",
                       "WANDB_BASE_URL": self.server.url, "WANDB_API_KEY": 40 * "0",
                       "WANDB_CONFIG_DIR": self.folder, "WANDB_CACHE_DIR": self.folder,
                       "WANDB_DATA_DIR": self.folder, "WANDB_ERROR_REPORTING": "false",
                       **environment}
        done = subprocess.run([sys.executable, "-m", *command], cwd=self.folder, env=environment,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def bring(self, *options, **keywords):
        return self.start("nxdkit.wandb", self.run_folder, *options, **keywords)

    def only_run(self):
        (run,) = self.server.runs.values()
        return run

    def rows(self):
        """The metrics of each step there; a step that is there twice is a failure."""
        rows = {}
        for row in self.only_run()["rows"]:
            self.assertNotIn(row["_step"], rows)
            rows[row["_step"]] = {name: value for name, value in row.items()
                                  if not name.startswith("_") and name != "samples"}
        return rows

    def samples(self):
        """The rows of the tables of all steps."""
        rows = []
        for row in self.only_run()["rows"]:
            if "samples" in row:
                table = json.loads(self.server.files[row["samples"]["path"]])
                self.assertEqual(table["columns"], COLUMNS)
                rows += table["data"]
        return rows

    def expect_all(self):
        run = self.only_run()
        self.assertEqual(self.rows(), ROWS)
        self.assertEqual(self.samples(), [list(sample.values()) for sample in SAMPLES])
        config = {key: entry["value"] for key, entry in run["config"].items() if key != "_wandb"}
        self.assertEqual(config, CONFIG)
        self.assertEqual(run["summary"]["actor/pg_loss"], 0.30000000000000004)
        log = self.server.files["running_log/trainer.log"]
        self.assertEqual(log, b"2026-11-27T07:51:22Z begins\n")

    def test_everything_is_brought_once(self):
        write_run(self.run_folder)
        text = self.bring()
        self.assertIn("experiment_log.jsonl: damaged lines, skipped: 4\n", text)
        self.assertIn("generations.jsonl: damaged lines, skipped: 1\n", text)
        self.assertIn("new steps: 3, their samples: 3\n", text)
        self.expect_all()
        self.assertIn("new steps: 0, their samples: 0\n", self.bring())
        self.expect_all()

    def test_a_run_that_continues_adds_its_steps(self):
        write_run(self.run_folder, RECORDS[:2], SAMPLES[:2])
        self.assertIn("new steps: 1,", self.bring())  # step 1 is saving: its times are missing
        self.assertEqual(list(self.rows()), [0])
        write_run(self.run_folder)
        os.rename(self.run_folder, moved := self.run_folder + "_moved")
        self.run_folder = moved
        self.assertIn("new steps: 2,", self.bring())
        self.assertEqual(self.rows(), ROWS)

    def sync(self):
        for run in glob.glob(os.path.join(self.folder, "wandb", "offline-run-*")):
            self.start("wandb", "sync", run)

    def test_offline_once(self):
        write_run(self.run_folder)
        self.assertIn("new steps: 3,", self.bring("--offline"))
        self.assertEqual(self.server.runs, {})
        self.sync()
        self.expect_all()
        for again in ({"WANDB_MODE": "offline"}, {"WANDB_MODE": "dryrun"}):
            self.assertIn("imported before", self.bring(expected=2, **again))
        self.sync()
        self.assertIn("new steps: 0,", self.bring())
        self.expect_all()

    def test_offline_by_the_client_s_setting(self):
        write_run(self.run_folder)
        self.bring(WANDB_MODE="offline")
        self.sync()
        self.expect_all()

    def test_names_can_be_given(self):
        write_run(self.run_folder)
        self.bring("--project", "p", "--name", "n", "--id", "i", "--entity", "e")
        self.assertEqual(list(self.server.runs), ["i"])
        run = self.only_run()
        self.assertEqual((run["project"], run["displayName"], run["entity"]), ("p", "n", "e"))

    def test_a_run_of_the_trainer(self):
        self.run_folder = toy_run.make(self.folder, 6)
        self.assertNotIn("damaged", self.bring())
        expected, samples = {}, []
        with open(os.path.join(self.run_folder, "experiment_log.jsonl"), encoding="utf-8") as file:
            for record in map(json.loads, file):
                expected.setdefault(record.pop("step"), {}).update(flat(record))
        with open(os.path.join(self.run_folder, "generations.jsonl"), encoding="utf-8") as file:
            samples = [[json.loads(line)[key] for key in COLUMNS] for line in file]
        self.assertEqual(sorted(expected), list(range(7)))
        self.assertEqual(self.rows(), expected)
        self.assertEqual(self.samples(), samples)
        self.assertGreater(len(samples), 0)

    def test_what_is_missing_is_named(self):
        os.mkdir(self.run_folder)
        self.assertIn("not a run", self.bring(expected=3))
        write_run(self.run_folder)
        os.mkdir(os.path.join(self.folder, "wandb"))  # as the client leaves it
        without = [sys.executable, "-S", "-m", "nxdkit.wandb", self.run_folder]
        done = subprocess.run(without, cwd=self.folder, env={"PYTHONPATH": PACKAGE},
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("pip install wandb", done.stderr)

    def test_a_refused_key_is_an_error_of_the_system(self):
        write_run(self.run_folder)
        self.assertIn("nxdkit.wandb: ", self.bring(expected=5, WANDB_API_KEY="short"))


if __name__ == "__main__":
    interop.main()
