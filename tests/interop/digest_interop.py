"""ckpt-digest against its definition in formats/manifest/FORMAT.md, with hashlib and safetensors.

Usage: python digest_interop.py --bin-dir DIR   (DIR is tests/interop of the build; the commands lie
                                                 in DIR itself or in tools of the build)
"""

import hashlib
import json
import os
import struct
import subprocess
import tempfile
import unittest

from safetensors import safe_open

import interop

LEAF = 1 << 20


def sha256(data):
    return hashlib.sha256(data).digest()


def root(leaves):
    if not leaves:
        return sha256(b"")
    if len(leaves) == 1:
        return leaves[0]
    left = 1
    while left * 2 < len(leaves):
        left *= 2
    return sha256(b"\1" + root(leaves[:left]) + root(leaves[left:]))


def tree(data):
    return root([sha256(b"\0" + data[at:at + LEAF]) for at in range(0, len(data), LEAF)])


def line(name, dtype, shape, digest):
    name = name.encode()
    dims = ",".join(map(str, shape)).encode()
    return b"%s %s [%s] %d:%s\n" % (digest.hex().encode(), dtype.encode(), dims, len(name), name)


def tensors_of(path):
    """Name, dtype, shape and bytes of every tensor, read without the peer."""
    with open(path, "rb") as file:
        header_bytes = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(header_bytes))
        data = file.read()
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, entry["dtype"], entry["shape"], data[begin:end]


def digest_of(tensors):
    """The model's digest, and the root of each parameter."""
    roots = {name: (dtype, shape, tree(data)) for name, dtype, shape, data in tensors}
    lines = [line(name, *roots[name]) for name in sorted(roots, key=str.encode)]
    return sha256(b"nxdkit-model-digest 1\n" + b"".join(lines)).hex(), roots


def tool(name, *arguments):
    return subprocess.run([interop.program(name), *arguments], check=True, text=True,
                          capture_output=True).stdout


class Digest(unittest.TestCase):
    def check(self, folder, *layouts):
        path = os.path.join(folder, "model.safetensors")
        tensors = list(tensors_of(path))
        with safe_open(path, "pt") as file:
            self.assertEqual(sorted(file.keys()), sorted(row[0] for row in tensors))
        expected, roots = digest_of(tensors)
        report = json.loads(tool("ckpt-digest", "--json", folder))
        self.assertEqual(report["digest"], "sha256:" + expected)
        self.assertEqual({row["name"]: row["digest"] for row in report["tensors"]},
                         {name: "sha256:" + entry[2].hex() for name, entry in roots.items()})
        for layout in layouts:
            self.assertEqual(tool("ckpt-digest", layout), f"sha256:{expected}\n", layout)

    def test_bundles_of_the_reference(self):
        rollout = os.path.join(interop.SOURCE, "testdata", "rollout")
        self.check(os.path.join(rollout, "hf-qwen3"), os.path.join(rollout, "optimum"))
        self.check(os.path.join(rollout, "hf-qwen2"), os.path.join(rollout, "nxdi"))

    def test_tensors_of_several_leaves(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            config = os.path.join(folder, "config.json")
            with open(config, "w", encoding="ascii") as file:
                json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
                           "hidden_size": 328, "intermediate_size": 500, "num_hidden_layers": 1,
                           "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 41,
                           "vocab_size": 5002, "tie_word_embeddings": False,
                           "torch_dtype": "bfloat16"}, file)
            tool("nxdkit-make-model", "-q", "--config", config, "--out", model)
            shards = os.path.join(folder, "shards")
            tool("nxd-convert", "-q", "--no-sync", "--from", "hf", "--to", "nxd", "--tp", "2",
                 model, shards)
            self.check(model, shards)

    def test_manifest(self):
        folder = os.path.join(interop.SOURCE, "testdata", "rollout", "hf-qwen3")
        with open(os.path.join(interop.SOURCE, "testdata", "manifest", "qwen3.json"),
                  encoding="utf-8") as file:
            manifest = json.load(file)
        expected, roots = digest_of(tensors_of(os.path.join(folder, "model.safetensors")))
        self.assertEqual(manifest["model"]["digest"], "sha256:" + expected)
        for row in manifest["model"]["parameters"]:
            dtype, shape, digest = roots.pop(row["name"])
            self.assertEqual((row["dtype"], row["shape"], row["digest"]),
                             (dtype, shape, "sha256:" + digest.hex()))
        self.assertFalse(roots)
        for row in manifest["artifact"]["files"]:
            with open(os.path.join(folder, row["path"]), "rb") as file:
                data = file.read()
            self.assertEqual((row["bytes"], row["digest"]),
                             (len(data), "sha256:" + sha256(data).hex()))


if __name__ == "__main__":
    interop.main()
