"""The measurements of bench/python.sh, which has made the models."""

import argparse
import json
import os
import resource
import statistics
import struct
import subprocess
import time

import torch

import nxdkit

TP, RANK = 8, 3


def best_of(rounds, function):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times), statistics.median(times)


def header_of(path):
    """Offset of the data, and {name: (shape, begin, end)} of a safetensors file."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        rows = json.loads(file.read(size))
    rows.pop("__metadata__", None)
    return 8 + size, {name: (row["shape"], *row["data_offsets"]) for name, row in rows.items()}


def row_runs(start, shape, begin, end):
    """The rank's rows of a tensor: one run."""
    part = (end - begin) // TP
    return [(start + begin + RANK * part, part)]


def column_runs(start, shape, begin, end):
    """The rank's columns of a tensor: a run in every row."""
    row = (end - begin) // shape[0]
    part = row // TP
    return [(start + begin + i * row + RANK * part, part) for i in range(shape[0])]


def rank_slice(args):
    """vLLM's rank 3 of 8: projections that are cut by rows, and those that are cut by columns."""
    path = os.path.join(args.work, "hf", "model.safetensors")
    start, rows = header_of(path)
    rank = nxdkit.open(os.path.join(args.work, "hf")).rank("vllm", tp=TP, rank=RANK)
    cuts = {"cut by rows": (("qkv_proj", "gate_up_proj"), ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), row_runs),
            "cut by columns": (("o_proj", "down_proj"), ("o_proj", "down_proj"), column_runs)}
    for what, (theirs, ours, runs_of) in cuts.items():
        names = [name for name in rank if name.split(".")[-2] in theirs]
        runs = [run for name, row in rows.items() if name.split(".")[-2] in ours for run in runs_of(start, *row)]
        total = sum(size for _, size in runs)
        assert total == sum(rank[name].nbytes for name in names), what
        buffers = {name: bytearray(b"\1" * rank[name].nbytes) for name in names}
        seconds, _ = best_of(args.rounds, lambda: [rank[name].into(buffers[name]) for name in names])
        text = "".join(f"{offset} {size}\n" for offset, size in runs)
        limit = float(subprocess.run([args.limit, path], input=text, capture_output=True, text=True, check=True).stdout)
        print(f"rank {RANK} of {TP}, {what}: {total / 1e6:.0f} MB in {len(runs)} runs: {total / 1e9 / seconds:.2f} GB/s, "
              f"{limit / seconds:.2f} of pread ({total / 1e9 / limit:.2f} GB/s)")


def open_many(args):
    folder = os.path.join(args.work, "many")
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".safetensors"))
    seconds, _ = best_of(args.rounds, lambda: nxdkit.open(folder).close())
    headers, _ = best_of(args.rounds, lambda: [header_of(path) for path in files])
    print(f"open of {len(files)} files: {seconds * 1e3:.1f} ms; their headers alone in Python {headers * 1e3:.1f} ms, "
          f"ratio {seconds / headers:.2f}")


def sync_from_memory(args):
    bundle, model = os.path.join(args.work, "bundle"), os.path.join(args.work, "hf")
    state = {name: tensor.torch() for name, tensor in nxdkit.open(model).items()}
    size = sum(tensor.nbytes for tensor in state.values())
    options = {"to": "rollout", "into": True}
    for _ in range(2):  # then both slots exist
        nxdkit.convert(model, bundle, **options)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory, _ = best_of(args.rounds, lambda: nxdkit.convert(state, bundle, config=model, **options))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    files, _ = best_of(args.rounds, lambda: nxdkit.convert(model, bundle, **options))
    saved = os.path.join(args.work, "state.pt")
    torch_save, _ = best_of(min(3, args.rounds), lambda: torch.save(state, saved))
    os.remove(saved)
    print(f"{size / 1e9:.2f} GB from memory into a bundle: {memory:.3f} s, {files / memory:.2f} times as fast as from files "
          f"({files:.3f} s); torch.save alone {torch_save:.3f} s, {torch_save / memory:.1f} times as long; "
          f"peak memory grew by {grown / 1024:.0f} MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", required=True)
    args = parser.parse_args()
    rank_slice(args)
    open_many(args)
    sync_from_memory(args)


main()
