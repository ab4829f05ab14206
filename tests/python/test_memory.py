"""Arrays of this process in the place of files."""

import array
import gc
import json
import os
import pickle
import tempfile
import unittest
from unittest import mock

import nxdkit
import workshop


def arrays(path):
    """The tensors of a model as (dtype, shape, buffer)."""
    return {
        name: (dtype, shape, bytearray(data))
        for name, (dtype, shape, data) in workshop.stored(path).items()
    }


class SourceTest(unittest.TestCase):
    def test_is_a_checkpoint(self):
        tensors = arrays(workshop.model())
        with nxdkit.Source(tensors, config=workshop.model(), name="the trainer") as source:
            self.assertEqual((source.format, source.family), ("hf", "qwen3"))
            self.assertEqual(source.path, "the trainer")
            self.assertEqual(sorted(source), sorted(tensors))
            for name, (dtype, shape, data) in tensors.items():
                self.assertEqual((source[name].dtype, source[name].shape), (dtype, shape))
                self.assertEqual(source[name].bytes(), data)
            self.assertEqual(source.digest(), nxdkit.digest(workshop.model()))

    def test_configuration_is_a_dict_a_file_or_a_folder(self):
        path = os.path.join(workshop.model(), "config.json")
        with open(path) as file:
            config = json.load(file)
        for given in (config, path, workshop.model()):
            with nxdkit.Source(arrays(workshop.model()), config=given) as source:
                self.assertEqual(source.config, config)

    def test_the_folder_of_a_configuration_goes_with_the_source(self):
        source = nxdkit.Source(
            arrays(workshop.model()), config={"model_type": "qwen3", **self._config()}
        )
        folder = os.path.dirname(source._recipe.request["options"]["config"])
        self.assertTrue(os.path.isdir(folder))
        source.close()
        self.assertFalse(os.path.exists(folder))
        source = nxdkit.Source(arrays(workshop.model()), config=self._config())
        folder = os.path.dirname(source._recipe.request["options"]["config"])
        del source
        gc.collect()
        self.assertFalse(os.path.exists(folder))

    def test_the_folder_goes_with_a_source_that_was_refused(self):
        place = workshop.fresh("temporary")
        os.mkdir(place)
        with mock.patch.object(tempfile, "tempdir", place):
            with self.assertRaises(nxdkit.Error):
                nxdkit.Source({"a": array.array("f", [1])}, config=self._config(), layout="nothing")
        self.assertEqual(os.listdir(place), [])

    def test_a_forked_child_leaves_the_folder_to_its_parent(self):
        with nxdkit.Source(arrays(workshop.model()), config=self._config()) as source:
            child = os.fork()
            if child == 0:
                source.close()
                os._exit(0)
            os.waitpid(child, 0)
            self.assertTrue(os.path.exists(source._recipe.request["options"]["config"]))

    @staticmethod
    def _config():
        with open(os.path.join(workshop.model(), "config.json")) as file:
            return json.load(file)

    def test_bytes_are_read_where_they_are(self):
        tensors = arrays(workshop.model())
        name = "model.norm.weight"
        with nxdkit.Source(tensors, config=workshop.model()) as source:
            tensors[name][2][:2] = b"\x80\x3f"
            self.assertEqual(source[name][0].bytes(), b"\x80\x3f")

    def test_takes_buffers_with_a_format(self):
        tensors = {"a": array.array("f", [1, 2]), "b": array.array("q", [3]), "c": b"\1\2"}
        with nxdkit.Source(tensors) as source:
            self.assertEqual([source[name].dtype for name in "abc"], ["F32", "I64", "U8"])
            self.assertEqual(source["a"].tolist(), [1, 2])
            self.assertEqual(source["c"].tolist(), [1, 2])

    def test_takes_tensors_of_a_checkpoint(self):
        with nxdkit.open(workshop.form("nxd")) as run:
            with nxdkit.Source(dict(run), config=workshop.model()) as source:
                self.assertEqual(source.digest(), run.digest())

    def test_refuses_what_is_no_array(self):
        for value, error, message in (
            ([1, 2], TypeError, "a list is not an array"),
            (("BF17", (1,), b"12"), TypeError, "no element type 'BF17'"),
            (("BF16", (2,), b"12"), ValueError, "has 4"),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                nxdkit.Source({"a": value})

    def test_cannot_be_pickled(self):
        with nxdkit.Source(arrays(workshop.model()), config=workshop.model()) as source:
            for what in (source, source["model.norm.weight"], source.rank("nxd", tp=2)):
                with self.assertRaisesRegex(TypeError, "in this process only"):
                    pickle.dumps(what)

    def test_saves_to_every_layout(self):
        for to, options in (
            ("hf", {}),
            ("nxd", {"tp": 2}),
            ("rollout", {"tp": 2, "bs": 1, "seq": 64}),
        ):
            output = workshop.fresh()
            tensors = arrays(workshop.model())
            report = nxdkit.save(
                tensors, output, to, config=workshop.model(), digest=True, **options
            )
            self.assertEqual(report.digest, nxdkit.digest(workshop.model()))
            self.assertEqual(report.to, to)

    def test_convert_takes_a_dict(self):
        output = workshop.fresh()
        tensors = arrays(workshop.model())
        nxdkit.convert(output=output, source=tensors, to="nxd", tp=2, config=workshop.model())
        self.assertEqual(nxdkit.digest(output), nxdkit.digest(workshop.model()))

    def test_can_be_what_a_checkpoint_is_held_against(self):
        tensors = arrays(workshop.model())
        with nxdkit.Source(tensors, config=workshop.model()) as source:
            nxdkit.verify(workshop.form("nxd"), against=source)
            self.assertTrue(nxdkit.diff(workshop.form("nxd"), source).same)
            tensors["model.norm.weight"][2][0] ^= 1
            with self.assertRaises(nxdkit.Findings) as caught:
                nxdkit.verify(workshop.form("nxd"), against=source)
            self.assertEqual(
                (caught.exception.tensor, caught.exception.byte), ("model.norm.weight", 0)
            )

    def test_another_layout_than_its_own_is_refused(self):
        with nxdkit.Source(arrays(workshop.model()), config=workshop.model()) as source:
            for call in (nxdkit.inspect, nxdkit.digest, nxdkit.verify):
                for layout in ("nxd", "rollout", "fsdp", "dcp"):
                    with self.assertRaisesRegex(nxdkit.UsageError, "opened as hf"):
                        call(source, from_=layout)
            with self.assertRaisesRegex(nxdkit.UsageError, "configuration was given"):
                source.digest(config=workshop.model() + "/config.json")

    def test_is_no_place_to_write_to(self):
        path, folder = workshop.model(), workshop.fresh()
        os.mkdir(folder)
        before = os.getcwd()
        os.chdir(folder)
        try:
            with nxdkit.Source(arrays(path), config=path) as source:
                with self.assertRaisesRegex(nxdkit.UsageError, "argument 1"):
                    nxdkit.run("convert", path, source, to="nxd", tp=1, force=True)
                with self.assertRaisesRegex(nxdkit.UsageError, "memory has no files"):
                    nxdkit.run("pack", source, "p.tar")
                with self.assertRaisesRegex(nxdkit.UsageError, "--model, where env reads"):
                    nxdkit.run("env", model=source)
                with self.assertRaisesRegex(nxdkit.UsageError, "--base, where digest reads"):
                    nxdkit.run("digest", path, base=source)
                with self.assertRaisesRegex(nxdkit.UsageError, "--config"):
                    nxdkit.run("convert", path, "out", to="nxd", config=source)
        finally:
            os.chdir(before)
        self.assertEqual(os.listdir(folder), [])

    def test_is_the_base_of_a_delta(self):
        path = workshop.model()
        with nxdkit.Source(arrays(workshop.model(seed=2)), config=path) as base:
            delta = workshop.fresh("step.delta")
            nxdkit.convert(path, delta, to="delta", base=base)
        with nxdkit.open(delta, base=workshop.model(seed=2)) as result:
            self.assertEqual(result.digest(base=workshop.model(seed=2)), nxdkit.digest(path))

    def test_a_configuration_may_be_an_object(self):
        class Config:
            def to_dict(self):
                with open(workshop.model() + "/config.json") as file:
                    return json.load(file)

        with nxdkit.Source(arrays(workshop.model()), config=Config()) as source:
            self.assertEqual(source.family, "qwen3")

    def test_close_lets_the_arrays_go(self):
        import weakref

        held = array.array("f", [1.0])
        gone = weakref.ref(held)
        source = nxdkit.Source({"a": held})
        del held
        source.close()
        gc.collect()
        self.assertIsNone(gone())

    def test_a_source_named_like_a_path_is_not_that_path(self):
        path = workshop.model()
        other = arrays(workshop.model(seed=2))
        with nxdkit.Source(other, config=path, name=path) as source:
            self.assertFalse(nxdkit.diff(source, path).same)
            with self.assertRaises(nxdkit.Findings):
                nxdkit.verify(path, against=source)

    def test_two_sources_of_one_name_are_two(self):
        one, two = (arrays(workshop.model(seed=seed)) for seed in (1, 2))
        config = workshop.model()
        with nxdkit.Source(one, config=config) as a, nxdkit.Source(two, config=config) as b:
            self.assertFalse(nxdkit.diff(a, b).same)
            self.assertTrue(nxdkit.diff(a, a).same)

    def test_shards_of_stages(self):
        shards = {}
        with nxdkit.open(workshop.model()) as run:
            for pp_rank in range(2):
                for rank in range(2):
                    place = run.rank("nxd", rank, tp=2, pp=2, pp_rank=pp_rank)
                    shards[pp_rank, rank] = dict(place)
        with nxdkit.Source.from_shards(shards, config=workshop.model()) as source:
            self.assertEqual((source.parallel["tp"], source.parallel["pp"]), (2, 2))
            self.assertEqual(source.digest(), nxdkit.digest(workshop.model()))
        del shards[1, 1]
        with self.assertRaises(nxdkit.UsageError):
            nxdkit.Source.from_shards(shards, config=workshop.model())


if __name__ == "__main__":
    unittest.main()
