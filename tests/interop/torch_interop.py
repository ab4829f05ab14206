"""Our torch archives against a real torch, both ways.

Usage: python torch_interop.py --bin-dir DIR [--large]    (DIR holds torch_probe)

Works with any torch from 1.13 on; --large adds files over 4 GiB (13 GB of disk, 5 GB of memory).
"""
import collections
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile

import torch

import interop
import torch_values
from torch_values import TensorReference, logical_bytes, to_json

warnings.filterwarnings("ignore")
torch_values.install_stubs()
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
MODERN = VERSION >= (2, 6)  # weights_only knows floats, references can be allowed, CRCs are checked


def probe(*arguments):
    program = interop.program("torch_probe")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def dump(path):
    done = probe("dump", path)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def load(path, **options):
    if MODERN:
        torch.serialization.add_safe_globals([TensorReference])
        return torch.load(path, weights_only=True, **options)
    return torch.load(path, **options)


def pattern(index, count, boolean):
    return bytes((131 * i + 17 * index + 7) & (1 if boolean else 255) for i in range(count))


def data_pkl(path):
    """The pickle record, found without zipfile's CRC check."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return archive.read(name)


class TorchReadsOurs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        done = probe("write", cls.folder.name)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def files(self):
        names = sorted(os.listdir(self.folder.name))
        self.assertGreaterEqual(len(names), 13)
        if VERSION < (2, 3):
            names.remove("dtypes.pt")  # _rebuild_tensor_v3
        return [os.path.join(self.folder.name, name) for name in names]

    def test_values(self):
        for path in self.files():
            with self.subTest(path):
                self.assertEqual(to_json(load(path)), dump(path))

    def test_tensors_have_the_bytes_that_were_written(self):
        for path in self.files():
            value = load(path)
            if not isinstance(value, dict) or os.path.basename(path) == "nested.pt":
                continue
            tensors = [item for item in value.values() if isinstance(item, torch.Tensor)]
            for index, tensor in enumerate(tensors):
                with self.subTest(f"{path} {index}"):
                    found = logical_bytes(tensor)
                    self.assertEqual(found, pattern(index, len(found), tensor.dtype == torch.bool))

    @unittest.skipIf(VERSION < (2, 1), "this torch has no mmap=True")
    def test_mapped(self):
        for path in self.files():
            with self.subTest(path):
                self.assertEqual(to_json(load(path, mmap=True)), dump(path))

    def test_python_reads_the_zip(self):
        for path in self.files():
            with self.subTest(path), zipfile.ZipFile(path) as archive:
                self.assertIsNone(archive.testzip())
                for info in archive.infolist():
                    self.assertEqual((info.flag_bits, info.compress_type), (0x0800, 0))

    def test_the_pickle_is_the_one_torch_writes(self):
        """Byte for byte, for the files that training and inference read."""
        names = [name for name in map(os.path.basename, self.files())
                 if name.startswith(("many_", "dtypes", "shapes", "tensor_"))]
        self.assertGreaterEqual(len(names), 10)
        for name in names + ["references.pt"]:
            path = os.path.join(self.folder.name, name)
            value = load(path)
            if isinstance(value, dict):  # equal strings must be one object, as they are when trained
                value = {key: item if isinstance(item, TensorReference) else item.clone()
                         for key, item in value.items()}
            again = io.BytesIO()
            torch.save(value, again)
            with self.subTest(name):
                self.assertEqual(data_pkl(path), data_pkl(again))


class Maker:
    """Random values of every kind that torch.save and we both know."""

    DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
              torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
              torch.complex128]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = []
        self.dtypes = list(self.DTYPES)
        if VERSION >= (2, 3):
            self.dtypes += [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn,
                            torch.float8_e5m2]

    def tensor(self, legacy):
        if self.made and self.random.random() < 0.4:
            return self.view(self.random.choice(self.made))
        dtype = self.random.choice(self.DTYPES if legacy else self.dtypes)
        shape = [self.random.randint(0, 4) for _ in range(self.random.randint(0, 4))]
        size = torch.empty((), dtype=dtype).element_size()
        count = size
        for dim in shape:
            count *= dim
        raw = torch.tensor([self.random.randrange(2 if dtype == torch.bool else 256)
                            for _ in range(count)], dtype=torch.uint8)
        tensor = raw.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)
        self.made.append(tensor)
        return tensor

    def view(self, tensor):
        kind = self.random.randrange(4)
        if kind == 0 or tensor.dim() == 0:
            return tensor
        if kind == 1:
            return tensor.permute(*self.random.sample(range(tensor.dim()), tensor.dim()))
        dim = self.random.randrange(tensor.dim())
        if kind == 2:
            return tensor.narrow(dim, 0, self.random.randint(0, tensor.shape[dim]))
        return tensor.unsqueeze(dim).expand(*tensor.shape[:dim], 2, *tensor.shape[dim:])

    def text(self):
        return "".join(self.random.choice("ab.\n\u00e4\u20ac\U0001f600\x00") for _ in range(6))

    def scalar(self):
        r = self.random
        return r.choice([
            None, True, False, r.randint(-300, 300), r.randint(-2**33, 2**33),
            r.randint(-2**70, 2**70), r.uniform(-1, 1), float("inf"), float("nan"), 5e-324,
            self.text(), bytes(r.randrange(256) for _ in range(5)), torch.Size([1, 2]),
            torch.bfloat16, 3 + 4j, {7}, bytearray(b"x"), torch.device("cpu"), TensorReference(9)])

    def value(self, depth, legacy):
        kind = self.random.randrange(6) if depth else 5
        items = range(self.random.randint(0, 5))
        if kind == 0:
            return [self.value(depth - 1, legacy) for _ in items]
        if kind == 1:
            return tuple(self.value(depth - 1, legacy) for _ in items)
        if kind == 2:
            return {self.text(): self.value(depth - 1, legacy) for _ in items}
        if kind == 3:
            return collections.OrderedDict((i, self.value(depth - 1, legacy)) for i in items)
        return self.tensor(legacy) if self.random.random() < 0.6 else self.scalar()


class WeReadTorchs(unittest.TestCase):
    def check(self, legacy, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "value.with.dots.pt")
            for seed in range(60):
                value = Maker(seed).value(4, legacy)
                try:
                    torch.save(value, path, **options)
                except RuntimeError as error:  # views of one storage under two dtypes
                    self.assertIn("view the same data as different types", str(error))
                    continue
                with self.subTest(f"seed {seed}"):
                    self.assertEqual(dump(path), to_json(value))

    def test_zip(self):
        self.check(legacy=False)

    def test_legacy(self):
        self.check(legacy=True, _use_new_zipfile_serialization=False)

    def test_newer_pickles(self):
        for protocol in (3, 4, 5):
            with self.subTest(f"protocol {protocol}"):
                self.check(legacy=False, pickle_protocol=protocol)

    def test_long_containers(self):
        """Picklers write these in portions of 1000."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pt")
            for size in (999, 1000, 1001, 2000):
                value = {"list": list(range(size)), "dict": {i: str(i) for i in range(size)},
                         "ordered": collections.OrderedDict((str(i), i) for i in range(size))}
                torch.save(value, path)
                self.assertEqual(dump(path), to_json(value))


class Large(unittest.TestCase):
    def setUp(self):
        if not interop.OPTIONS.large:
            self.skipTest("--large was not given")

    def test_torch_reads_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "large.pt")
            self.assertEqual(probe("large", path).returncode, 0)
            value = load(path, **({"mmap": True} if VERSION >= (2, 1) else {}))
            self.assertEqual(list(value), ["small", "large", "behind"])
            self.assertEqual(value["large"].shape[0], 2**32 + 5)
            self.assertEqual(int(value["large"].max()), 0)
            self.assertEqual(logical_bytes(value["small"]), pattern(0, 3, False))
            self.assertEqual(logical_bytes(value["behind"]), pattern(2, 3, False))

    def test_we_read_torchs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "large.pt")
            torch.save({"large": torch.zeros(2**32 + 5, dtype=torch.uint8), "behind": torch.arange(3)},
                       path)
            done = probe("open", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 tensors", done.stdout)
            done = probe("last", path)  # after the large one
            self.assertEqual(done.stdout.strip(), torch.arange(3).numpy().tobytes().hex())


if __name__ == "__main__":
    print(f"torch {torch.__version__}", file=sys.stderr)
    interop.main("--large")
