"""Makes the torch archives of this folder, and says what is in them: see SOURCES.md.

    python make.py           with any torch: files into torch-<version>/, expectations into
                             torch-<version>/expect.json
    python make.py handmade  files that torch reads but does not write, into handmade/
"""
import collections
import io
import json
import os
import sys
import warnings
import zipfile

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "interop"))

import torch  # noqa: E402

import torch_values  # noqa: E402
from torch_values import InternalTensorReference, TensorReference, to_json  # noqa: E402

torch_values.install_stubs()
torch.manual_seed(0)
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64", "complex64", "complex128"]
NEW_DTYPES = ["uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu",
              "float8_e4m3fnuz", "float8_e5m2fnuz", "complex32"]


def of_dtype(name):
    """Six elements with bytes that are all different, but valid booleans."""
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.tensor([[True, False, False], [True, True, False]])
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.tensor([(37 * i + 11) % 256 for i in range(6 * size)], dtype=torch.uint8)
    if name == "complex32":
        return torch.view_as_complex(raw.view(torch.float16).reshape(6, 2)).reshape(2, 3)
    return raw.view(dtype).reshape(2, 3)


def dtypes():
    names = DTYPES + [name for name in NEW_DTYPES if VERSION >= (2, 1) and hasattr(torch, name)]
    return {name: of_dtype(name) for name in names}


def views():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    scalar = torch.tensor(2.5)
    return {
        "base": base,
        "rows": base[1:3],
        "block": base[1:3, 2:5],
        "every_other": base[::2, ::3],
        "transposed": base.t(),
        "column_major": torch.arange(6, dtype=torch.int16).reshape(3, 2).t().clone(),
        "expanded": torch.tensor([7, 8], dtype=torch.int32)[:1].expand(3, 2),
        "scalar": scalar,
        "element": base[2, 4],
        "empty": torch.empty(0, 3),
        "empty_slice": base[4:],
        "ones": torch.ones(1, 1, 5),
        "tied": base,
        "tied_too": base,
    }


def attributes():
    plain = torch.nn.Parameter(torch.arange(4, dtype=torch.float32))
    frozen = torch.nn.Parameter(torch.arange(4, dtype=torch.float32), requires_grad=False)
    out = collections.OrderedDict(plain=plain, frozen=frozen)
    if VERSION >= (2, 0):
        noted = torch.nn.Parameter(torch.arange(3, dtype=torch.bfloat16))
        noted.tensor_model_parallel = True
        tensor = torch.arange(5)
        tensor.partition_dim = 0
        out["noted"] = noted
        out["noted_tensor"] = tensor
    return out


def optimizer():
    """A real AdamW after one step, beside the plain values that trainers put in."""
    model = torch.nn.Linear(3, 2)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.ones(1, 3)).sum().backward()
    adam.step()
    return {
        "optimizer": adam.state_dict(),
        "shape_info": {0: torch.Size([2, 3]), 1: torch.Size([2])},
        "info": {0: {"dtype": torch.bfloat16, "shape": torch.Size([4]),
                     "expert_model_parallel": False}},
        "epoch": 3,
        "global_step": 2**31,
        "tokens": 2**62 + 1,
        "seed": 2**64 - 1,
        "loss": 0.1,
        "nothing": None,
        "flags": [True, False],
        "pair": (1, "two"),
        "args": {"name": "r\u00fcn \U0001f600", "bytes": b"\x00\x80\xff"},
        "ids": {1, 2, 3},
        "device": torch.device("cpu"),
        "z": 1 - 2j,
        "counts": collections.Counter("aab"),
        "raw": bytearray(b"abc"),
    }


def references():
    return {"model.embed_tokens.weight": TensorReference(0), "lm_head.weight": TensorReference(1),
            "far": TensorReference(300),
            "listed": [InternalTensorReference(2, torch.Size([2, 2]), torch.bfloat16, False)]}


def refused_values():
    """Values that torch saves and we refuse: name, value, what the message must say."""
    out = [
        ("sparse", {"w": torch.eye(3).to_sparse()}, "torch._utils._rebuild_sparse_tensor"),
        ("quantized", {"w": torch.quantize_per_tensor(torch.ones(4), 0.5, 1, torch.qint8)},
         "torch._utils._rebuild_qtensor"),
        ("module", torch.nn.Linear(2, 1), "torch.nn.modules.linear.Linear"),
        ("storage", {"w": torch.ones(2).storage()}, "bare storage"),
        ("code", {"f": os.getcwd}, "posix.getcwd"),
    ]
    if VERSION >= (2, 0):
        out.append(("conj", {"w": torch.ones(2, dtype=torch.complex64).conj()}, "conj bit"))
        out.append(("neg", {"w": torch.ones(2, dtype=torch.complex64).conj().imag}, "neg bit"))
        out.append(("meta", {"w": torch.ones(2, device="meta")}, "_rebuild_meta_tensor_no_storage"))
    return out


