"""A checkpoint of every layout as a mapping of names to tensors."""

import json
import os
import re
import unittest
import warnings
from html import unescape

import nxdkit
import workshop


class OpenTest(unittest.TestCase):
    def test_tells_what_a_model_is(self):
        path = workshop.model()
        with nxdkit.open(path) as model:
            self.assertEqual((model.format, model.family, model.path), ("hf", "qwen3", path))
            stored = workshop.stored(path)
            self.assertEqual(sorted(model), sorted(stored))
            self.assertEqual(len(model), len(stored))
            self.assertEqual(model.nbytes, sum(len(data) for _, _, data in stored.values()))
            with open(os.path.join(path, "config.json")) as file:
                self.assertEqual(model.config, json.load(file))
            self.assertEqual(model.warnings, [])
            self.assertIn("model.norm.weight", model)
            self.assertNotIn("model.norm", model)

    def test_tells_the_parallel_sizes(self):
        with nxdkit.open(workshop.form("nxd in stages")) as shards:
            self.assertEqual(shards.format, "nxd")
            self.assertEqual((shards.parallel["tp"], shards.parallel["pp"]), (2, 2))

    def test_every_form_has_the_values_of_the_model(self):
        expected = workshop.stored(workshop.model())
        for name in workshop.FORMS:
            with self.subTest(name), nxdkit.open(workshop.form(name)) as opened:
                self.assertEqual(opened.format, name.split()[0])
                for key, (dtype, shape, data) in expected.items():
                    if key not in opened and key == "lm_head.weight":
                        continue  # tied, and stored once
                    tensor = opened[key]
                    self.assertEqual((tensor.dtype, tensor.shape), (dtype, shape), key)
                    self.assertEqual(tensor.bytes(), data, key)

    def test_options_say_what_no_file_says(self):
        shards = workshop.copied(workshop.form("nxd"))
        config = os.path.join(shards, "config.json")
        if os.path.exists(config):
            os.remove(config)
        with nxdkit.open(shards, config=os.path.join(workshop.model(), "config.json")) as opened:
            self.assertEqual(opened.family, "qwen3")

    def test_takes_path_objects(self):
        import pathlib

        with nxdkit.open(pathlib.Path(workshop.model())) as model:
            self.assertEqual(model.format, "hf")

    def test_missing_is_a_file_not_found_error(self):
        path = workshop.fresh()
        with self.assertRaises(FileNotFoundError) as caught:
            nxdkit.open(path)
        error = caught.exception
        self.assertIsInstance(error, nxdkit.MissingError)
        self.assertEqual((error.code, error.exit_code), ("not_found", 3))
        self.assertEqual((error.file, error.filename), (path, path))
        self.assertIn(path, str(error))

    def test_damage_is_told_with_its_place(self):
        path = workshop.copied(workshop.model())
        file = workshop.weights_file(path)
        os.truncate(file, os.path.getsize(file) - 1)
        with self.assertRaises(nxdkit.DamagedError) as caught:
            nxdkit.open(path)
        self.assertEqual((caught.exception.code, caught.exception.file), ("corrupt", file))

    def test_an_unknown_option_is_a_value_error(self):
        with self.assertRaises(ValueError) as caught:
            nxdkit.open(workshop.model(), bogus=1)
        self.assertIsInstance(caught.exception, nxdkit.UsageError)
        self.assertIn("bogus", str(caught.exception))

    def test_a_name_that_is_not_there_is_a_key_error(self):
        with nxdkit.open(workshop.model()) as model:
            with self.assertRaisesRegex(KeyError, "there is 'model.norm.weight'"):
                model["model.norm.weigth"]
            self.assertIsNone(model.get("nothing"))

    def test_a_closed_checkpoint_is_a_value_error(self):
        model = nxdkit.open(workshop.model())
        tensor = model["model.norm.weight"]
        rank = model.rank("nxd", tp=2)
        model.close()
        model.close()
        self.assertTrue(model.closed)
        uses = (tensor.bytes, tensor.explain, model.digest, lambda: model.rank("nxd", tp=2))
        for use in uses:
            with self.assertRaisesRegex(ValueError, "is closed"):
                use()
        self.assertEqual(tensor.shape, model["model.norm.weight"].shape)
        self.assertGreater(
            len(rank["norm.weight" if "norm.weight" in rank else next(iter(rank))].bytes()), 0
        )

    def test_a_file_that_changes_is_an_error(self):
        path = workshop.copied(workshop.model())
        with nxdkit.open(path) as model:
            workshop.flip(
                workshop.weights_file(path), -1 + os.path.getsize(workshop.weights_file(path))
            )
            os.utime(workshop.weights_file(path), (1, 1))
            with self.assertRaisesRegex(nxdkit.DamagedError, "has changed since") as caught:
                model["model.norm.weight"].bytes()
            self.assertEqual(caught.exception.tensor, "model.norm.weight")

    def test_warnings_name_the_line_of_the_caller(self):
        from nxdkit import _errors

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _errors.warn({"warnings": ["be careful"]})
        self.assertEqual([str(warning.message) for warning in caught], ["be careful"])
        self.assertEqual(caught[0].filename, __file__)
        self.assertIs(caught[0].category, nxdkit.CheckpointWarning)

    def test_shows_itself(self):
        with nxdkit.open(workshop.model()) as model:
            self.assertRegex(
                repr(model), r"^<nxdkit.Checkpoint hf qwen3 '.*' \d+ tensors [0-9.]+ .B>$"
            )
            page = framed(model._repr_html_())
            self.assertIn("Checkpoint nxd qwen3", model.rank("nxd", tp=2)._repr_html_())
        data = json.loads(re.search('id="tree">(.*?)</script>', page).group(1))
        self.assertEqual(data["files"][0], "model.safetensors")
        self.assertIn("embed_tokens.weight", json.dumps(data["tree"]))
        self.assertTrue(model._repr_html_().startswith("<b>nxdkit.Checkpoint hf qwen3"), "closed")

    def test_names_are_escaped_in_html(self):
        from array import array

        tensors = {"<b>&.weight": array("f", [1]), "<b>&": array("f", [2])}
        with nxdkit.Source(tensors, name="<i>") as source:
            html = source._repr_html_()
        self.assertNotIn("<b>&", html)
        page = framed(html)
        self.assertIn("\\u003cb>&", page)
        for mark in ("<b>&", "<i>"):
            self.assertNotIn(mark, page)


def framed(html):
    """The page in the frame of a notebook's output."""
    return unescape(re.search('srcdoc="([^"]*)"', html).group(1))


if __name__ == "__main__":
    unittest.main()
