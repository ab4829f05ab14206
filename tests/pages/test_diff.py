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


def zero(folder, start):
    """Makes zeros of the tensors of a Hugging Face folder whose names start like this."""
    path = os.path.join(folder, "model.safetensors")
    with open(path, "r+b") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        for name, entry in json.loads(file.read(size)).items():
            if name.startswith(start):
                begin, end = entry["data_offsets"]
                file.seek(8 + size + begin)
                file.write(bytes(end - begin))


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

    def copies(self, name):
        """Copies of the first two models."""
        pair = [self.path(f"{name}_{model}") for model in "ab"]
        for model, copy in zip(self.models, pair):
            shutil.copytree(model, copy)
        return pair

    def test_a_strip_looks_like_the_legend(self):
        a, b = self.copies("zeros")
        zero(a, "model.layers.0.")
        self.open(self.diff("zeros.html", a, b, b))
        look = "e => { const s = getComputedStyle(e); return [s.backgroundImage, s.boxShadow]; }"
        for state, strip in (("zeros", 2), ("same", 3)):
            (key,) = self.all(f"#heat-legend .{state}", look)
            first = self.all(f".heat-step:nth-of-type({strip}) [data-name='model.layers.0']", look)
            self.assertEqual(first, [key], state)
        self.assertIn("gradient", self.all("#heat-legend .zeros", look)[0][0])

    def test_a_long_name_in_a_finding(self):
        a, b = self.copies("long")
        rename(a, ["x" * 70_000])
        rename(b, ["y"])
        page = self.diff("long.html", a, b)
        for width in (browser.WIDE, browser.NARROW):
            with self.subTest(width=width):
                self.open(page, width)
                self.assertIn("x...", self.all(".problems li")[0] + self.all(".problems li")[1])
                self.expect_clean()

    def test_models_with_nothing_in_common(self):
        a, b = self.copies("apart")
        count = 200  # more than either has
        rename(a, [f"a{i}" for i in range(count)])
        rename(b, [f"b{i}" for i in range(count)])
        self.open(self.diff("apart.html", a, b))
        cards = dict(self.all(".card", "e => [e.children[0].textContent, e.children[1].textContent]"))
        cards.update({name: value for value, name in cards.items()})
        self.assertEqual(cards["update: ||B - A|| / ||A||"], "-")
        self.assertEqual(cards["moved most"], "nothing to compare")
        self.assertEqual(self.all("h2"), [])

    def tensors(self, name, values):
        """A file with one F32 tensor for each name."""
        path, header, data = self.path(name), {}, b""
        for tensor, numbers in values.items():
            packed = struct.pack(f"<{len(numbers)}f", *numbers)
            header[tensor] = {"dtype": "F32", "shape": [len(numbers)],
                              "data_offsets": [len(data), len(data) + len(packed)]}
            data += packed
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        return path

    def test_equal_numbers_with_other_bits(self):
        a = self.tensors("a.safetensors", {"x.zero": [0.0, 1.0], "x.same": [1.0, 2.0]})
        b = self.tensors("b.safetensors", {"x.zero": [-0.0, 1.0], "x.same": [1.0, 2.0]})
        self.open(self.diff("bits.html", a, b))
        labels = dict(self.all("td.heat-cell:not(.sum)",
                               "e => [e.dataset.name, e.getAttribute('aria-label').split(': ').slice(1).join(': ')]"))
        self.assertEqual(labels, {"x.zero": "0: equal numbers, other bits", "x.same": "0"})
        self.assertEqual(len(self.all("#heat-legend .bits", "e => 1")), 1)

    def test_the_same_nan_is_left_out_of_norms(self):
        a, b = (self.tensors(f"nan_{name}.safetensors", {"x": [float("nan"), 1.0, value]})
                for name, value in (("a", 2.0), ("b", 2.5)))
        self.open(self.diff("nan.html", a, b))
        self.assertIn("Norms and means leave out values that are NaN or infinite.", self.all("p.soft"))

    def test_more_rows_take_the_focus(self):
        values = {f"layers.{i}.{j}": [1.0] for i in range(500) for j in "abcdefghijklmnop"}
        a = self.tensors("rows_a.safetensors", values)
        self.open(self.diff("rows.html", a, self.tensors("rows_b.safetensors", values)))
        before = self.all("#heat-map tr[data-name]", "e => e.dataset.name")
        self.focus("#heat-map .heat-groups > button")
        self.press(browser.Keys.ENTER)
        after = self.all("#heat-map tr[data-name]", "e => e.dataset.name")
        self.assertLess(len(before), len(after))
        self.assertEqual(self.js("return document.activeElement.dataset.name"), after[len(before)])
        self.assertTrue(self.js("return document.activeElement.matches('td.heat-cell')"))

    def test_the_numbers_do_not_cover_their_cell(self):
        self.open(self.page, browser.NARROW)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": browser.NARROW, "height": 640, "deviceScaleFactor": 1, "mobile": False})
        self.js("document.querySelector(\"#heat-map [tabindex='0']\").focus()")
        for _ in range(30):
            covered = self.js("""const cell = document.activeElement.getBoundingClientRect();
                const info = document.getElementById('heat-info').getBoundingClientRect();
                return cell.bottom > info.top && cell.top < info.bottom ? document.activeElement.dataset.name : ''""")
            self.assertEqual(covered, "")
            self.press(browser.Keys.ARROW_DOWN)

    def test_print_keeps_the_colours(self):
        self.open(self.page)
        look = "e => getComputedStyle(e).printColorAdjust"
        self.assertEqual(set(self.all(".heat-cell, .heat-bar", look)), {"exact"})

    def test_without_scripts_the_page_says_so(self):
        with open(self.page, encoding="utf-8") as file:
            self.assertIn("<noscript>", file.read())

    def test_findings_leave_the_map_in_sight(self):
        a, b = self.copies("many")
        rename(a, [f"lost.{i}" for i in range(1000)])
        rename(b, [])
        page = self.diff("many.html", a, b, b)
        self.open(page)
        top = self.js("return document.getElementById('heat-steps').getBoundingClientRect().top")
        self.assertLess(top, 900)
        self.assertEqual(len(self.all("details li")), len(set(self.all("li"))) - 5)

    def test_texts_of_strangers(self):
        pages = []
        for kind, texts in (("harmless", [f"n{i}" for i in range(len(browser.HOSTILE))]),
                            ("hostile", browser.HOSTILE)):
            pair = self.copies(kind)
            for copy in pair:
                rename(copy, texts)
            pages.append(self.diff(f"{kind}.html", *pair))
        self.expect_same_elements(*pages)
