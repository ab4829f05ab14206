"""torch, numpy, safetensors and transformers beside it. tests/interop runs these where they are."""

import json
import os
import unittest
import warnings

import nxdkit
import workshop

try:
    import ml_dtypes
    import numpy
    import safetensors
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from error

NAME = "model.layers.0.self_attn.q_proj.weight"
# Every element type of torch, by safetensors' name.
TYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
}


def bits(tensor):
    """The bytes of a torch tensor, so that NaNs are equal, too."""
    return bytes(tensor.detach().contiguous().flatten().view(torch.uint8).numpy())


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is about to drop them
        return torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8)


def values_of(dtype, shape=(3, 4)):
    count = int(torch.tensor(shape).prod()) * dtype.itemsize
    raw = torch.arange(count, dtype=torch.int64) * 37 % 251
    if dtype == torch.bool:
        raw = raw % 2
    return raw.to(torch.uint8).view(dtype).reshape(shape)


class TensorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tensors = {word: values_of(dtype) for word, dtype in TYPES.items()}
        cls.tensors["scalar"] = torch.tensor(2.5)
        cls.tensors["empty"] = torch.zeros(0, 3, dtype=torch.bfloat16)
        path = workshop.fresh("types.safetensors")
        safetensors.torch.save_file(cls.tensors, path)
        cls.file = nxdkit.open(path)
        cls.path = path

    @classmethod
    def tearDownClass(cls):
        cls.file.close()

    def test_every_type_is_torchs(self):
        for name, expected in self.tensors.items():
            read = self.file[name].torch()
            self.assertEqual((read.dtype, read.shape), (expected.dtype, expected.shape), name)
            self.assertEqual(bits(read), bits(expected), name)
            read.reshape(-1)[:1].zero_()  # the memory is ours

    def test_every_type_is_numpys(self):
        with safetensors.safe_open(self.path, "np") as theirs:
            for name, tensor in self.tensors.items():
                read = self.file[name].numpy()
                self.assertEqual(read.shape, tuple(tensor.shape), name)
                self.assertEqual(read.tobytes(), bits(tensor), name)
                if name not in ("BF16", "empty") and not name.startswith("F8"):
                    self.assertEqual(read.dtype, theirs.get_tensor(name).dtype, name)
        self.assertEqual(self.file["BF16"].numpy().dtype, ml_dtypes.bfloat16)
        self.assertEqual(self.file["F8_E4M3"].numpy().dtype, ml_dtypes.float8_e4m3fn)
        self.assertEqual(numpy.asarray(self.file["F32"]).dtype, numpy.float32)

    def test_without_ml_dtypes_numpy_has_the_bits(self):
        import sys
        from unittest import mock

        from nxdkit import _tensor

        _tensor._told.clear()
        with mock.patch.dict(sys.modules, {"ml_dtypes": None}):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                first, second = self.file["BF16"].numpy(), self.file["BF16"].numpy()
        self.assertEqual((first.dtype, second.dtype), (numpy.uint16, numpy.uint16))
        self.assertEqual(first.tobytes(), bits(self.tensors["BF16"]))
        self.assertEqual(len(caught), 1)
        self.assertIn("pip install ml_dtypes", str(caught[0].message))

    def test_lists_are_torchs(self):
        for name in ("F32", "F16", "I64", "U8", "BOOL", "scalar", "empty"):
            expected = self.tensors[name].tolist()
            self.assertEqual(str(self.file[name].tolist()), str(expected), name)
        with self.assertRaisesRegex(TypeError, "no F8_E4M3"):
            self.file["F8_E4M3"].tolist()

    def test_parts_are_torchs(self):
        whole = self.tensors["F32"]
        for key in (0, -1, (slice(1, 3), 2), (..., slice(0, 4, 3)), slice(5, 9), (2, 3)):
            self.assertEqual(bits(self.file["F32"][key].torch()), bits(whole[key]), key)

    def test_a_default_device_does_not_matter(self):
        with torch.device("meta"):
            self.assertEqual(self.file["F32"].torch().device.type, "cpu")

    def test_reads_into_torch_and_numpy(self):
        place = torch.zeros(3, 4)
        self.file["F32"].into(place)
        self.assertEqual(bits(place), bits(self.tensors["F32"]))
        array = numpy.zeros((3, 4), ml_dtypes.bfloat16)
        self.file["BF16"].into(array)
        self.assertEqual(array.tobytes(), bits(self.tensors["BF16"]))
        with self.assertRaisesRegex(ValueError, "contiguous"):
            self.file["F32"].into(torch.zeros(4, 3).t())

    def test_reads_into_its_own_type_alone(self):
        with nxdkit.open(workshop.model()) as run:
            with self.assertRaisesRegex(ValueError, "float16, and the tensor of BF16"):
                run[NAME].into(torch.empty(run[NAME].shape, dtype=torch.float16))
            run[NAME].into(numpy.empty(run[NAME].shape, dtype=numpy.uint16))

    def test_a_data_loader_reads_in_its_workers(self):
        with nxdkit.open(workshop.form("nxd")) as run:
            rows = run[NAME]
            expected = [rows[i].torch() for i in range(len(rows))]
            for method in ("fork", "spawn"):
                loader = torch.utils.data.DataLoader(
                    Rows(rows), batch_size=None, num_workers=2, multiprocessing_context=method
                )
                with self.subTest(method):
                    read = list(loader)
                    self.assertTrue(all(torch.equal(a, b) for a, b in zip(read, expected)))
                    self.assertEqual(len(read), len(expected))