class Maker:
    def __init__(self, folder):
        self.folder = os.path.join(HERE, folder)
        os.makedirs(self.folder, exist_ok=True)
        self.expect = {}

    def save(self, name, value, **options):
        torch.save(value, os.path.join(self.folder, name), **options)
        self.expect[name] = {"value": to_json(value)}

    def refuse(self, name, text, code="unsupported"):
        self.expect[name] = {"error": code, "says": text}

    def write(self, name, contents, value):
        with open(os.path.join(self.folder, name), "wb") as out:
            out.write(contents)
        self.expect[name] = {"value": to_json(value)}

    def finish(self):
        with open(os.path.join(self.folder, "expect.json"), "w", encoding="utf-8") as out:
            json.dump({"torch": torch.__version__, "files": self.expect}, out, indent=1)
            out.write("\n")


def make_real():
    maker = Maker("torch-%d.%d" % VERSION)
    maker.save("dtypes.pt", dtypes())
    maker.save("views.pt", views())
    maker.save("attributes.pt", attributes())
    linear = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    maker.save("state_dict.pt", linear.state_dict())
    maker.save("optimizer.pt", optimizer())
    maker.save("bare.pt", torch.arange(6, dtype=torch.int8).reshape(2, 3))
    maker.save("nothing.pt", {})
    maker.save("references.pt", references())
    maker.save("protocol4.pt", optimizer(), pickle_protocol=4)
    maker.save("protocol5.pt", views(), pickle_protocol=5)
    maker.save("trainer.pt", {"model": {"w": torch.ones(2)}, "step": torch.tensor(5), "epoch": 1})
    legacy = {"_use_new_zipfile_serialization": False}
    maker.save("legacy.pt", views(), **legacy)
    maker.save("legacy_dtypes.pt", {name: of_dtype(name) for name in DTYPES}, **legacy)
    maker.save("legacy_optimizer.pt", optimizer(), **legacy)
    if VERSION >= (2, 6):
        torch.serialization.set_crc32_options(False)
        maker.save("without_crc.pt", {"w": torch.arange(4)})
        torch.serialization.set_crc32_options(True)
    for name, value, text in refused_values():
        torch.save(value, os.path.join(maker.folder, "refused_%s.pt" % name))
        maker.refuse("refused_%s.pt" % name, text)
    if VERSION < (2, 0):  # once is enough: it holds the path of torch's sources
        scripted = torch.jit.script(torch.nn.ReLU())
        torch.jit.save(scripted, os.path.join(maker.folder, "refused_script.pt"))
        maker.refuse("refused_script.pt", "TorchScript archive (a compiled model?)")
    maker.finish()


def records_of(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return [(name[len("archive/"):], archive.read(name)) for name in archive.namelist()]


def zip_of(records, method, folder="made by hand"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, contents in records:
            info = zipfile.ZipInfo("%s/%s" % (folder, name), (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            archive.writestr(info, contents)
    return buffer.getvalue()


def swapped(contents, unit):
    return b"".join(contents[i:i + unit][::-1] for i in range(0, len(contents), unit))


def make_handmade():
    maker = Maker("handmade")
    value = {"w": torch.arange(1000, dtype=torch.float32).reshape(50, 20) % 7, "b": torch.ones(3)}
    maker.write("deflated.pt", zip_of(records_of(value), zipfile.ZIP_DEFLATED), value)
    maker.write("unaligned.pt", zip_of(records_of(value), zipfile.ZIP_STORED), value)
    # What a big-endian machine writes: each number's bytes the other way round; a complex number
    # is two numbers.
    units = {"float32": 4, "complex64": 4, "float64": 8, "bfloat16": 2, "uint8": 1}
    value = {name: of_dtype(name) for name in units}
    records = []
    for name, contents in records_of(value):
        if name == "byteorder":
            contents = b"big"
        if name.startswith("data/"):
            contents = swapped(contents, list(units.values())[int(name[len("data/"):])])
        records.append((name, contents))
    assert ("byteorder", b"big") in records
    maker.write("big_endian.pt", zip_of(records, zipfile.ZIP_STORED), value)
    # A directory entry first, junk behind the end, a version without its line feed.
    value = {"w": torch.arange(5)}
    records = [("", b"")] + [(n, b"3" if n == "version" else c) for n, c in records_of(value)]
    maker.write("odd.pt", zip_of(records, zipfile.ZIP_STORED) + b"\xaa" * 100, value)
    # The start of a tar file, as torch wrote before 0.1.10.
    tar = b"sys_info".ljust(257, b"\0") + b"ustar\x00" + b"00"
    with open(os.path.join(maker.folder, "tar.pt"), "wb") as out:
        out.write(tar.ljust(1024, b"\0"))
    maker.refuse("tar.pt", "before version 0.1.10")
    maker.finish()


if __name__ == "__main__":
    if sys.argv[1:] == ["handmade"]:
        make_handmade()
    else:
        make_real()
