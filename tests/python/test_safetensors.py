"""safetensors' interface, as far as it goes without torch and numpy."""

import unittest

import nxdkit
import workshop


class SafeOpenTest(unittest.TestCase):
    def test_lists_names_and_shapes(self):
        expected = workshop.stored(workshop.model())
        with nxdkit.safe_open(workshop.form("nxd"), "pt", device="cpu", backend="pread") as file:
            self.assertEqual(file.keys(), sorted(file.offset_keys()))
            self.assertTrue(set(file.keys()) <= set(expected))
            for name in file.keys():
                part = file.get_slice(name)
                dtype, shape, _ = expected[name]
                self.assertEqual((part.get_dtype(), part.get_shape()), (dtype, list(shape)))

    def test_has_the_metadata_of_the_file(self):
        with nxdkit.safe_open(workshop.weights_file(workshop.model()), framework="pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})

    def test_refuses_other_frameworks_and_backends(self):
        with self.assertRaisesRegex(nxdkit.UnsupportedError, "'mlx' is not one of pt"):
            nxdkit.safe_open(workshop.model(), "mlx")
        with self.assertRaisesRegex(ValueError, "'tape' is not mmap or pread"):
            nxdkit.safe_open(workshop.model(), "pt", backend="tape")

    def test_a_name_that_is_not_there_is_a_key_error(self):
        with nxdkit.safe_open(workshop.model(), "np") as file:
            for ask in (file.get_tensor, file.get_slice):
                with self.assertRaisesRegex(KeyError, "no tensor 'nothing'"):
                    ask("nothing")


if __name__ == "__main__":
    unittest.main()