class Rows:
    """A data set of the rows of a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return len(self.tensor)

    def __getitem__(self, index):
        return self.tensor[index].torch()


class SourceTest(unittest.TestCase):
    def test_every_type_comes_from_torch(self):
        tensors = {word: values_of(dtype) for word, dtype in TYPES.items()}
        with nxdkit.Source(tensors) as source:
            for word, tensor in tensors.items():
                self.assertEqual(source[word].dtype, word)
                self.assertEqual(source[word].bytes(), bits(tensor))

    def test_strides_are_followed(self):
        base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
        tensors = {
            "transposed": base.permute(2, 0, 1),
            "stepped": base[:, ::2, 1:],
            "expanded": base[:1, :1, :1].expand(2, 3, 4),
            "parameter": torch.nn.Parameter(base.clone()).t()
            if base.ndim == 2
            else torch.nn.Parameter(base),
            "conjugate": torch.complex(base, base).conj(),
        }
        with nxdkit.Source(tensors) as source:
            for name, tensor in tensors.items():
                self.assertEqual(source[name].bytes(), bits(tensor.resolve_conj()), name)

    def test_numpy_arrays_are_read_in_place(self):
        array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
        tensors = {
            "plain": array,
            "transposed": array.T,
            "reversed": array[::-1],
            "bf16": array.astype(ml_dtypes.bfloat16),
            "scalar": numpy.float64(2),
            "readonly": numpy.frombuffer(b"abcd", numpy.uint8),
        }
        with nxdkit.Source(tensors) as source:
            for name, value in tensors.items():
                self.assertEqual(
                    source[name].bytes(), numpy.ascontiguousarray(value).tobytes(), name
                )
            self.assertEqual(source["bf16"].dtype, "BF16")
            array[0, 0] = 9
            self.assertEqual(source["plain"][0, 0].tolist(), 9)

    def test_refuses_what_is_not_in_this_memory(self):
        for value, message in (
            (torch.zeros(2, device="meta"), "meta has no values"),
            (torch.zeros(2, 2).to_sparse(), "sparse"),
            (quantized(), "qint8"),
            (numpy.array(["a"]), "not an element type"),
            (numpy.zeros(2, ">f4"), "not an element type"),
        ):
            with self.subTest(message), self.assertRaisesRegex(TypeError, f"^w: .*{message}"):
                nxdkit.Source({"w": value})

    def test_keeps_the_arrays_alive(self):
        source = nxdkit.Source({"w": torch.full((1000,), 7, dtype=torch.uint8)})
        torch.zeros(1000, dtype=torch.uint8)
        self.assertEqual(set(source["w"].bytes()), {7})

    def test_a_model_is_saved(self):
        model = transformers.AutoModelForCausalLM.from_pretrained(workshop.model())
        for to, options in (("hf", {}), ("nxd", {"tp": 2})):
            output = workshop.fresh()
            state = {
                k: v for k, v in model.state_dict().items() if k in nxdkit.open(workshop.model())
            }
            config = model.config.to_dict()
            nxdkit.save(state, output, to, config=config, dtype="bf16", **options)
            with nxdkit.open(output) as saved, nxdkit.open(workshop.model()) as stored:
                self.assertEqual(saved[NAME].bytes(), stored[NAME].bytes())


class SafetensorsTest(unittest.TestCase):
    def test_answers_as_safetensors_does(self):
        path = workshop.weights_file(workshop.model())
        for place in (path, workshop.model()):
            with safetensors.safe_open(path, framework="pt") as theirs:
                with nxdkit.safe_open(place, framework="pt") as ours:
                    self.assertEqual(ours.keys(), theirs.keys())
                    self.assertEqual(ours.metadata(), theirs.metadata())
                    for name in theirs.keys():
                        self.same(ours.get_tensor(name), theirs.get_tensor(name))
                    self.assertEqual(set(ours.get_tensors()), set(theirs.get_tensors()))
                    mine, other = ours.get_slice(NAME), theirs.get_slice(NAME)
                    self.assertEqual(mine.get_shape(), other.get_shape())
                    self.assertEqual(mine.get_dtype(), other.get_dtype())
                    for key in self.KEYS:
                        self.same(mine[key], other[key], key)

    KEYS = (
        0,
        -1,
        slice(1, 3),
        (slice(None), slice(None, None, 8)),
        (..., 2),
        slice(2, 1),
        [],
        (slice(None), [0, 2]),
        None,
        ...,
        (slice(1, 2), slice(0, 9999)),
        True,
    )

    def same(self, ours, theirs, key=None):
        self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape), key)
        self.assertEqual(bits(ours), bits(theirs), key)

    def test_every_form_is_loaded(self):
        expected = safetensors.torch.load_file(workshop.weights_file(workshop.model()))
        for name in workshop.FORMS:
            loaded = nxdkit.load_file(workshop.form(name))
            for key, tensor in loaded.items():
                self.same(tensor, expected[key], (name, key))
            self.assertTrue(set(expected) - set(loaded) <= {"lm_head.weight"})

    def test_devices_are_torchs(self):
        tensors = nxdkit.load_file(workshop.model(), device="meta")
        self.assertEqual({tensor.device.type for tensor in tensors.values()}, {"meta"})

    def test_numpy_is_a_framework(self):
        with nxdkit.safe_open(workshop.model(dtype="f32"), "numpy") as file:
            part = file.get_slice(NAME)[:, 3]
            self.assertEqual((type(part), part.dtype), (numpy.ndarray, numpy.float32))

    def test_several_files_are_one_dict(self):
        files = [workshop.model(), workshop.form("nxd")]
        self.assertEqual(set(nxdkit.load_files(files)), set(nxdkit.open(workshop.model())))


class TransformersTest(unittest.TestCase):
    def expected(self):
        return transformers.AutoModelForCausalLM.from_pretrained(workshop.model()).state_dict()

    def same(self, model):
        state = model.state_dict()
        for name, tensor in self.expected().items():
            self.assertEqual(state[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(state[name], tensor), name)

    def test_from_pretrained_reads_any_layout(self):
        real = safetensors.safe_open
        tokens = torch.arange(40).reshape(2, 20)
        plain = transformers.AutoModelForCausalLM.from_pretrained(workshop.model())
        logits = plain(tokens).logits
        for name in ("nxd", "rollout", "fsdp", "dcp", "hf"):
            with nxdkit.as_safetensors(workshop.form(name)) as folder:
                model = transformers.AutoModelForCausalLM.from_pretrained(folder)
            self.same(model)
            self.assertTrue(torch.equal(model(tokens).logits, logits), name)
            self.assertFalse(os.path.exists(folder))
            self.assertIs(safetensors.safe_open, real)
            self.assertIs(transformers.modeling_utils.safe_open, real)

    def test_other_files_are_safetensors_own_meanwhile(self):
        with nxdkit.as_safetensors(workshop.form("nxd")):
            self.same(transformers.AutoModelForCausalLM.from_pretrained(workshop.model()))

    def test_from_pretrained_takes_a_state_dict(self):
        config = transformers.AutoConfig.from_pretrained(workshop.model())
        state = nxdkit.load_file(workshop.form("nxd"))
        model = transformers.Qwen3ForCausalLM.from_pretrained(
            None, config=config, state_dict=state, dtype=torch.bfloat16
        )
        self.same(model)

    def test_the_tokenizer_comes_along(self):
        path = workshop.copied(workshop.model())
        with open(os.path.join(path, "tokenizer_config.json"), "w") as file:
            json.dump({"model_max_length": 77}, file)
        with nxdkit.as_safetensors(path) as folder:
            with open(os.path.join(folder, "tokenizer_config.json")) as file:
                self.assertEqual(json.load(file), {"model_max_length": 77})

    def test_a_checkpoint_without_a_configuration_is_refused(self):
        path = workshop.fresh("plain.safetensors")
        safetensors.torch.save_file({"w": torch.zeros(2)}, path)
        with self.assertRaisesRegex(nxdkit.UnsupportedError, "no configuration"):
            with nxdkit.as_safetensors(path):
                pass


if __name__ == "__main__":
    unittest.main()
