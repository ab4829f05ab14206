#!/usr/bin/env python3
"""Makes the NEFFs of this folder after formats/neff/FORMAT.md. They have the format's shape and
nothing to run. The same bytes every time."""
import gzip
import hashlib
import io
import os
import struct
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
MEMBERS = [
    ("kelf-a.json", b'{"version": "0.5"}\n'),
    ("neff.json", b'{"nodes": [{"name": "sg00"}]}\n'),
    ("sg00/def.json", b'{"var": {"input0": {"type": "input", "size": 64, "var_id": 0}}}\n'),
    ("sg00/pe.bin", bytes(range(64))),
    ("sg00/act.bin", b""),
]


def tar_of(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def neff(package, payload, uuid, name=b"toy"):
    if package == 2:
        digest = hashlib.md5(payload).digest() + b"0" * 16
    else:
        digest = hashlib.sha256(payload).digest()
    header = bytearray(1024)
    struct.pack_into("<5Q", header, 0, package, 1024, len(payload), 2, 0)
    header[40:168] = b"2.21.33363.0+82129205".ljust(128, b"\0")
    struct.pack_into("<I", header, 168, 1)
    header[172:204] = digest
    header[204:220] = uuid
    header[220:476] = name.ljust(256, b"\0")
    struct.pack_into("<I", header, 476, 2)
    struct.pack_into("<QI", header, 544, 1, 1)
    return bytes(header) + payload


def write(name, data):
    with open(os.path.join(HERE, name), "wb") as out:
        out.write(data)


if __name__ == "__main__":
    plain = tar_of(MEMBERS)
    write("toy.neff", neff(2, gzip.compress(plain, mtime=0), bytes(range(16))))
    write("plain.neff", neff(1, plain, bytes(range(16, 32)), b"plain"))
