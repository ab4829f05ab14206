"""The page of `grpo-train report`."""

import json
import math
import os
import re
import unittest

import browser
import toy_run


def write_run(folder, texts):
    """A run with these in its names, values, prompts and answers."""
    os.mkdir(folder)
    config = {"trainer": {"project_name": texts[0], "experiment_name": texts[1]},
              **{f"x {text}": text for text in texts}}
    metrics = {text.replace("/", "|"): 1.5 for text in texts}
    with open(os.path.join(folder, "experiment_config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "experiment_log.jsonl"), "w", encoding="utf-8") as file:
        for step in (1, 2):
            file.write(json.dumps({"step": step, "reward": metrics, "val": metrics}) + "\n")
    with open(os.path.join(folder, "generations.jsonl"), "w", encoding="utf-8") as file:
        for step, text in enumerate(texts):
            file.write(json.dumps({"step": step, "prompt": text, "output": text,
                                   "ground_truth": text, "score": 1}) + "\n")
    return folder


def leaves(value, joint, name=""):
    """The values inside of objects by their whole names."""
    if not isinstance(value, dict) or not value:
        return {name: value}
    return {whole: leaf for key, member in value.items()
            for whole, leaf in leaves(member, joint, name + joint + key if name else key).items()}


def metrics_of(run):
    """The values of each metric by step, as they are in the log."""
    found = {}
    with open(os.path.join(run, "experiment_log.jsonl"), encoding="utf-8") as file:
        for record in map(json.loads, file):
            step = record.pop("step")
            for name, value in leaves(record, "/").items():
                found.setdefault(name, {})[step] = value
    return found


def config_of(run):
    with open(os.path.join(run, "experiment_config.json"), encoding="utf-8") as file:
        return leaves(json.load(file), ".")


def summary(values):
    """The smallest and largest finite value and the last of those of each step."""
    finite = [value for value in values.values() if math.isfinite(value)]
    return min(finite), max(finite), values[max(values)]


def report(*runs):
    page = runs[-1] + ".html"
    browser.run("grpo-train", "report", *runs, "--out", page)
    return page


class ReportTest(browser.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = toy_run.make(cls.folder, 12)
        cls.page = report(cls.run_folder)

    def test_looks(self):
        self.expect_good_looks(self.page)

    def test_numbers_are_those_of_the_log(self):
        metrics = metrics_of(self.run_folder)
        self.open(self.page)
        self.open_all()
        legend = self.all(".legend tr:has(td)", "row => [row.cells[0].title,"
                          " ...[...row.cells].slice(-3).map(cell => cell.textContent)]")
        self.assertGreater(len(legend), 30)
        self.assertLessEqual({"reward/overall", "response_length/max", "timing_s/gen"},
                             {row[0] for row in legend})
        for name, low, high, last in legend:
            for shown, value in zip((low, high, last), summary(metrics[name])):
                self.expect_number(shown, value, name)

    def test_every_metric_is_in_the_table(self):
        self.open(self.page)
        names = self.all("details table.data td:first-child")
        self.assertLessEqual(set(metrics_of(self.run_folder)), set(names))

    def test_keys(self):
        self.open(self.page)
        self.expect_keys_open()
        self.open_all()
        self.assertGreater(self.expect_all_by_tab(), 5)

    def test_texts_of_strangers(self):
        harmless = write_run(self.path("harmless"), [f"n{i}" for i in range(len(browser.HOSTILE))])
        hostile = write_run(self.path("hostile"), browser.HOSTILE)
        self.expect_same_elements(report(harmless), report(hostile))


class ComparisonTest(browser.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = []
        for name, *options in (("first",), ("second", "data.seed=2", "worker.actor.optim.lr=1e-3")):
            os.mkdir(os.path.join(cls.folder, name))
            cls.runs.append(toy_run.make(os.path.join(cls.folder, name), 8, *options))
        cls.page = report(*cls.runs)

    def test_looks(self):
        self.expect_good_looks(self.page)

    def test_the_configuration_has_what_differs(self):
        self.open(self.page)
        self.open_all()
        rows = self.all("tr", "row => [...row.cells].map(cell => cell.textContent)")
        first, second = map(config_of, self.runs)
        self.assertEqual(first["data.seed"], 1)
        names = [row[0] for row in rows if len(row) == 3 and row[0] in first]
        self.assertEqual(sorted(names), sorted(key for key in first if first[key] != second[key]))
        for key, *shown in rows:
            if key in names:
                self.assertEqual([json.loads(text) for text in shown], [first[key], second[key]])

    def test_numbers_are_those_of_the_logs(self):
        self.open(self.page)
        figures = self.all("figure", "figure => [figure.querySelector('small').textContent,"
                           " [...figure.querySelectorAll('.legend tr:has(td)')].map(row =>"
                           " [...row.cells].map(cell => cell.textContent))]")
        logs = [metrics_of(run) for run in self.runs]
        compared = 0
        for help_text, rows in figures:
            name = re.match(r"[\w/]+", help_text).group()
            if name not in logs[0] or len(rows) != 2:
                continue  # a stack of several metrics
            for metrics, (_, *shown) in zip(logs, rows):
                for text, value in zip(shown, summary(metrics[name])):
                    self.expect_number(text, value, name)
                    compared += 1
        self.assertGreater(compared, 60)

    def test_keys(self):
        self.open(self.page)
        self.assertGreater(self.expect_all_by_tab(), 5)
        self.expect_keys_open()

    def test_texts_of_strangers(self):
        pages = []
        for kind, texts in (("harmless", [f"n{i}" for i in range(len(browser.HOSTILE))]),
                            ("hostile", browser.HOSTILE)):
            pages.append(report(write_run(self.path(kind + "1"), texts),
                                write_run(self.path(kind + "2"), texts[::-1])))
        self.expect_same_elements(*pages)
