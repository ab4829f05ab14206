"""Lets PyPI's torch run on a machine without CUDA, without its gigabytes of CUDA packages.

Usage: pip install --no-deps torch && pip install filelock typing-extensions sympy networkx jinja2 fsspec
       python torch_cpu_stubs.py STUBS_FOLDER
       LD_LIBRARY_PATH=STUBS_FOLDER python -c 'import torch'

On x86-64 Linux, PyPI has torch for CUDA only: its libraries need those of CUDA to be loaded, though
nothing of them is called. For each that is missing, this makes an empty library in STUBS_FOLDER, and one
in which every function that torch expects says error 100 (cudaErrorNoDevice). Needs gcc and binutils.
"""
import glob
import importlib.util
import os
import re
import subprocess
import sys

# The linker finds it on every machine that can run Python.
SYSTEM = {"libc", "libpthread", "libgcc_s", "libstdc++", "libm", "libdl", "librt", "libgomp", "libz",
          "libquadmath", "ld-linux-x86-64"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def stem(library):
    return library.split(".so")[0]


def survey(libraries):
    """The libraries they need and the symbols they lack, of all of them together."""
    needed, defined, undefined = set(), set(), set()
    for library in libraries:
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", library)))
        for line in output("nm", "-D", library).splitlines():
            kind, symbol = line.split()[-2:]
            (undefined if kind == "U" else defined).add(symbol.split("@")[0])
    return needed, undefined - defined


def system_symbols():
    """The symbols of the system's own libraries, as the linker finds them."""
    symbols = set()
    for line in output("ldconfig", "-p").splitlines():
        name, _, path = line.strip().partition(" => ")
        if stem(name.split()[0]) in SYSTEM and path:
            symbols |= {row.split()[-1].split("@")[0] for row in output("nm", "-D", path).splitlines()}
    return symbols


def main(folder):
    torch = importlib.util.find_spec("torch").submodule_search_locations[0]
    libraries = glob.glob(os.path.join(torch, "lib", "*.so*"))
    have = {os.path.basename(library) for library in libraries}
    needed, undefined = survey(libraries)
    missing = sorted(name for name in needed - have if stem(name) not in SYSTEM)
    symbols = sorted(symbol for symbol in undefined - system_symbols()
                     if not symbol.startswith(("_Z", "Py", "_Py", "_ITM", "__gmon", "__cxa")))
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(folder, "stubs.s")
    with open(source, "w", encoding="ascii") as out:
        out.write(".text\n")
        for symbol in symbols:
            out.write(f".globl {symbol}\n.type {symbol},@function\n{symbol}:\n mov $100,%eax\n ret\n")
    common = os.path.join(folder, "libtorch_cpu_stubs.so")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", common, source], check=True)
    for name in missing:
        subprocess.run(["gcc", "-shared", "-nostdlib", "-o", os.path.join(folder, name),
                        f"-Wl,-soname,{name}", "-Wl,--no-as-needed", common, "-Wl,-rpath,$ORIGIN"],
                       check=True)
    print(f"{len(missing)} libraries with {len(symbols)} functions in {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
