"""The page of `grpo-train report`."""

import json
import math
import os

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


def metrics_of(run):
    """The values of each metric by step, as they stand in the log."""
    found = {}

    def add(value, name, step):
        if not isinstance(value, dict):
            found.setdefault(name, {})[step] = value
            return
        for key, member in value.items():
            add(member, f"{name}/{key}".lstrip("/"), step)

    with open(os.path.join(run, "experiment_log.jsonl"), encoding="utf-8") as file:
        for record in map(json.loads, file):
            add({key: value for key, value in record.items() if key != "step"}, "", record["step"])
    return found


class ReportTest(browser.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = toy_run.make(cls.folder, 12)
        cls.page = cls.report(cls.run_folder)

    @classmethod
    def report(cls, run):
        browser.run("grpo-train", "report", run, "--out", run + ".html")
        return run + ".html"

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
            values = [metrics[name][step] for step in sorted(metrics[name])]
            finite = [value for value in values if math.isfinite(value)]
            for shown, value in ((low, min(finite)), (high, max(finite)), (last, values[-1])):
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
        self.expect_same_elements(self.report(harmless), self.report(hostile))
