"""The page of `grpo-train report`."""

import json
import math
import os
import re

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


def write_curves(folder, name, metrics):
    """A run of this name with the values of some metrics, step by step."""
    os.mkdir(folder)
    with open(os.path.join(folder, "experiment_config.json"), "w", encoding="utf-8") as file:
        json.dump({"trainer": {"project_name": "p", "experiment_name": name}}, file)
    with open(os.path.join(folder, "experiment_log.jsonl"), "w", encoding="utf-8") as file:
        for step, values in enumerate(zip(*metrics.values()), 1):
            file.write(json.dumps({"step": step, **dict(zip(metrics, values))}) + "\n")
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


# Counts the pixels of a picture near the colour of each curve. The page's policy forbids <img>, but
# not a bitmap that the script decodes.
COUNT_COLOURS = """
const [picture, count, done] = arguments;
const style = getComputedStyle(document.documentElement);
const colours = [...Array(count).keys()].map(i => style.getPropertyValue(`--c${i}`).trim())
  .map(text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16)));
const bytes = Uint8Array.from(atob(picture), c => c.charCodeAt(0));
createImageBitmap(new Blob([bytes], {type: 'image/png'})).then(bitmap => {
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
  canvas.drawImage(bitmap, 0, 0);
  const pixels = canvas.getImageData(0, 0, bitmap.width, bitmap.height).data;
  const counts = colours.map(() => 0);
  for (let at = 0; at < pixels.length; at += 4)
    colours.forEach((colour, i) => {
      if (colour.every((part, k) => Math.abs(part - pixels[at + k]) < 24)) ++counts[i];
    });
  done(counts);
});
"""


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
        legend = self.all(".legend tr:not(:first-child)", "row => [row.cells[0].title,"
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

    def test_labels_of_the_axes_are_inside(self):
        shapes = {"lr": [1e-6 - 5e-11 * i for i in range(11)],
                  "kl_loss": [-1000025 + 5 * i for i in range(11)],
                  "grad_norm": [12345678.5 + i / 8 for i in range(11)]}
        run = write_curves(self.path("axes"), "axes", {f"actor/{k}": v for k, v in shapes.items()})
        self.open(report(run))
        labels = self.all("svg .axis", "e => [e.textContent, e.getBoundingClientRect().left,"
                          " e.closest('svg').getBoundingClientRect().left]")
        self.assertGreater(len(labels), 9)
        self.assertEqual([text for text, left, edge in labels if left < edge], [])


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
                           " [...figure.querySelectorAll('.legend tr:not(:first-child)')].map(row =>"
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

    def test_two_runs_fit_side_by_side(self):
        self.open(self.page, browser.NARROW)
        self.open_all()
        tables = self.all(".runs", "e => [e.clientWidth, e.scrollWidth]")
        self.assertGreater(len(tables), 3)
        for width, needed in tables:
            self.assertLessEqual(needed, width)

    def test_long_names(self):
        metrics = {"reward/overall": [0.1, 0.3, 0.2], "timing_s/gen": [1, 2, 3]}
        for kind, names in {
                "end": [f"qwen3_8b_math_grpo_lr1e6_kl001_seed42_run{i}" for i in (1, 2)],
                "middle": ["a" * 300 + letter + "a" * 299 for letter in "bc"]}.items():
            runs = [write_curves(self.path(f"{kind}{i}"), name, metrics)
                    for i, name in enumerate(names)]
            page = report(*runs)
            self.expect_good_looks(page)
            labels = self.all(".runs tr:first-child th:not(:empty)")
            self.assertEqual(len(set(labels[:2])), 2, kind)
            self.assertLess(max(map(len, labels)), 50)

    def test_equal_curves_show_all_their_colours(self):
        values = [0.3 + 0.002 * i + 0.2 * (i % 7 in (0, 3)) for i in range(120)]
        for count in (2, 3, 8):
            runs = [write_curves(self.path(f"equal{count}_{i}"), f"run{i}", {"reward/overall": values})
                    for i in range(count)]
            self.open(report(*runs))
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": browser.WIDE, "height": 900, "deviceScaleFactor": 4, "mobile": False})
            for smooth in (True, False):
                with self.subTest(count=count, smooth=smooth):
                    self.js("document.getElementById('smooth').checked = arguments[0]", smooth)
                    shares = self.shares_of_colours("figure svg:not(.swatch)", count)
                    self.assertGreater(min(shares), 0.4 / count, shares)
            for i in range(count):
                shares = self.shares_of_colours(f".legend tr:nth-child({i + 2}) .swatch", count)
                self.assertEqual(shares.index(max(shares)), i)

    def shares_of_colours(self, selector, count):
        """The share of each curve's colour in the coloured pixels of the first such element."""
        self.js("document.querySelector(arguments[0]).scrollIntoView()", selector)
        picture = self.driver.find_element("css selector", selector).screenshot_as_base64
        counts = self.driver.execute_async_script(COUNT_COLOURS, picture, count)
        self.assertGreater(sum(counts), 10)
        return [part / sum(counts) for part in counts]
