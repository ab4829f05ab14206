"""python -m nxdkit.wandb RUN: imports the files of a GRPO run into Weights & Biases.

Each step becomes a step there, with its metrics under their own names and a table of its samples.
The configuration and the files in running_log/ are added. The id of the run there is derived from
its names and its start, so a second import adds only steps that are new.

This needs the client (pip install wandb) and an account or a server (wandb login). With --offline,
or WANDB_MODE=offline, the client writes all steps into ./wandb for a later "wandb sync".

Exit status: 0 for success, 2 for wrong options, 3 if RUN or the client is missing, 5 if the client
or its server failed.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import importlib
import json
import math
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

LOG, SAMPLES, CONFIG = "experiment_log.jsonl", "generations.jsonl", "experiment_config.json"
COLUMNS = ["step", "prompt", "output", "ground_truth", "score"]


class Failure(Exception):
    def __init__(self, exit_status: int, message: str):
        super().__init__(message)
        self.exit_status = exit_status


def numbers(value: Any, name: str) -> Iterator[Tuple[str, float]]:
    """The numbers of a record by their whole names: {"actor": {"lr": 1}} has actor/lr."""
    if isinstance(value, dict):
        for key, member in value.items():
            key = key[1:] if key.startswith("/") else key
            yield from numbers(member, f"{name}/{key}" if name else key)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, float(value)


def sample(record: Dict[str, Any]) -> List[Any]:
    texts = [record.get(key) for key in COLUMNS[1:4]]
    score = dict(numbers(record.get("score"), "score")).get("score", math.nan)
    return [record["step"], *(text if isinstance(text, str) else "" for text in texts), score]


class Run:
    """The files of a run. Damaged lines are counted, and skipped."""

    def __init__(self, folder: str):
        self.folder = folder
        self.damaged: Dict[str, int] = {}
        # A step may have several records; a metric that is in two has the value of the last.
        self.metrics: Dict[int, Dict[str, float]] = {}
        self.samples: Dict[int, List[List[Any]]] = {}
        if not os.path.isdir(folder):
            raise Failure(3, f"{folder}: there is no such folder")
        for record in self._records(LOG):
            step = record.pop("step")
            self.metrics.setdefault(step, {}).update(numbers(record, ""))
        for record in self._records(SAMPLES):
            self.samples.setdefault(record["step"], []).append(sample(record))
        self.config = self._config()
        if not self.metrics and not self.samples:
            raise Failure(3, f"{folder}: not a run: {LOG} and {SAMPLES} are missing or empty")
        trainer = self.config.get("trainer")
        names = trainer if isinstance(trainer, dict) else {}
        self.project = str(names.get("project_name") or "nxdkit")
        self.name = str(names.get("experiment_name") or os.path.basename(os.path.abspath(folder)))

    def _lines(self, name: str) -> List[bytes]:
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                return file.read().split(b"\n")
        except FileNotFoundError:
            return [b""]

    def _records(self, name: str) -> Iterator[Dict[str, Any]]:
        *lines, rest = self._lines(name)  # a last line without a line feed was being written
        bad = 1 if rest else 0
        for line in lines:
            try:
                record = json.loads(line.decode())
                json.dumps(record, ensure_ascii=False).encode()  # half a character is damage
                good = isinstance(record, dict) and type(record.get("step")) is int
                good = good and 0 <= record["step"] < 2**63
                dict(numbers(record, ""))  # an integer may be too large
            except (ValueError, OverflowError, RecursionError):
                good = False
            if good:
                yield record
            bad += not good
        if bad:
            self.damaged[name] = bad

    def _config(self) -> Dict[str, Any]:
        text = b"\n".join(self._lines(CONFIG))
        try:
            config = json.loads(text.decode() or "{}")
            json.dumps(config, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            config = None
        if isinstance(config, dict):
            return config
        self.damaged[CONFIG] = 1
        return {}

    def id(self) -> str:
        """Depends on names and start alone: a run that moved or continued keeps its id."""
        began = self._lines(os.path.join("running_log", "trainer.log"))[0].split(b" ")[0]
        names = f"{self.project}\0{self.name}\0".encode()
        return hashlib.sha256(names + began).hexdigest()[:16]

    def whole_steps(self) -> List[int]:
        """All steps, except a last one whose times are not logged yet: the run is saving it."""
        steps = sorted(self.metrics.keys() | self.samples.keys())
        done = os.path.exists(os.path.join(self.folder, "DONE"))
        if not done and "timing_s/step" not in self.metrics.get(steps[-1], {}):
            steps.pop()
        return steps


def send(wandb: Any, run: Run, options: argparse.Namespace) -> str:
    settings = wandb.setup().settings
    offline = options.offline or settings.mode in ("offline", "dryrun")
    run_id = options.id or run.id()
    if offline:  # "wandb sync" appends: what an earlier import wrote would be there twice
        places = os.path.join(glob.escape(settings.wandb_dir), f"*run-*-{run_id}")
        for earlier in glob.glob(places):
            hint = "run wandb sync, then import new steps without --offline"
            raise Failure(2, f"{earlier}: this run was imported before; {hint}")
    with wandb.init(
        project=options.project or run.project,
        name=options.name or run.name,
        entity=options.entity,
        id=run_id,
        config=run.config,
        mode="offline" if offline else None,
        resume=None if offline else "allow",
        # Facts about this machine are left out: the run may have been on another one.
        settings=wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            x_disable_stats=True,
            x_disable_meta=True,
        ),
    ) as there:
        new = [step for step in run.whole_steps() if step >= there.starting_step]
        for step in new:
            row: Dict[str, Any] = dict(run.metrics.get(step, {}))
            if step in run.samples:
                row["samples"] = wandb.Table(columns=COLUMNS, data=run.samples[step])
            there.log(row, step=step)
        logs = os.path.join(run.folder, "running_log")
        if os.path.isdir(logs):
            there.save(os.path.join(glob.escape(logs), "*.log"), run.folder, policy="now")
        samples = sum(len(run.samples.get(step, [])) for step in new)
        return f"run {there.id}: new steps: {len(new)}, their samples: {samples}"


def client() -> Any:
    try:
        wandb = importlib.import_module("wandb")
    except ImportError:
        wandb = None
    if not hasattr(wandb, "init"):  # a folder ./wandb, which the client makes, can be imported too
        raise Failure(3, "the client of Weights & Biases is missing: pip install wandb")
    return wandb


def main(arguments: Optional[List[str]] = None) -> int:
    about = __doc__ or ""  # none with python -OO
    parser = argparse.ArgumentParser(
        prog="python -m nxdkit.wandb",
        description=about.partition(": ")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="the run's folder, trainer.save_checkpoint_path")
    parser.add_argument("--project", help="default: trainer.project_name")
    parser.add_argument("--name", help="default: trainer.experiment_name")
    parser.add_argument("--entity", help="user or team; default: the client's")
    parser.add_argument("--id", help="id of the run there; W&B never accepts that of a deleted run")
    parser.add_argument("--offline", action="store_true", help="write files for wandb sync")
    options = parser.parse_args(arguments)
    try:
        run = Run(options.run)
        wandb = client()
        for name, lines in run.damaged.items():
            what = "damaged, left out" if name == CONFIG else f"damaged lines, skipped: {lines}"
            print(f"nxdkit.wandb: {name}: {what}", file=sys.stderr)
        try:
            print(send(wandb, run, options))
        except wandb.Error as error:
            raise Failure(5, str(error)) from error
    except (Failure, OSError) as error:
        print(f"nxdkit.wandb: {error}", file=sys.stderr)
        return error.exit_status if isinstance(error, Failure) else 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
