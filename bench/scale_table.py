"""The table of bench/scale.sh, and the model of trainer/SCALE.md fitted to it.

usage: python3 bench/scale_table.py FOLDER
"""
import glob
import json
import os
import re
import statistics
import struct
import sys

GBIT = 1e9 / 8


def in_use(machines):
    return min(machines, os.cpu_count())


def load(folder):
    runs = {}
    for path in glob.glob(os.path.join(folder, "run-*")):
        machines, link, overlap = re.fullmatch(r"run-(\d+)-(\w+)-(\w+)", os.path.basename(path)).groups()
        steps = {}
        with open(os.path.join(path, "experiment_log.jsonl")) as log:
            for line in log:
                record = json.loads(line)
                for group in ("timing_s", "perf"):
                    for key, value in record.get(group, {}).items():
                        steps.setdefault(record["step"], {})[f"{group}/{key}"] = value
        rows = [steps[s] for s in sorted(steps)][1:-1]  # the first warms up, the last saves
        keys = set().union(*rows)
        runs[int(machines), link, overlap == "true"] = {
            k: statistics.median(r.get(k, 0) for r in rows) for k in keys}
    return runs


def parameters(folder):
    total = 0
    for path in glob.glob(os.path.join(folder, "model", "*.safetensors")):
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        for name, tensor in header.items():
            if name != "__metadata__":
                count = 1
                for dim in tensor["shape"]:
                    count *= dim
                total += count
    return total


def fit(rows, times):
    """x of least squares for two features."""
    (a, b), (c, d) = [[sum(r[i] * r[j] for r in rows) for j in (0, 1)] for i in (0, 1)]
    u, v = [sum(r[i] * t for r, t in zip(rows, times)) for i in (0, 1)]
    return (d * u - b * v) / (a * d - b * c), (a * v - c * u) / (a * d - b * c)


def features(phase, n, megabytes):
    """Seconds are x0 * f0 + x1 * f1: computing, cut over the processors in use; and what grows with the machines."""
    p = in_use(n)
    if phase == "update_actor":  # bytes that all machines send and receive, by processors
        return 1 / p, 2 * (n - 1) * megabytes / p
    if phase == "gen":  # every machine loads all weights
        return 1 / p, n / p
    return 1 / p, 1


# Facts about trn1.32xlarge: formats/hardware; and assumptions about it, each explained in
# trainer/SCALE.md.
CORES, CORE_FLOPS, EFA, HBM = 32, 95e12, 800e9 / 8, 16 * 820 * 2**30
MFU, LINK_SHARE, DISK = 0.21, 0.5, 10e9


def extrapolate():
    """Seconds of a step of Qwen3-8B by the model, TP 8, bf16: half of the machines train, half of them generate."""
    params, tp, slots = 8.2e9, 8, 64
    sequences, prompt, response = 1024, 1024, 1024
    tokens = sequences * (prompt + response)
    print("\n| machines | update and old | sums, gathers | hidden | gen | sync | step | speedup over 2 | step with sums by machine |")
    print("|---|---|---|---|---|---|---|---|---|")
    first = None
    for machines in (2, 4, 8, 16, 32, 64):
        train = rollout = machines // 2
        compute = 8 * params * tokens / (train * CORES * CORE_FLOPS * MFU)
        away = (train - 1) / train
        # Every rank sends every other rank its share: 4 bytes of each gradient, 2 of each weight.
        ranks = CORES / tp  # for each tensor parallel rank on a machine
        sums, gathers = [x * ranks * params * away / (EFA * LINK_SHARE) for x in (4, 2)]
        hidden = min(sums, compute / 2 / 4)  # behind the last backward pass of four
        workers = rollout * CORES // tp
        waves = -(-sequences // (workers * slots))
        gen = waves * response * 2 * params / (HBM / (CORES / tp)) / 0.5
        sync = 2 * params * (1 + rollout) / DISK  # written once, read by every machine that generates
        step = compute + sums + gathers - hidden + gen + sync
        fewer = step - (sums - hidden) * (1 - 1 / ranks) - gathers * (1 - 1 / ranks)
        first = first or step
        print(f"| {machines} | {compute:.1f} | {sums + gathers:.1f} | {hidden:.1f} | {gen:.1f} | {sync:.1f} | {step:.1f} "
              f"| {first / step:.1f} of {machines // 2} | {fewer:.1f} |")


def main():
    folder = sys.argv[1]
    runs, count = load(folder), parameters(folder)
    size = 4 * count
    print(f"{count / 1e6:.1f} M parameters in f32, {size / 1e6:.0f} MB of gradients\n")
    print("| machines | link | overlap | step s | update | old | gen | sync | steps/s against 1 | sent MB | least MB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    one = runs[1, "fast", True]["timing_s/step"]
    for (n, link, overlap), row in sorted(runs.items()):
        t = {k: row.get("timing_s/" + k, 0) for k in ("step", "update_actor", "old", "gen", "sync")}
        sent, least = row.get("perf/sent_bytes", 0) / 1e6, 2 * (n - 1) / n * size / 1e6
        print(f"| {n} | {link} | {'yes' if overlap else 'no'} | {t['step']:.2f} | {t['update_actor']:.2f} | {t['old']:.2f} "
              f"| {t['gen']:.2f} | {t['sync']:.2f} | {one / t['step']:.2f} | {sent:.1f} | {least:.1f} |")
    megabytes = size / 1e6
    print(f"\nfitted to 1, 2 and 4 machines over the fast link, {os.cpu_count()} processors for all; checked against 3:")
    model = {}
    for phase in ("update_actor", "old", "gen"):
        rows = [features(phase, n, megabytes) for n in (1, 2, 4)]
        times = [runs[n, "fast", True]["timing_s/" + phase] for n in (1, 2, 4)]
        model[phase] = fit(rows, times)
        said = sum(x * f for x, f in zip(model[phase], features(phase, 3, megabytes)))
        found = runs[3, "fast", True]["timing_s/" + phase]
        print(f"  {phase}: {model[phase][0]:.4f}, {model[phase][1]:.5f}; 3 machines: {said:.3f} said, {found:.3f} found")
    compute = model["update_actor"][0]
    print("\nover 1 Gbit/s: the update by the model with the wire, all of it or what the backward pass does not hide")
    for n in (2, 3, 4):
        wire = (n - 1) / n * size / GBIT  # in one direction: reduce-scatter, then all-gather
        said = compute / in_use(n) + 2 * wire
        hidden = said - min(wire, 2 / 3 * compute / in_use(n))  # forward and backward are one to two
        found = [runs[n, "1gbit", o]["timing_s/update_actor"] for o in (False, True)]
        print(f"  {n} machines: after {said:.2f} said, {found[0]:.2f} found; overlapped {hidden:.2f} said, {found[1]:.2f} found")
    extrapolate()


if __name__ == "__main__":
    main()
