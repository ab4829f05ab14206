"""Writes a wheel of the commands: the programs, the shared libraries that not every Linux has, man pages,
completions, schemas, and a package that finds the commands. The same input makes the same bytes.

Programs become NAME.data/scripts, which pip puts on the environment's bin; the rest NAME.data/data, its prefix
(https://packaging.python.org/en/latest/specifications/binary-distribution-format/)."""

import argparse
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import zipfile

# What manylinux_2_34 lets a wheel expect of the system (PEP 600).
OF_THE_SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-x86-64)\.so\.")
OLDEST_LIBSTDCXX = (3, 4, 29)  # of GCC 11, as Amazon Linux 2023 has it
SUMMARY = "Checkpoint and artifact tools for RL training on AWS Trainium"


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(program: pathlib.Path) -> set[pathlib.Path]:
    """The shared libraries that a program needs and a system may lack, with those that these need."""
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
    """The newest version of GLIBC or GLIBCXX that any of the files asks for."""
    versions = {(0,)}
    for file in files:
        for version in re.findall(rf"\b{symbols}_([0-9.]+)", output_of("objdump", "-T", str(file))):
            versions.add(tuple(int(part) for part in version.split(".")))
    return max(versions)


def package_of(file: pathlib.Path) -> str:
    """Debian's package that a library or a header is of."""
    for path in (file.resolve(), file):
        for name in (path, pathlib.Path("/usr") / path.relative_to("/")):
            owner = subprocess.run(["dpkg-query", "-S", str(name)], capture_output=True, text=True)
            if owner.returncode == 0:
                return owner.stdout.split(":")[0]
    sys.exit(f"{file}: of no package, so its license is not known")


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


def metadata(version: str) -> bytes:
    return (f"Metadata-Version: 2.1\nName: nxdkit\nVersion: {version}\nSummary: {SUMMARY}\n"
            "Requires-Python: >=3.8\nLicense-File: LICENSE\n").encode()


def tree(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("version", "programs", "share", "package", "license", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--linked", nargs="*", default=[], help="libraries that are in the programs")
    args = parser.parse_args()
    programs = sorted(path for path in pathlib.Path(args.programs).iterdir() if path.is_file())
    libraries = sorted(set().union(*(libraries_of(program) for program in programs)))
    major, minor = newest("GLIBC", [*programs, *libraries])
    if newest("GLIBCXX", [*programs, *libraries]) > OLDEST_LIBSTDCXX:
        sys.exit("a newer libstdc++ is needed than every system with this glibc has")
    tag = f"py3-none-manylinux_{major}_{minor}_x86_64"
    base = f"nxdkit-{args.version}"
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("nxdkit-*.whl"):
        old.unlink()
    path = out / f"{base}-{tag}.whl"
    info = f"{base}.dist-info"
    wheel = Wheel(path, info)
    for file in tree(pathlib.Path(args.package)):
        wheel.add(f"nxdkit/{file.relative_to(args.package)}", file.read_bytes())
    for program in programs:
        wheel.add(f"{base}.data/scripts/{program.name.removesuffix('-portable')}", program.read_bytes(), 0o755)
    for library in libraries:
        wheel.add(f"{base}.data/data/share/nxdkit/lib/{library.name}", library.read_bytes())
    for package in sorted({package_of(file) for file in [*libraries, *map(pathlib.Path, args.linked)]}):
        copyright = pathlib.Path("/usr/share/doc") / package / "copyright"
        wheel.add(f"{info}/licenses/{package}.txt", copyright.read_bytes())
    for file in tree(pathlib.Path(args.share)):
        wheel.add(f"{base}.data/data/share/{file.relative_to(args.share)}", file.read_bytes())
    wheel.add(f"{info}/LICENSE", pathlib.Path(args.license).read_bytes())
    wheel.add(f"{info}/METADATA", metadata(args.version))
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: nxdkit\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close()
    print(path)


main()
