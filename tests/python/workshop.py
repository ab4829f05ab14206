"""Models and conversions of them for the tests, made once by the commands and removed at exit."""

import atexit
import contextlib
import itertools
import json
import os
import shutil
import signal
import tempfile
import threading
import warnings

import nxdkit

warnings.simplefilter("ignore", nxdkit.CheckpointWarning)

_folder = tempfile.mkdtemp(prefix="nxdkit-python-")
_owner = os.getpid()
_made = {}


@atexit.register
def _remove():
    if os.getpid() == _owner:
        shutil.rmtree(_folder, ignore_errors=True)


def fresh(name="output"):
    """A path at which nothing is."""
    return os.path.join(tempfile.mkdtemp(dir=_folder), name)


def model(family="qwen3", dtype="bf16", seed=1):
    """A tiny Hugging Face model."""
    key = (family, dtype, seed)
    if key not in _made:
        path = fresh("model")
        nxdkit.run("make-model", family=family, dtype=dtype, seed=seed, out=path)
        _made[key] = path
    return _made[key]


def converted(to, family="qwen3", **options):
    """The model in another layout."""
    key = (to, family, tuple(sorted(options.items())))
    if key not in _made:
        path = fresh(to)
        nxdkit.convert(model(family), path, to=to, **options)
        _made[key] = path
    return _made[key]


# Forms of one model, as (to, options).
FORMS = {
    "hf": {},
    "nxd": {"tp": 2},
    "nxd of 4 ranks": {"tp": 4, "kv_multiplier": 2, "hw": "trn1"},
    "nxd in stages": {"tp": 2, "pp": 2},
    "rollout": {"tp": 2, "bs": 1, "seq": 128},
    "torch": {},
    "dcp": {"chunks": 3},
    "fsdp": {"mesh": "dp=2"},
}


def form(name, family="qwen3"):
    return converted(name.split()[0], family, **FORMS[name])


def stored(folder):
    """name -> (dtype, shape, bytes) of the safetensors files of a folder, read by other means."""
    tensors = {}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, file), "rb") as opened:
            data = opened.read()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, row in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = row["data_offsets"]
                values = data[start + begin : start + end]
                tensors[name] = (row["dtype"], tuple(row["shape"]), values)
    return tensors


def cut(data, shape, key):
    """The bytes that data[key] has, element by element; key: a range for each dimension."""
    elements = 1
    for count in shape:
        elements *= count
    size = len(data) // max(1, elements)
    parts = []
    for index in itertools.product(*key):
        place = 0
        for i, count in zip(index, shape):
            place = place * count + i
        parts.append(data[place * size : place * size + size])
    return b"".join(parts)


def flip(path, offset, bit=1):
    """Damages one bit of a file."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bit]))


def weights_file(folder):
    return os.path.join(folder, "model.safetensors")


def copied(path):
    copy = fresh(os.path.basename(path))
    if os.path.isdir(path):
        shutil.copytree(path, copy)
    else:
        shutil.copy(path, copy)
    return copy


@contextlib.contextmanager
def interrupted_once(event):
    """Sends SIGINT to this process when `event` is set, as Ctrl-C does."""

    def send():
        event.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    event.set()
    thread.join()
