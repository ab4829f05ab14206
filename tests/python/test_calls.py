"""The commands as functions."""

import json
import os
import resource
import unittest
import warnings

import nxdkit
import workshop
from nxdkit import _progress


class ConvertTest(unittest.TestCase):
    def test_writes_another_layout(self):
        output = workshop.fresh()
        report = nxdkit.convert(workshop.model(), output, to="nxd", tp=2)
        self.assertEqual((report.tool, report["from"], report.to), ("nxd-convert", "hf", "nxd"))
        self.assertGreater(report.output_bytes, 0)
        self.assertEqual(nxdkit.digest(output), nxdkit.digest(workshop.model()))

    def test_takes_an_open_checkpoint_with_its_options(self):
        config = os.path.join(workshop.model(), "config.json")
        bare = workshop.copied(workshop.form("nxd"))
        if os.path.exists(os.path.join(bare, "config.json")):
            os.remove(os.path.join(bare, "config.json"))
        output = workshop.fresh()
        with nxdkit.open(bare, config=config) as shards:
            nxdkit.convert(source=shards, output=output, to="hf")
        self.assertEqual(nxdkit.digest(output), nxdkit.digest(workshop.model()))

    def test_flags_are_true_and_false(self):
        output = workshop.fresh()
        report = nxdkit.convert(workshop.model(), output, to="nxd", tp=2, xser=False, dry_run=True)
        self.assertTrue(report.dry_run)
        self.assertFalse(os.path.exists(output))

    def test_options_that_are_words_of_python_have_an_underscore(self):
        report = nxdkit.convert(
            workshop.model(),
            workshop.fresh(),
            from_="hf",
            to="dcp",
            for_="torchtitan",
            dry_run=True,
        )
        self.assertEqual(report.to, "dcp")

    def test_unknown_and_wrong_options_are_value_errors(self):
        for options, message in (
            ({"to": "nxd", "bogus": 1}, "bogus"),
            ({"to": "nothing"}, "nothing"),
            ({"to": "nxd", "tp": "many"}, "many"),
            ({"to": "nxd", "tp": 2, "sync": [1, 2]}, "sync"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, message) as caught:
                nxdkit.convert(workshop.model(), workshop.fresh(), **options)
            self.assertEqual((caught.exception.code, caught.exception.exit_code), ("usage", 2))

    def test_an_output_that_exists_is_refused(self):
        with self.assertRaises(nxdkit.Error) as caught:
            nxdkit.convert(workshop.model(), workshop.form("nxd"), to="nxd", tp=2)
        self.assertIn("exists", str(caught.exception))

    def test_a_cap_that_is_too_low_is_a_memory_error(self):
        with self.assertRaises(MemoryError) as caught:
            nxdkit.convert(workshop.model(), workshop.fresh(), to="nxd", tp=2, max_memory="1k")
        self.assertIsInstance(caught.exception, nxdkit.LimitError)
        self.assertEqual(caught.exception.exit_code, 6)

    def test_an_output_that_cannot_be_written_is_an_os_error(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        output = workshop.fresh()
        workshop.model()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with self.assertRaisesRegex(OSError, "File too large") as caught:
                nxdkit.convert(workshop.model(), output, to="nxd", tp=2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertIsInstance(caught.exception, nxdkit.InputOutputError)
        self.assertEqual((caught.exception.code, caught.exception.exit_code), ("io", 5))
        self.assertFalse(os.path.exists(output))

    def test_progress_is_told_once_at_least(self):
        seen = []
        nxdkit.convert(workshop.model(), workshop.fresh(), to="nxd", tp=2, progress=seen.append)
        self.assertTrue(seen)
        self.assertTrue(all(0 <= p.done <= p.total for p in seen if p.total), seen)

    def test_progress_counts_the_bytes_of_each_phase(self):
        seen = []
        watcher = _progress._Watcher(seen.append, _progress._Deferred())
        for phase, done in ((None, 0), (b"a", 10), (b"a", 15), (b"b", 3), (b"b", 3)):
            self.assertEqual(watcher(None, phase, done, 20, b"line"), 0)
        self.assertEqual([p.bytes for p in seen], [0, 10, 5, 3, 0])
        self.assertEqual([p.phase for p in seen], ["", "a", "a", "b", "b"])
        self.assertEqual((seen[1].done, seen[1].total, seen[1].message), (10, 20, "line"))
        self.assertEqual([p.seconds for p in seen], sorted(p.seconds for p in seen))

    def test_an_exception_of_progress_ends_the_work(self):
        output = workshop.fresh()

        def stop(progress):
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            nxdkit.convert(workshop.model(), output, to="nxd", tp=2, progress=stop)
        self.assertFalse(os.path.exists(output))

    def test_progress_may_call_the_library(self):
        counts = []

        def look(progress):
            with nxdkit.open(workshop.model()) as model:
                counts.append(len(model))

        nxdkit.convert(workshop.model(), workshop.fresh(), to="nxd", tp=2, progress=look)
        self.assertGreater(counts[0], 0)

    def test_progress_is_a_function(self):
        with self.assertRaisesRegex(TypeError, "takes a Progress"):
            nxdkit.digest(workshop.model(), progress=True)


class AnswerTest(unittest.TestCase):
    def test_digest_is_a_text_that_no_layout_changes(self):
        digest = nxdkit.digest(workshop.model())
        self.assertRegex(digest, "^sha256:[0-9a-f]{64}$")
        for name in ("nxd", "rollout", "dcp"):
            with nxdkit.open(workshop.form(name)) as opened:
                self.assertEqual(opened.digest(), digest)

    def test_digest_of_an_engine_is_a_report(self):
        with self.assertRaisesRegex(nxdkit.UsageError, r"run\('digest'"):
            nxdkit.digest(workshop.model(), as_="vllm", tp=2)
        report = nxdkit.run("digest", workshop.model(), as_="vllm", tp=2)
        self.assertGreater(len(report.checksums), 0)

    def test_verify_answers_for_what_is_right(self):
        report = nxdkit.verify(workshop.form("nxd"), against=workshop.model())
        self.assertEqual(report.findings, [])
        self.assertEqual(report.status, "ok")

    def test_verify_raises_findings_with_their_place(self):
        damaged = workshop.copied(workshop.model())
        file = workshop.weights_file(damaged)
        name = "model.layers.0.self_attn.q_proj.weight"
        stored = workshop.stored(damaged)[name]
        with open(file, "rb") as opened:
            place = opened.read().index(stored[2])
        workshop.flip(file, place + 2 * (3 * stored[1][1] + 5))
        with nxdkit.open(damaged) as checkpoint, self.assertRaises(nxdkit.Findings) as caught:
            checkpoint.verify(against=workshop.model())
        error = caught.exception
        self.assertEqual((error.code, error.exit_code), ("findings", 1))
        self.assertEqual((error.tensor, error.index), (name, [3, 5]))
        self.assertEqual(error.byte, 2 * (3 * stored[1][1] + 5))
        self.assertEqual(len(error.findings), 1)
        self.assertIn(name, str(error))

    def test_diff_answers_whether_they_are_the_same(self):
        same = nxdkit.diff(workshop.model(), workshop.form("rollout"))
        self.assertTrue(same.same)
        other = nxdkit.diff(workshop.model(), workshop.model(seed=2))
        self.assertFalse(other.same)
        self.assertGreater(other.total.changed, 0)
        with self.assertRaises(nxdkit.MissingError):
            nxdkit.diff(workshop.model(), workshop.fresh())

    def test_diff_has_a_page(self):
        import html
        import pickle
        import re

        difference = nxdkit.diff(workshop.model(), workshop.model(seed=2))
        page = difference.to_html()
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertNotIn("page", difference)
        data = json.loads(re.search('id="heat">(.*?)</script>', page)[1])
        norms = {}
        for row, module, _, _, changed, norm_a, norm_update, *_ in data["params"]:
            name = data["rows"][row] + "." + data["modules"][module]
            norms[name] = (changed, norm_a, norm_update)
        self.assertEqual(len(difference.tensors), len(norms))
        for tensor in difference.tensors:
            changed, norm_a, norm_update = norms[tensor.name]
            self.assertEqual(changed, tensor.changed)
            self.assertAlmostEqual(norm_a / tensor.norm_a, 1, 5)
            self.assertAlmostEqual(norm_update / tensor.norm_update, 1, 5)
        path = workshop.fresh("page.html")
        self.assertEqual(difference.to_html(path), page)
        with open(path, encoding="utf-8", newline="") as file:
            self.assertEqual(file.read(), page)
        self.assertEqual(pickle.loads(pickle.dumps(difference)).to_html(), page)
        shown = difference._repr_html_()
        self.assertIn(f"{difference.total.changed:,} of", shown)
        self.assertIn(html.escape(page), shown)

    def test_diff_writes_the_page_that_is_asked_for(self):
        path = workshop.fresh("page.html")
        difference = nxdkit.diff(workshop.model(), workshop.form("nxd"), html=path)
        self.assertEqual(difference.html, path)
        self.assertTrue(difference.to_html().startswith("<!DOCTYPE html>"))
        self.assertIn("iframe", difference._repr_html_())
        with self.assertRaisesRegex(nxdkit.UsageError, "exists"):
            nxdkit.diff(workshop.model(), workshop.form("nxd"), html=path)
        os.remove(path)
        self.assertIn("elements differ", difference._repr_html_())

    def test_diff_of_the_steps_of_a_run(self):
        arrays = workshop.stored(workshop.model())
        with nxdkit.open(workshop.model(seed=2)) as second, nxdkit.open(workshop.form("nxd")) as third:
            difference = nxdkit.diff(workshop.model(), second, third)
        self.assertFalse(difference.same)
        self.assertEqual(difference.total.changed, 0)
        self.assertEqual(len(difference.steps), 2)
        self.assertEqual(difference.steps[0].total.changed, difference.steps[1].total.changed)
        self.assertGreater(difference.steps[0].total.changed, len(arrays))
        self.assertEqual(difference.b, workshop.form("nxd"))
        self.assertNotIn("steps", nxdkit.diff(workshop.model(), workshop.form("nxd")))

    def test_two_open_checkpoints_of_one_path_are_two(self):
        root = workshop.fresh("run")
        for step, seed in ((1, 1), (2, 2)):
            nxdkit.convert(
                workshop.model(seed=seed), os.path.join(root, f"step_{step}"), to="nxd", tp=2
            )
        with nxdkit.open(root, tag="step_1") as one, nxdkit.open(root, tag="step_2") as two:
            self.assertNotEqual(one.digest(), two.digest())
            self.assertFalse(nxdkit.diff(one, two).same)
            self.assertTrue(nxdkit.diff(one, one).same)

    def test_inspect_tells_of_files(self):
        report = nxdkit.inspect(workshop.form("nxd"), top=0)
        self.assertEqual(report.tool, "ckpt-inspect")
        with nxdkit.open(workshop.model()) as model:
            self.assertEqual(model.inspect(filter=["*q_proj*", "*k_proj*"]).tool, "ckpt-inspect")

    def test_pack_and_unpack(self):
        archive, back = workshop.fresh("model.tar.gz"), workshop.fresh()
        nxdkit.pack(workshop.model(), archive)
        self.assertEqual(nxdkit.pack(archive, back, unpack=True).kind, "folder")
        self.assertEqual(nxdkit.digest(back), nxdkit.digest(workshop.model()))

    def test_reshard_changes_the_parallel_sizes(self):
        output = workshop.fresh()
        nxdkit.reshard(workshop.form("nxd"), output, tp=4, kv_multiplier=2, hw="trn1")
        with nxdkit.open(output) as shards:
            self.assertEqual(shards.parallel["tp"], 4)

    def test_export_without_a_blob(self):
        output = workshop.fresh()
        nxdkit.export(workshop.model(), output, tp=2, bs=1, seq=128, target="cpu")
        with nxdkit.open(output) as bundle:
            self.assertEqual(bundle.format, "rollout")

    def test_any_command_runs(self):
        self.assertEqual(nxdkit.run("env").tool, "nxdkit-env")
        self.assertEqual(nxdkit.run("nxdkit-env").tool, "nxdkit-env")
        with self.assertRaisesRegex(nxdkit.UsageError, "nxd-nothing"):
            nxdkit.run("nxd-nothing")

    def test_a_report_is_read_only(self):
        report = nxdkit.run("env")
        for change in (
            lambda: report.update(a=1),
            lambda: report.__setitem__("a", 1),
            lambda: setattr(report, "a", 1),
            lambda: report.pop("tool"),
        ):
            with self.assertRaisesRegex(TypeError, "read-only"):
                change()
        with self.assertRaisesRegex(AttributeError, "has no 'nothing'"):
            report.nothing

    def test_nothing_is_printed(self):
        import subprocess
        import sys

        program = "import sys, nxdkit; nxdkit.convert(*sys.argv[1:], to='nxd', tp=2)"
        command = [sys.executable, "-c", program, workshop.model(), workshop.fresh()]
        done = subprocess.run(command, capture_output=True, check=True)
        self.assertEqual((done.stdout, done.stderr), (b"", b""))

    def test_warnings_are_python_warnings(self):
        damaged = workshop.copied(workshop.model())
        output = workshop.fresh()
        os.remove(os.path.join(damaged, "generation_config.json")) if os.path.exists(
            os.path.join(damaged, "generation_config.json")
        ) else None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = nxdkit.convert(damaged, output, to="rollout", tp=2, bs=1, seq=128)
        self.assertEqual([str(warning.message) for warning in caught], report.warnings)


if __name__ == "__main__":
    unittest.main()
