"""The page of `ckpt-inspect --html`."""

import json
import os
import struct
import unittest

import browser
from selenium.webdriver.common.keys import Keys


def write_safetensors(path, names):
    """A file whose tensors have a few bytes each."""
    header, at = {}, 0
    for number, name in enumerate(names):
        shape = [4 + number % 7, 2]
        end = at + 2 * shape[0] * shape[1]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(at))


class InspectTest(browser.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shards = os.path.join(cls.folder, "shards")
        model = os.path.join(cls.folder, "model")
        browser.run("nxdkit-make-model", "--quiet", "--out", model)
        browser.run("nxd-convert", "-q", "--to", "nxd", "--tp", "2", model, cls.shards)
        cls.page = cls.inspect("page.html", cls.shards)
        cls.report = json.loads(browser.run("ckpt-inspect", "--json", cls.shards))

    @classmethod
    def inspect(cls, name, path):
        page = os.path.join(cls.folder, name)
        browser.run("ckpt-inspect", "--html", page, path)
        return page

    def parts(self):
        return self.all("#parts tbody tr", "row => [...row.cells].map(cell => cell.textContent)")

    def test_looks(self):
        self.expect_good_looks(self.page)

    def test_every_name_has_the_shape_and_bytes_of_json(self):
        self.open(self.page)
        for _ in range(3):
            self.js("const more = document.querySelector('#tensors > button');"
                    "if (!more.hidden) more.click()")
        rows = self.all("#tensors tbody tr", "row => [...row.cells].map(cell => cell.textContent)")
        stored = {}
        for tensor in self.report["tensors"]:
            stored.setdefault(tensor["name"], []).append(tensor)
        # The fused gate_up_proj is two parameters; the others have the names of their tensors.
        names = {name for name, *_ in rows}
        self.assertEqual(len(names), len(rows))
        self.assertEqual(names ^ set(stored), {
            f"model.layers.{layer}.mlp.{name}_proj.weight" for layer in range(4)
            for name in ("gate", "up", "gate_up")})
        elements = 0
        for name, dtype, shape, _, files in rows:
            size = 1
            for extent in json.loads(shape):
                size *= extent
            elements += size
            of = name.replace("gate_proj", "gate_up_proj").replace(".up_proj", ".gate_up_proj")
            self.assertEqual(dtype, stored[of][0]["dtype"])
            self.assertEqual(files, str(len(stored[of])), name)
        self.assertEqual(elements, self.report["parameters"])

    def test_the_chosen_tensor_has_the_ranks_of_json(self):
        self.open(self.page)
        name = "model.layers.1.self_attn.k_proj.weight"
        self.js("document.querySelector('#tensors input').value = arguments[0];"
                "document.querySelector('#tensors input').oninput()", name)
        self.js("document.querySelector('#tensors [data-name]').click()")
        self.assertEqual(self.all("#chosen h3"), [name])
        rows = [tensor["shape"] for tensor in self.report["tensors"] if tensor["name"] == name]
        heads = self.report["model"]["kv_heads"] // 2
        dim = self.report["model"]["head_dim"]
        expected = []
        for rank, (extent, width) in enumerate(rows):
            self.assertEqual(extent, heads * dim)
            box = f"[{rank * extent}:{(rank + 1) * extent}, 0:{width}]"
            expected.append([f"tp {rank}", box, f"{rank * heads} to {(rank + 1) * heads - 1}",
                             f"[0:{extent}, 0:{width}]"])
        self.assertEqual(self.parts(), expected)
        self.assertEqual(len(self.all("#chosen .flow", "e => 1")), 2, "a band for each rank")

    def test_keys_walk_the_tree(self):
        self.open(self.page)
        self.assertEqual(self.all(".crumbs > *"), ["model"])
        while not self.js("return document.activeElement.classList.contains('cell')"):
            self.press(Keys.TAB)
        first = self.js("return document.activeElement.dataset.name")
        self.press(Keys.ARROW_RIGHT)
        second = self.js("return document.activeElement.dataset.name")
        self.press(Keys.ARROW_LEFT)
        self.assertEqual(self.js("return document.activeElement.dataset.name"), first)
        self.assertNotEqual(first, second)
        while not self.js("return document.activeElement.dataset.name").endswith("model.layers"):
            self.press(Keys.ARROW_RIGHT)
        self.press(Keys.ENTER)
        self.assertEqual(self.all(".crumbs > *"), ["model", "layers"])
        self.press(Keys.ENTER)  # into the layer that has the focus
        self.assertEqual(len(self.all(".crumbs > *")), 3)
        self.press(Keys.ESCAPE)
        self.press(Keys.ESCAPE)
        self.assertEqual(self.all(".crumbs > *"), ["model"])
        # Back at the part that was gone into, which a screen reader names.
        focused = "return document.activeElement"
        self.assertEqual(self.js(focused + ".dataset.name"), "model.layers")
        self.assertRegex(self.js(focused + ".getAttribute('aria-label')"),
                         r"^model\.layers: [0-9.]+ kB, \d+ tensors$")
        while not self.js(focused + ".dataset.name").endswith("embed_tokens.weight"):
            self.press(Keys.ARROW_RIGHT)
        self.press(Keys.ENTER)
        self.assertEqual(self.js(focused + ".dataset.name"), self.all("#chosen h3")[0])
        self.press(Keys.ESCAPE)
        self.assertTrue(self.js(focused + ".classList.contains('cell')"))

    def test_keys_reach_everything(self):
        self.open(self.page)
        self.assertGreater(self.expect_all_by_tab(), 10)
        self.expect_keys_open()

    def test_names_are_text(self):
        pages = []
        for name, marks in (("plain", [f"n{i}" for i in range(len(browser.HOSTILE))]),
                            ("hostile", browser.HOSTILE)):
            path = os.path.join(self.folder, name + ".safetensors")
            write_safetensors(path, [mark.replace(".", "") for mark in marks])
            pages.append(self.inspect(name + ".html", path))
        self.expect_same_elements(*pages)

    def test_tensors_that_hold_no_parameter(self):
        bundle = self.path("bundle")
        browser.run("nxd-convert", "-q", "--to", "rollout", "--tp", "2", self.path("model"), bundle)
        report = json.loads(browser.run("ckpt-inspect", "--json", bundle))
        stored = {tensor["name"] for tensor in report["tensors"]}
        ranks = {name for name in stored if name.endswith("rank_util.rank")}
        self.assertGreater(len(ranks), 0)
        self.open(self.inspect("bundle.html", bundle))
        self.js("const field = document.querySelector('#tensors input');"
                "field.value = 'rank_util'; field.oninput()")
        self.assertEqual(set(self.all("#tensors [data-name]", "e => e.dataset.name")), ranks)
        (text,) = self.all("#treemap [role=status]")
        self.assertRegex(text, rf"^\d+ parameters and {len(ranks)} other tensors, [0-9.]+ kB "
                               "without copies of parameters$")
        groups = self.all(".groups [data-group]", "e => e.dataset.group")
        self.assertIn("not parameters", groups)

    def test_more_rows_take_the_focus(self):
        path = self.path("many.safetensors")
        write_safetensors(path, [f"t{i}" for i in range(60)])
        self.open(self.inspect("many.html", path))
        before = self.all("#tensors [data-name]", "e => e.dataset.name")
        self.focus("#tensors > button")
        self.press(Keys.ENTER)
        after = self.all("#tensors [data-name]", "e => e.dataset.name")
        self.assertEqual((len(before), len(after)), (50, 60))
        self.assertEqual(self.js("return document.activeElement.dataset.name"), after[50])

    def test_escape_goes_back_after_a_resize(self):
        self.open(self.page)
        name = "model.embed_tokens.weight"
        self.focus(f".treemap [data-name='{name}']")
        self.press(Keys.ENTER)
        self.assertEqual(self.all("#chosen h3"), [name])
        self.js("dispatchEvent(new Event('resize'))")
        self.press(Keys.ESCAPE)
        focused = "return document.activeElement"
        self.assertTrue(self.js(focused + ".classList.contains('cell')"))
        self.assertEqual(self.js(focused + ".dataset.name"), name)

    def test_a_tensor_without_a_name(self):
        path = self.path("unnamed.safetensors")
        write_safetensors(path, ["", "a"])
        self.open(self.inspect("unnamed.html", path))
        self.assertEqual(sorted(self.all(".cell-name")), ["(no name)", "a"])
        self.assertEqual(self.all("#tensors [data-name='']"), ["(no name)"])
        (label,) = self.all(".treemap [data-name='']", "e => e.getAttribute('aria-label')")
        self.assertEqual(label, "(no name): 16 B, BF16")

    def test_one_is_one(self):
        path = self.path("one.safetensors")
        write_safetensors(path, ["a"])
        self.open(self.inspect("one.html", path))
        self.assertEqual(self.all("#treemap [role=status]"), ["16 B in 1 tensor"])

    def test_tensors_without_elements_need_no_map(self):
        path = self.path("empty.safetensors")
        header = json.dumps({"a": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]}}).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
        self.open(self.inspect("empty.html", path))
        self.assertEqual(self.all("#treemap [role=status]"), ["0 B in 1 tensor"])
        self.assertEqual(self.all(".treemap", "e => e.getBoundingClientRect().height"), [0])

    def test_left_out_tensors_are_in_the_legend(self):
        self.open(self.page)
        self.js("""document.getElementById('treemap').replaceChildren();
                const block = document.getElementById('tree');
                const data = JSON.parse(block.textContent);
                data.others = [7, 1000000];
                block.textContent = JSON.stringify(data);
                document.getElementById('tensors').replaceChildren();
                showTreemap()""")
        shares = self.all(".groups [data-group]", "e => [e.dataset.group,"
                          " parseFloat(e.textContent.match(/([0-9.]+) %/)[1])]")
        self.assertEqual(shares[-1][0], "others")
        self.assertAlmostEqual(sum(share for _, share in shares), 100, delta=0.05 * len(shares))
        (text,) = self.all("#treemap [role=status]")
        self.assertRegex(text, r"^\d+ parameters and 7 smaller tensors, [0-9.]+ MB without copies$")
        self.assertEqual(self.all(".treemap [data-name=others]", "e => e.className"), ["cell"])

    def test_print_keeps_the_colours(self):
        self.open(self.page)
        look = "e => getComputedStyle(e).printColorAdjust"
        self.assertEqual(set(self.all(".cell, .key", look)), {"exact"})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        shown = self.js("return document.querySelector('#tensors input').checkVisibility()")
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        self.assertFalse(shown)

    def test_fifty_thousand_names_open_in_a_second(self):
        path = os.path.join(self.folder, "big.safetensors")
        write_safetensors(path, [f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj.weight"
                                 for layer in range(50) for expert in range(334)
                                 for name in ("gate", "up", "down")])
        page = self.inspect("big.html", path)
        self.assertLess(os.path.getsize(page), 5_000_000)
        self.open(page)
        self.assertEqual(self.all("#tensors [role=status]"), ["50 of 50,100"])


if __name__ == "__main__":
    unittest.main()
