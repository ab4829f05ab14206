"""The page of `nxd-convert --explain --html`."""

import json
import os
import unittest

import browser


def box_text(box):
    return "[" + ", ".join(f"{lo}:{lo + extent}" for lo, extent in zip(box["lo"], box["extent"])) + "]"


class ExplainTest(browser.PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = os.path.join(cls.folder, "model")
        browser.run("nxdkit-make-model", "--quiet", "--max-shard-size", "200KB", "--out", cls.model)
        # Every key head is on two ranks, and three tensors are one.
        cls.layout = ["--to", "nxd", "--tp", "2", "--kv-multiplier", "2", "--qkv", "fused", "--hw", "trn1"]
        cls.page = os.path.join(cls.folder, "page.html")
        cls.report = cls.explain("--explain", "--html", cls.page)

    @classmethod
    def explain(cls, *options):
        return json.loads(browser.run("nxd-convert", "--json", *cls.layout, *options, cls.model))

    def rows(self, table):
        return self.all(f"{table} tbody tr", "row => [...row.cells].map(cell => cell.textContent)")

    def test_looks(self):
        self.expect_good_looks(self.page)

    def test_flows_are_those_of_json(self):
        self.open(self.page)
        self.open_all()
        flows = self.report["flows"]
        self.assertEqual(len(self.rows("#flows")), len(flows))
        self.assertEqual(sum(self.js(
            "return JSON.parse(document.getElementById('plan').textContent).flows.map(f => f[2])")),
            sum(flow["bytes"] for flow in flows))
        for (source, target, shown), flow in zip(self.rows("#flows"), flows):
            self.assertTrue(flow["from"].endswith(source), flow)
            self.assertIn("tp rank " + target.removeprefix("tp "), flow["to"])
            number, unit = shown.split(" ")
            scale = {"B": 1, "kB": 1e3, "MB": 1e6}[unit]
            self.expect_number(number, flow["bytes"] / scale, flow)

    def test_parts_of_a_tensor_are_those_of_json(self):
        name = "model.layers.2.self_attn.qkv_proj.weight_qkv"
        parts = self.explain("--explain", name)["parts"]
        page = os.path.join(self.folder, "one.html")
        self.explain("--explain", name, "--html", page)
        self.open(page)
        self.assertEqual(self.all("#chosen h3"), [name])
        shown = self.rows("#parts")
        self.assertEqual(len(shown), len(parts))
        for (to, part, heads, there, source, where), of in zip(shown, parts):
            self.assertIn("tp rank " + to.removeprefix("tp "), of["to"])
            tail = ".".join(of["parameter"].split(".")[-3:])
            self.assertEqual(part, tail + box_text(of["parameter_box"]))
            first, last = of["heads"]
            self.assertEqual(heads, str(first) if first == last else f"{first} to {last}")
            self.assertEqual(there, box_text(of["box"]))
            self.assertTrue(of["from"].endswith(source), of)
            self.assertEqual(where, of["source"] + box_text(of["source_box"]))
        self.assertEqual(len(self.all("#chosen .flow", "e => 1")), len(parts))

    def test_constants_are_parts(self):
        page = os.path.join(self.folder, "bundle.html")
        browser.run("nxd-convert", "--to", "rollout", "--tp", "2", "--explain", "rank_util.rank",
                    "--html", page, self.model)
        self.open(page)
        self.assertEqual([row[:4] for row in self.rows("#parts")],
                         [[f"tp {rank}", f"the constant {rank}", "-", "[0:1]"] for rank in (0, 1)])

    def test_keys_reach_everything(self):
        self.open(self.page)
        self.assertGreater(self.expect_all_by_tab(), 10)
        self.expect_keys_open()

    def test_a_name_shows_its_tensor(self):
        self.open(self.page)
        name = "model.layers.3.mlp.down_proj.weight"
        self.focus(f"#tensors [data-name='{name}']")
        self.press("\n")
        self.assertEqual(self.all("#chosen h3"), [name])
        self.assertTrue(self.js("return document.activeElement.matches('#chosen h3')"))


if __name__ == "__main__":
    unittest.main()
