"""Writes one of the two wheels. The same input makes the same bytes.

nxdkit: the package with the library in it, and a small program for each command, which pip puts into the environment's
bin; nxdkit_train: the trainer, a program of its own, with the libraries that not every Linux has. Both have the man
pages, completions and schemas of their commands, and the licenses. Files of NAME.data/scripts go to the bin, files of
NAME.data/data to the prefix (https://packaging.python.org/en/latest/specifications/binary-distribution-format/)."""

import argparse
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import zipfile

# The libraries that manylinux_2_34 lets a wheel expect from the system (PEP 600).
OF_THE_SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-x86-64)\.so\.")
OLDEST_LIBSTDCXX = (3, 4, 29)  # from GCC 11, as on Amazon Linux 2023


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(program: pathlib.Path) -> set[pathlib.Path]:
    """The shared libraries that a program needs and a system may lack, with their dependencies."""
    found = set()
    for line in output_of("ldd", str(program)).splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if not arrow or OF_THE_SYSTEM.match(name):
            continue
        if not rest.startswith("/"):
            sys.exit(f"{program}: {name} is not found")
        found.add(pathlib.Path(rest.split(" (")[0]))
    return found


def newest(symbols: str, files: list[pathlib.Path]) -> tuple[int, ...]:
    """The newest version of GLIBC or GLIBCXX that any of the files requires."""
    versions = {(0,)}
    for file in files:
        for version in re.findall(rf"\b{symbols}_([0-9.]+)", output_of("objdump", "-T", str(file))):
            versions.add(tuple(int(part) for part in version.split(".")))
    return max(versions)


def package_of(file: pathlib.Path) -> str:
    """The Debian package of a library or a header."""
    for path in (file.resolve(), file):
        for name in (path, pathlib.Path("/usr") / path.relative_to("/")):
            owner = subprocess.run(["dpkg-query", "-S", str(name)], capture_output=True, text=True)
            if owner.returncode == 0:
                return owner.stdout.split(":")[0]
    sys.exit(f"{file}: belongs to no package, so its license is not known")


class Wheel:
    def __init__(self, path: pathlib.Path, info: str):
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self._info = info
        self._record = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        self._zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")

    def close(self) -> None:
        name = f"{self._info}/RECORD"
        self._record.append(f"{name},,")
        self._zip.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), "\n".join(self._record) + "\n")
        self._zip.close()


SUMMARIES = {
    "nxdkit": "Checkpoint and artifact tools for RL training on AWS Trainium",
    "nxdkit_train": "The GRPO trainer of nxdkit",
}
TRAINER = "grpo-train"


def metadata(name: str, version: str, url: str) -> bytes:
    return (f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\nSummary: {SUMMARIES[name]}\n"
            + (f"Home-page: {url}\n" if url else "")
            + "Requires-Python: >=3.8\nLicense-File: LICENSE\n").encode()


def tree(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def is_trainers(path: pathlib.Path) -> bool:
    return path.name.strip("_").split(".")[0] == TRAINER


def commands(stage: pathlib.Path) -> list[str]:
    return sorted(path.name for path in (stage / "bin").iterdir() if not is_trainers(path))


def add_library_and_commands(wheel: Wheel, base: str, args: argparse.Namespace) -> list[pathlib.Path]:
    """Returns the third-party libraries that were added."""
    package = pathlib.Path(args.package)
    for file in tree(package):
        wheel.add(f"nxdkit/{file.relative_to(package)}", file.read_bytes())
    library = pathlib.Path(args.shared_object)
    needed = sorted(libraries_of(library))
    wheel.add("nxdkit/libnxdkit.so.1", library.read_bytes())
    for other in needed:
        wheel.add(f"nxdkit/{other.name}", other.read_bytes())
    wheel.add("nxdkit/include/nxdkit.h", pathlib.Path(args.header).read_bytes())
    launcher = pathlib.Path(args.launcher)
    for name in commands(pathlib.Path(args.stage)):
        wheel.add(f"{base}.data/scripts/{name}", launcher.read_bytes(), 0o755)
    return needed


def add_trainer(wheel: Wheel, base: str, args: argparse.Namespace) -> list[pathlib.Path]:
    program = pathlib.Path(args.trainer)
    needed = sorted(libraries_of(program))
    wheel.add(f"{base}.data/scripts/{TRAINER}", program.read_bytes(), 0o755)
    for library in needed:
        wheel.add(f"{base}.data/data/share/nxdkit/lib/{library.name}", library.read_bytes())
    if args.plugin:  # MPI itself is the cluster's
        plugin = pathlib.Path(args.plugin)
        wheel.add(f"{base}.data/data/lib/nxdkit/{plugin.name}", plugin.read_bytes())
    return needed


def asked_of_the_system(args: argparse.Namespace) -> list[pathlib.Path]:
    """The wheel's own binaries: their symbols determine how old a system may be."""
    if args.trainer:
        own = [pathlib.Path(args.trainer)]
        return [*own, *sorted(libraries_of(own[0])), *([pathlib.Path(args.plugin)] if args.plugin else [])]
    own = [pathlib.Path(args.shared_object), pathlib.Path(args.launcher)]
    return [*own, *sorted(libraries_of(own[0]))]


def tag_of(files: list[pathlib.Path]) -> str:
    major, minor = newest("GLIBC", files)[:2]
    if newest("GLIBCXX", files) > OLDEST_LIBSTDCXX:
        sys.exit("a newer libstdc++ is needed than every system with this glibc has")
    return f"py3-none-manylinux_{major}_{minor}_x86_64"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("version", "license", "out", "stage"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("shared-object", "launcher", "header", "package", "trainer", "plugin"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--url", default="", help="where the project is published")
    parser.add_argument("--linked", nargs="*", default=[], help="libraries that are in the programs")
    args = parser.parse_args()
    name = "nxdkit_train" if args.trainer else "nxdkit"
    tag = tag_of(asked_of_the_system(args))
    base = f"{name}-{args.version}"
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"{name}-*.whl"):
        old.unlink()
    path = out / f"{base}-{tag}.whl"
    info = f"{base}.dist-info"
    wheel = Wheel(path, info)
    others = (add_trainer if args.trainer else add_library_and_commands)(wheel, base, args)
    for package in sorted({package_of(file) for file in [*others, *map(pathlib.Path, args.linked)]}):
        copyright = pathlib.Path("/usr/share/doc") / package / "copyright"
        wheel.add(f"{info}/licenses/{package}.txt", copyright.read_bytes())
    share = pathlib.Path(args.stage) / "share"
    for file in tree(share):
        if is_trainers(file) == bool(args.trainer):
            wheel.add(f"{base}.data/data/share/{file.relative_to(share)}", file.read_bytes())
    wheel.add(f"{info}/LICENSE", pathlib.Path(args.license).read_bytes())
    wheel.add(f"{info}/METADATA", metadata(name, args.version, args.url))
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: nxdkit\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close()
    print(path)


main()
