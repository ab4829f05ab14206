"""The page of `ckpt-diff --html`."""

import json
import os
import shutil
import struct
import unittest

import browser

# Numbers of the table and of --json; the others follow from these.
COLUMNS = {"||B - A|| / ||A||": "relative_update", "||B - A||": "norm_update", "||A||": "norm_a",
           "changed": "changed", "elements": "elements", "max abs": "max_abs", "mean abs": "mean_abs",
           "max rel": "max_rel", "mean rel": "mean_rel"}


def rename(folder, texts):
    """Gives the tensors of a Hugging Face folder these names, as far as they go. Without its
    configuration, which names the family, any names are compared."""
    os.remove(os.path.join(folder, "config.json"))
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    names = iter([*texts, *(f"t{i}" for i in range(len(header)))])
    new = {name: name if name == "__metadata__" else next(names) for name in header}
    text = json.dumps({new[name]: entry for name, entry in header.items()}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class DiffTest(browser.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.models = [os.path.join(cls.folder, name) for name in ("a", "b", "c")]
        for seed, model in enumerate(cls.models, 1):
            browser.run("nxdkit-make-model", "--quiet", "--seed", str(seed), "--out", model)
        cls.page = cls.diff("page.html", *cls.models)
        text = browser.run("ckpt-diff", "--json", *cls.models, expected=(1,))
        cls.report = json.loads(text)

    @classmethod
    def diff(cls, name, *models):
        page = os.path.join(cls.folder, name)
        browser.run("ckpt-diff", "--html", page, *models, expected=(0, 1))
        return page

    def test_looks(self):
        self.expect_good_looks(self.page)

    def test_the_table_has_the_numbers_of_json(self):
        self.open(self.page)
        heads = self.all("#heat-table th", "th => th.textContent.trim()")
        rows = self.all("#heat-table tr[data-name]",
                        "row => [row.dataset.name, [...row.cells].map(cell => cell.textContent)]")
        tensors = {tensor["name"]: tensor for tensor in self.report["tensors"]}
        self.assertEqual(sorted(name for name, _ in rows), sorted(tensors))
        for name, cells in rows:
            for head, key in COLUMNS.items():
                shown = cells[heads.index(head)]
                self.expect_number(shown, tensors[name][key], f"{name}: {head}")
        self.assertEqual([name for name, _ in rows],
                         sorted(tensors, key=lambda name: -tensors[name]["relative_update"]))

    def test_the_map_has_the_layers_of_json(self):
        self.open(self.page)
        cells = dict(self.all("#heat-map [data-name][data-relative]",
                              "e => [e.dataset.name, e.dataset.relative]"))
        for layer in self.report["layers"]:
            if layer["parameters"] > 1:  # else its one module stands for it
                found = float(cells[layer["name"]])
                self.assertAlmostEqual(found / layer["relative_update"], 1, delta=1e-4)

    def test_each_step_has_its_map(self):
        self.open(self.page)
        steps = self.js("return document.querySelectorAll('.heat-step').length")
        self.assertEqual(steps, 3)
        first = self.all("#heat-map td[data-relative]", "e => e.dataset.relative")
        self.js("document.querySelectorAll('.heat-step')[1].focus()")
        self.press(browser.Keys.SPACE)
        self.assertNotEqual(self.all("#heat-map td[data-relative]", "e => e.dataset.relative"), first)

    def test_keys(self):
        self.open(self.page)
        self.expect_all_by_tab()
        self.focus("#heat-map [tabindex='0']")
        name = "return document.activeElement.dataset.name"
        first = self.js(name)
        self.press(browser.Keys.ARROW_DOWN)
        self.assertNotEqual(self.js(name), first)
        self.press(browser.Keys.ARROW_UP)
        self.assertEqual(self.js(name), first)
        self.press(browser.Keys.ENTER)  # its parameters in the table
        rows = self.all("#heat-table tr[data-name]", "row => row.dataset.name")
        self.assertTrue(rows and all(row.startswith(first) for row in rows), (first, rows))

    def test_the_table_sorts_and_filters(self):
        self.open(self.page)
        changed = "return [...document.querySelectorAll('#heat-table tr[data-name]')]" \
                  ".map(row => row.dataset.name)"
        self.focus("#heat-table th button")
        self.press(browser.Keys.ENTER)
        self.assertEqual(self.js(changed), sorted(self.js(changed)))
        self.focus("#heat-table input")
        self.press("LAYERS.1.*norm")
        rows = self.js(changed)
        self.assertTrue(rows and all("layers.1." in row and "norm" in row for row in rows), rows)

    def test_texts_of_strangers(self):
        pages = []
        for kind, texts in (("harmless", [f"n{i}" for i in range(len(browser.HOSTILE))]),
                            ("hostile", browser.HOSTILE)):
            pair = [self.path(f"{kind}_{model}") for model in "ab"]
            for model, copy in zip(self.models, pair):
                shutil.copytree(model, copy)
                rename(copy, texts)
            pages.append(self.diff(f"{kind}.html", *pair))
        self.expect_same_elements(*pages)
