"""Our safetensors reader and writer against the PyPI package, both ways.

Usage: python safetensors_interop.py --bin-dir DIR    (DIR holds safetensors_probe)
"""

import hashlib
import json
import os
import random
import subprocess
import tempfile
import unittest

import numpy as np
import torch
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch

import interop

# The beginnings of the package's messages, for each fault.
MESSAGES = {
    "header too small": "HeaderTooSmall",
    "header too large": "HeaderTooLarge",
    "invalid header length": "InvalidHeaderLength",
    "invalid UTF-8 in header": "InvalidHeader",
    "invalid JSON in header": "InvalidHeaderDeserialization",
    "invalid offset for tensor": "InvalidOffset",
    "overflow computing buffer size": "ValidationOverflow",
    "The slice is slicing for subbytes": "MisalignedSlice",
    "invalid shape, data type, or offset": "TensorInvalidInfo",
    "incomplete metadata": "MetadataIncompleteBuffer",
}

DTYPES = {  # header name -> torch dtype
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "U16": torch.uint16,
    "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "U32": torch.uint32,
    "F32": torch.float32, "C64": torch.complex64, "F64": torch.float64, "I64": torch.int64,
    "U64": torch.uint64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu, "F4": torch.float4_e2m1fn_x2,
}


def probe(*arguments):
    done = subprocess.run([interop.program("safetensors_probe"), *arguments],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"safetensors_probe {arguments[0]}: {done.stderr}")
    return done.stdout


def our_faults(paths):
    return probe("fault", *paths).split()


def package_fault(data):
    try:
        deserialize(data)
    except SafetensorError as error:
        text = str(error).removeprefix("Error while deserializing: ")
        for start, fault in MESSAGES.items():
            if text.startswith(start):
                return fault
        raise AssertionError(f"unknown message: {text}") from error
    return "None"


