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

    def plan(self, name, *options, model=()):
        """The page of a plan, with experts in the model if `model` has the options for them."""
        page, folder = self.path(name + ".html"), self.path(name + "_model")
        browser.run("nxdkit-make-model", "--quiet", *model, "--out", folder)
        browser.run("nxd-convert", *options, "--html", page, folder)
        return page

    def labels(self):
        """The lines next to each bar of the chosen tensor, those of sources first."""
        return self.all("#chosen .columns g", "g => [...g.querySelectorAll('text')].map(t => t.textContent)")

    def test_parts_cut_along_two_axes_differ(self):
        name = "model.layers.1.feed_forward.experts.gate_up_proj"
        page = self.plan("axes", "--to", "dcp", "--mesh", "dp=2,tp=2", "--explain", name,
                         model=["--family", "llama4_text"])
        self.open(page)
        boxes = [json.loads(row[1].replace(":", ",")) for row in self.rows("#parts")]
        shape = [max(box[2 * axis + 1] for box in boxes) for axis in range(3)]
        expected = [", ".join(f"axis {axis}: {box[2 * axis]} to {box[2 * axis + 1] - 1}" for axis in range(3)
                              if box[2 * axis + 1] - box[2 * axis] < shape[axis]) for box in boxes]
        self.assertEqual([text.count("axis") for text in expected], [2] * 4)
        shown = [lines[1] for lines in self.labels()[1:]]
        self.assertEqual([text.split(", BF16")[0] for text in shown], expected)
        bands = self.all("#chosen .flow", "e => e.getAttribute('d')")
        self.assertEqual(len({band.split("C")[0] for band in bands}), 4, "where the bands begin")

    def test_rows_and_columns_are_those_of_two_axes(self):
        part = ("return partText({box: {lo: [4, 8], extent: [2, 1]}, shape: [8, 16], heads: arguments[0],"
                " headRows: arguments[1], headDim: 0})")
        self.open(self.page)
        self.assertEqual(self.js(part, "", 0), "rows 4 to 5, columns 8")
        self.assertEqual(self.js(part, "2", 2), "head 2, columns 8")
        self.assertEqual(self.js(part, "1", 4), "head 1, rows 4 to 5, columns 8")  # a part of the head
        of = "return partText({box: {lo: [4], extent: [2]}, shape: [arguments[0]], heads: ''})"
        self.assertEqual(self.js(of, 8), "elements 4 to 5")
        self.assertEqual(self.js(of, 2), "all of it")

    def test_a_plan_that_reads_nothing(self):
        self.open(self.plan("nothing", "--to", "rollout", "--tp", "2", "--explain", "rank_util.rank"))
        self.assertEqual(self.all("#flows"), ["No bytes are read from files."])

    def test_narrow_pages_keep_the_heads(self):
        page = self.plan("heads", "--to", "nxd", "--tp", "2", "--pp", "2", "--explain",
                         "model.layers.3.self_attn.q_proj.weight")
        self.open(page, browser.NARROW)
        for rank, lines in enumerate(self.labels()[1:]):
            self.assertEqual(lines[1], ["heads 0 to 3", "heads 4 to 7"][rank])

    def test_sources_of_one_file_differ_in_their_labels(self):
        page = self.plan("experts", "--to", "nxd", "--tp", "2", "--ep", "2", "--explain",
                         model=["--family", "qwen3_moe"])
        for width in (browser.WIDE, browser.NARROW):
            self.open(page, width)
            left = self.labels()[:len(set(row[5].split("[")[0] for row in self.rows("#parts")))]
            self.assertGreater(len(left), 8)
            self.assertEqual(len({lines[0] for lines in left}), len(left), left)
            self.assertRegex(left[0][0], r"^0\.(gate|up|down)_proj")

    def test_the_filter_of_parts_says_what_it_searches(self):
        self.open(self.plan("filter", "--to", "nxd", "--tp", "2", "--ep", "2", "--explain",
                            model=["--family", "qwen3_moe"]))
        self.assertEqual(self.all("#parts input", "e => e.placeholder"), ["filter by rank or file"])
        self.assertEqual(self.all("#parts th")[3::2], ["in the output tensor", "in the input tensor"])

    def test_the_chosen_tensor_is_read_once(self):
        self.open(self.page)
        self.assertEqual(self.all("#chosen, #chosen [aria-live]", "e => e.getAttribute('aria-live')"), [None])
        about = self.all("#chosen h3", "e => document.getElementById(e.getAttribute('aria-describedby')).textContent")
        self.assertIn(" kB, ", about[0])


if __name__ == "__main__":
    unittest.main()
