"""Parts of tensors, and reading them."""

import array
import os
import pickle
import random
import unittest

import nxdkit
import workshop

NAME = "model.layers.0.self_attn.q_proj.weight"


class TensorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = workshop.stored(workshop.model())
        cls.run_ = nxdkit.open(workshop.form("nxd of 4 ranks"))
        cls.tensor = cls.run_[NAME]
        cls.dtype, cls.shape, cls.data = cls.expected[NAME]

    @classmethod
    def tearDownClass(cls):
        cls.run_.close()

    def test_has_shape_and_type(self):
        tensor = self.tensor
        self.assertEqual((tensor.name, tensor.dtype, tensor.shape), (NAME, "BF16", self.shape))
        self.assertEqual((tensor.ndim, len(tensor)), (2, self.shape[0]))
        self.assertEqual(tensor.nbytes, len(self.data))
        self.assertEqual(tensor.size * 2, tensor.nbytes)
        self.assertIn(NAME, repr(tensor))

    def test_parts_are_those_of_python(self):
        draw = random.Random(7)
        for _ in range(300):
            tensor, ranges = self.tensor, [range(count) for count in self.shape]
            left = list(range(len(ranges)))
            for _ in range(draw.randrange(1, 4)):
                key = []
                for dimension in list(left):
                    part = self._part(draw, len(ranges[dimension]))
                    key.append(part)
                    if isinstance(part, int):
                        ranges[dimension] = range(
                            ranges[dimension][part], ranges[dimension][part] + 1
                        )
                        left.remove(dimension)
                    else:
                        ranges[dimension] = ranges[dimension][part]
                tensor = tensor[tuple(key)]
            self.assertEqual(tensor.shape, tuple(len(ranges[dimension]) for dimension in left))
            self.assertEqual(tensor.bytes(), workshop.cut(self.data, self.shape, ranges))

    @staticmethod
    def _part(draw, count):
        if count and draw.random() < 0.2:
            return draw.randrange(-count, count)
        ends = [None, *(draw.randrange(-count - 2, count + 3) for _ in range(3))]
        return slice(draw.choice(ends), draw.choice(ends), draw.choice([None, 1, 2, 5]))

    def test_an_ellipsis_stands_for_the_rest(self):
        self.assertEqual(self.tensor[..., 3].shape, self.shape[:1])
        self.assertEqual(self.tensor[3, ...].shape, self.shape[1:])
        self.assertEqual(self.tensor[...].bytes(), self.data)
        self.assertEqual(self.tensor[..., 1, 2].shape, ())

    def test_rows_are_the_elements(self):
        rows = list(self.tensor[:3])
        self.assertEqual([row.shape for row in rows], [self.shape[1:]] * 3)
        self.assertEqual(b"".join(row.bytes() for row in rows), self.data[: 6 * self.shape[1]])
        with self.assertRaisesRegex(TypeError, "without dimensions"):
            len(self.tensor[0, 0])

    def test_refuses_what_is_no_index(self):
        for key, error, message in (
            ((0, 0, 0), IndexError, "too many indices: 3"),
            ((self.shape[0],), IndexError, "out of range for dimension 0"),
            ((0, -self.shape[1] - 1), IndexError, "out of range for dimension 1"),
            ((slice(None, None, -1),), ValueError, "step of -1"),
            ((slice(None, None, 0),), ValueError, "zero"),
            ((None,), TypeError, "NoneType"),
            ((True,), TypeError, "bool"),
            (("a",), TypeError, "str"),
            ((..., ...), IndexError, "single ellipsis"),
        ):
            with self.subTest(key), self.assertRaisesRegex(error, message):
                self.tensor[key]

    def test_reads_into_buffers(self):
        part = self.tensor[2:4, 1:]
        for buffer in (bytearray(part.nbytes), array.array("H", bytes(part.nbytes))):
            part.into(buffer)
            self.assertEqual(bytes(buffer), part.bytes())
        middle = bytearray(part.nbytes + 2)
        part.into(memoryview(middle)[1:-1])
        self.assertEqual(middle, b"\0" + part.bytes() + b"\0")

    def test_refuses_buffers_that_do_not_fit(self):
        size = self.tensor.nbytes
        with self.assertRaisesRegex(ValueError, f"{size - 1} bytes, and .* has {size}"):
            self.tensor.into(bytearray(size - 1))
        with self.assertRaisesRegex(ValueError, "writable"):
            self.tensor.into(bytes(size))
        with self.assertRaisesRegex(ValueError, "contiguous"):
            self.tensor.into(memoryview(bytearray(2 * size))[::2])

    def test_reads_large_tensors_in_pieces(self):
        from nxdkit import _tensor

        whole, _tensor.PIECE = _tensor.PIECE, 1000
        try:
            self.assertEqual(self.tensor.bytes(), self.data)
            part = self.tensor[5:, 1::3]
            ranges = [range(self.shape[0])[5:], range(self.shape[1])[1::3]]
            self.assertEqual(part.bytes(), workshop.cut(self.data, self.shape, ranges))
        finally:
            _tensor.PIECE = whole

    def test_gives_lists(self):
        values = self.tensor[:2, :3].tolist()
        self.assertEqual([len(row) for row in values], [3, 3])
        self.assertEqual(self.tensor[1, 2].tolist(), values[1][2])
        self.assertEqual(self.tensor[:2, :0].tolist(), [[], []])
        self.assertEqual(self.tensor[:0].tolist(), [])

    def test_explains_where_it_comes_from(self):
        self.assertIn("dp_rank_00_tp_rank_01_pp_rank_00", self.tensor.explain())

    def test_pickles_as_its_place(self):
        part = pickle.loads(pickle.dumps(self.tensor[3:9, ::2][1]))
        self.assertEqual(part.bytes(), self.tensor[4, ::2].bytes())

    def test_the_largest_steps_are_steps(self):
        with nxdkit.open(workshop.model()) as run:
            norm = run["model.norm.weight"]
            self.assertEqual(norm[:: 2**63].bytes(), norm[0:1].bytes())
            self.assertEqual(norm[:: 2**40][:: 2**40].bytes(), norm[0:1].bytes())

    def test_the_working_folder_may_change(self):
        before = os.getcwd()
        os.chdir(os.path.dirname(workshop.model()))
        try:
            run = nxdkit.open("model")
        finally:
            os.chdir(before)
        with run:
            self.assertEqual(run.path, workshop.model())
            self.assertEqual(run["model.norm.weight"].nbytes, len(run["model.norm.weight"].bytes()))


if __name__ == "__main__":
    unittest.main()