def raw(tensor):
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def random_tensor(rng, dtype, shape):
    """Any bytes, but 0 and 1 for bool. The shape is the header's: F4 holds two per byte."""
    torch_dtype = DTYPES[dtype]
    stored = list(shape)
    if dtype == "F4":
        stored[-1] //= 2
    data = rng.randbytes(int(np.prod(stored, dtype=np.int64)) * torch_dtype.itemsize)
    if dtype == "BOOL":
        data = bytes(b & 1 for b in data)
    if not data:
        return torch.empty(stored, dtype=torch_dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(torch_dtype).reshape(stored)


def random_set(rng):
    """name -> (header dtype, header shape, tensor)"""
    tensors = {}
    for i in range(rng.randint(0, 12)):
        dtype = rng.choice(list(DTYPES))
        shape = [rng.randint(0, 4) for _ in range(rng.randint(0, 4))]
        if dtype == "F4":
            shape = shape + [2 * rng.randint(0, 3)]
        name = rng.choice(["", "w", "caf\u00e9.", "\U0001f600", "\uffff", 'q"\\\n\x7f', "\u2028"]) + str(i)
        tensors[name] = (dtype, shape, random_tensor(rng, dtype, shape))
    return tensors


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_ours(self, tensors, metadata, name="ours.safetensors"):
        spec = {"metadata": metadata or {},
                "tensors": [{"name": key, "dtype": dtype, "shape": shape, "hex": raw(tensor).hex()}
                            for key, (dtype, shape, tensor) in tensors.items()]}
        with open(self.path("spec.json"), "w", encoding="utf-8") as file:
            json.dump(spec, file)
        if os.path.exists(self.path(name)):
            os.unlink(self.path(name))
        probe("write", self.path("spec.json"), self.path(name))
        return self.path(name)

    def bytes_of(self, path):
        with open(path, "rb") as file:
            return file.read()


class Exchange(Case):
    def test_same_bytes_as_the_package(self):
        rng = random.Random(1)
        for round_ in range(40):
            tensors = random_set(rng)
            metadata = rng.choice([None, {"format": "pt"}, {"k\u00e9\t": "v\u2028\x1f"}])
            theirs = self.path("theirs.safetensors")
            save_torch({k: t for k, (_, _, t) in tensors.items()}, theirs, metadata=metadata)
            ours = self.write_ours(tensors, metadata)
            self.assertEqual(self.bytes_of(ours), self.bytes_of(theirs), f"round {round_}")

    def test_two_metadata_entries_differ_in_order_only(self):
        tensors = {"a": ("F32", [2], random_tensor(random.Random(2), "F32", [2]))}
        metadata = {"z": "1", "a": "2", "m": "3"}
        theirs = self.path("theirs.safetensors")
        save_torch({"a": tensors["a"][2]}, theirs, metadata=metadata)
        ours = self.write_ours(tensors, metadata)
        self.assertEqual(sorted(self.bytes_of(ours)), sorted(self.bytes_of(theirs)))
        with safe_open(ours, framework="pt") as reader:
            self.assertEqual(reader.metadata(), metadata)

    def test_the_package_reads_what_we_write(self):
        rng = random.Random(3)
        for _ in range(20):
            tensors = random_set(rng)
            loaded = load_torch(self.write_ours(tensors, {"a": "1", "b": "2"}))
            self.assertEqual(sorted(loaded), sorted(tensors))
            for name, (dtype, _, tensor) in tensors.items():
                self.assertEqual(loaded[name].dtype, DTYPES[dtype])
                self.assertEqual(loaded[name].shape, tensor.shape)
                self.assertEqual(raw(loaded[name]), raw(tensor))

    def test_we_read_what_torch_writes(self):
        rng = random.Random(4)
        tensors = {f"t.{d}": (d, [3, 2, 2], random_tensor(rng, d, [3, 2, 2])) for d in DTYPES}
        theirs = self.path("theirs.safetensors")
        save_torch({k: t for k, (_, _, t) in tensors.items()}, theirs, metadata={"x": "1", "y": "2"})
        dump = json.loads(probe("dump", theirs))
        self.assertEqual(dump["metadata"], {"x": "1", "y": "2"})
        self.assertEqual(dump["tensors"], {
            name: {"dtype": dtype, "shape": shape, "sha256": sha256(raw(tensor))}
            for name, (dtype, shape, tensor) in tensors.items()})

    def test_we_read_what_numpy_writes(self):
        names = {"bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16",
                 "int32": "I32", "uint32": "U32", "int64": "I64", "uint64": "U64", "float16": "F16",
                 "float32": "F32", "float64": "F64", "complex64": "C64"}
        tensors = {n: np.arange(6).reshape(2, 3).astype(n) for n in names}
        tensors["big_endian"] = np.arange(4, dtype=">i4")  # the package swaps it
        save_numpy(tensors, self.path("np.safetensors"))
        dump = json.loads(probe("dump", self.path("np.safetensors")))["tensors"]
        self.assertEqual(sorted(dump), sorted(tensors))
        for name, array in tensors.items():
            little = array.astype(array.dtype.newbyteorder("<"))
            self.assertEqual(dump[name]["sha256"], sha256(little.tobytes()), name)
            self.assertEqual(dump[name]["dtype"], names.get(name, "I32"))
            self.assertEqual(dump[name]["shape"], list(array.shape))


def deviation(data):
    """Which of our deliberate deviations an accepted file may meet; None when none."""
    length = int.from_bytes(data[:8], "little")
    found = []

    def pairs(items):
        keys = [key for key, _ in items]
        if len(keys) != len(set(keys)):
            found.append("duplicate")
        return dict(items)

    header = json.loads(data[8:8 + length].decode("utf-8"), object_pairs_hook=pairs)
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if isinstance(entry, list):
            return "array entry"
        if isinstance(entry["dtype"], dict):
            return "map dtype"
        product = 1
        for dim in entry["shape"]:
            product *= dim
            if product >= 2**63 or dim >= 2**63:
                return "dims"
    return found[0] if found else None


class Differential(Case):
    def test_probe_table(self):
        probe("probes", self.folder)
        with open(self.path("table.json"), encoding="utf-8") as file:
            table = json.load(file)
        self.assertEqual(len(table), 155)
        paths = [self.path(row["id"] + ".safetensors") for row in table]
        for row, path, ours in zip(table, paths, our_faults(paths), strict=True):
            with self.subTest(row["id"]):
                self.assertEqual(package_fault(self.bytes_of(path)), row["reference"])
                expected = {"same": row["reference"], "strict": "InvalidHeaderDeserialization",
                            "unsupported": "unsupported"}[row["ours"]]
                self.assertEqual(ours, expected)

    def test_depth(self):
        for depth in (1, 60, 120, 123, 124, 125, 126, 127, 128, 129, 200):
            for opening, closing in (("[", "]"), ('{"k":', "}")):
                value = opening * depth + ("1" if opening != "[" else "") + closing * depth
                header = '{"t":{"x":' + value + ',"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
                data = len(header).to_bytes(8, "little") + header.encode() + b"x"
                path = self.path("depth")
                with open(path, "wb") as file:
                    file.write(data)
                self.assertEqual(our_faults([path]), [package_fault(data)], (depth, opening))

    # Every damaged copy must have the same outcome, fault included, in both.
    def test_random_damage(self):
        rng = random.Random(5)
        base = self.path("base.safetensors")
        pieces = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"1e3", b".5", b"\\u0041", b"\\",
                  b" ", b"\n", b"\x00", b"\xff", b"\xc3\xa9", b"null", b"true", b"18446744073709551616",
                  b"-0", b"1.0", b'"x":1,', b'"dtype":"U8",', b"F32", b"BF16", b"I64", b"00", b"\x7f", b"\x1f",
                  b'"__metadata__":{"a":"b"},', b"\\ud83d", b"\\ude00", b"/", b"\\/", b"1e400", b"1e-400"]
        data, paths, files = [], [], 0
        for _ in range(40):
            tensors = random_set(rng)
            save_torch({k: t for k, (_, _, t) in tensors.items()}, base,
                       metadata=rng.choice([None, {"format": "pt"}]))
            good = self.bytes_of(base)
            length = int.from_bytes(good[:8], "little")
            for _ in range(100):
                header = bytearray(good[8:8 + length])
                for _ in range(rng.randint(1, 3)):
                    at = rng.randint(0, len(header))
                    kind = rng.randint(0, 3)
                    if kind == 0:
                        header[at:at] = rng.choice(pieces)
                    elif kind == 1:
                        del header[at:at + rng.randint(1, 6)]
                    elif kind == 2:
                        header[at:at + 1] = rng.choice(pieces)
                    else:
                        other = rng.randint(0, len(header))
                        header[at:at] = header[other:other + rng.randint(1, 40)]
                changed = len(header).to_bytes(8, "little") + bytes(header) + good[8 + length:]
                path = self.path(f"{files}.safetensors")
                files += 1
                with open(path, "wb") as file:
                    file.write(changed)
                data.append(changed)
                paths.append(path)
        accepted = 0
        for changed, path, ours in zip(data, paths, our_faults(paths), strict=True):
            theirs = package_fault(changed)
            accepted += theirs == "None"
            if ours == theirs:
                continue
            if ours == "InvalidHeaderDeserialization" and theirs != "InvalidHeader":
                # A duplicate name hides the faults of all but the last copy in the package.
                self.assertIn(deviation(changed), ("duplicate", "array entry", "map dtype"),
                              (theirs, changed))
            else:
                self.assertEqual((ours, theirs, deviation(changed)), ("unsupported", "None", "dims"), changed)
        self.assertGreater(accepted, 50)
        self.assertLess(accepted, len(data) - 1000)


if __name__ == "__main__":
    interop.main()
