"""Checkpoints that other programs wrote: what is opened is what is converted."""

import os
import unittest

import nxdkit
import workshop

TESTDATA = os.path.join(os.path.dirname(__file__), "..", "..", "testdata")
# Their places, and how many of them can be converted to a Hugging Face model as they are.
PLACES = {
    "dcp": 3,
    "dcp/forms": 5,
    "hf": 3,
    "nxd": 4,
    "rank_files": 18,
    "rollout": 4,
    "safetensors": 8,
    "zero/fixtures.tar.zst": 13,
    "zero/generated.tar.zst": 35,
    "megatron/fixtures.tar.zst": 13,
    "megatron/generated.tar.zst": 30,
}


class FixtureTest(unittest.TestCase):
    def test_what_is_opened_is_what_is_converted(self):
        for place, count in PLACES.items():
            folder = os.path.join(TESTDATA, place)
            if place.endswith(".tar.zst"):
                archive, folder = folder, workshop.fresh()
                nxdkit.pack(archive, folder, unpack=True)
            compared = 0
            for name in sorted(os.listdir(folder)):
                with self.subTest(f"{place}/{name}"):
                    compared += self.compare(os.path.join(folder, name))
            self.assertGreaterEqual(compared, count, place)

    def compare(self, path):
        """Whether it is one that can be converted."""
        output = workshop.fresh("model")
        try:
            nxdkit.convert(path, output, to="hf")
        except nxdkit.Error:
            return False
        expected = workshop.stored(output)
        with nxdkit.open(path) as opened:
            self.assertEqual(sorted(opened), sorted(expected))
            for name, (dtype, shape, data) in expected.items():
                tensor = opened[name]
                self.assertEqual((tensor.dtype, tensor.shape), (dtype, shape), name)
                self.assertEqual(tensor.bytes(), data, name)
                if shape:
                    ranges = [range(count)[1::2] for count in shape]
                    part = tensor[tuple(slice(1, None, 2) for _ in shape)]
                    self.assertEqual(part.bytes(), workshop.cut(data, shape, ranges), name)
        return True


if __name__ == "__main__":
    unittest.main()
