"""Forty ZeRO folders, made anew by the real DeepSpeed, against what its engines held and against
DeepSpeed's own zero_to_fp32.

    zero_generated.py --bin DIR --work DIR --generator FOLDER [--only SEED,...] [--keep]
                      [--results FILE]

Each seed of zero_runs.SEEDS stands for one run: zero_runs.options_of() draws the stage, the ranks
and what is odd. FOLDER has make_deepspeed.py, whose functions are used. For each run

- nxd-convert --to hf must give the weights of the live model, to the byte,
- nxd-convert --to dcp, read by torch.distributed.checkpoint, the masters, moments, steps and
  options of the live optimizer,
- ckpt-digest the same digest of the run and of the model.

zero_to_fp32 reads the run too, when it is made. Where it fails or leaves something out the reason
is printed: judge_theirs() knows those that are expected. Exit 1 where ours is wrong, or theirs is
in a way that is not expected.

    zero_generated.py --work DIR --generator FOLDER --write FOLDER

makes the runs and writes them down as generated.tar.zst and generated.json; no tool is run.
"""
import argparse
import collections
import glob
import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile

import zero_runs

CONVERT = ("nxd-convert", "--quiet", "--no-sync", "--from", "zero")
TIMEOUT = 120  # seconds, for what takes less than one
MOMENTS = ("exp_avg", "exp_avg_sq")


class Wrong(Exception):
    pass


class Refused(Wrong):
    """Exit 4: it is said that this is not supported."""


# ------------------------------------------------------------ ours

def run_it(given, program, *arguments):
    command = [os.path.join(given.bin, program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Wrong(f"{program} {shlex.join(arguments)}: no end after {TIMEOUT} seconds") from None
    if done.returncode:
        kind = Refused if done.returncode == 4 else Wrong
        raise kind(f"{program} {shlex.join(arguments)}: exit {done.returncode}: "
                   f"{(done.stderr + done.stdout).strip()}")
    return done.stdout.strip()


def entry_of(tensor):
    """Shape, dtype and digest as zero_runs.describe() gives them."""
    import torch
    tensor = tensor.detach().contiguous()
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return list(tensor.shape), str(tensor.dtype)[6:], hashlib.sha256(data).hexdigest()[:24]


def weight_of(entry):
    return entry["shape"], entry["dtype"], entry["weight"]


def master_of(entry):
    """A trained tensor in F32, or None."""
    return (entry["shape"], "float32", entry["f32"]) if entry["f32"] else None


def compare_names(form, truth, found, of_what):
    """Every tensor of the model is there. Second names, buffers and what has no elements may be."""
    needed = {name for name, entry in truth["tensors"].items() if entry["kind"] != "empty"}
    allowed = truth["tensors"].keys() | truth["buffers"].keys() | truth["tied"].keys()
    if needed - found:
        raise Wrong(f"{form}: {of_what} lacks {sorted(needed - found)[:4]}")
    if found - allowed:
        raise Wrong(f"{form}: {of_what} has besides {sorted(found - allowed)[:4]}")


def compare_tensors(form, truth, found, masters):
    """FOUND is by name. With MASTERS trained tensors are in F32 and frozen ones may be."""
    compare_names(form, truth, found.keys(), "the model")
    for name, tensor in found.items():
        entry = truth["tensors"].get(truth["tied"].get(name, name)) or truth["buffers"][name]
        right = [weight_of(entry)]
        if masters and entry.get("kind") == "trained":
            right = [master_of(entry)]
        elif masters and entry.get("f32"):
            right.append(master_of(entry))
        # A checkpoint calls tensors without elements F32, and no byte depends on it.
        if masters and tensor.numel() == 0:
            continue
        if entry_of(tensor) not in right:
            raise Wrong(f"{form}: {name}: {entry_of(tensor)}, the engine held {right}")


def check_model(given, folder, truth):
    from safetensors.torch import load_file
    out = os.path.join(given.work, "hf")
    shutil.rmtree(out, ignore_errors=True)
    run_it(given, *CONVERT, "--to", "hf", folder, out)
    found = {}
    for path in glob.glob(os.path.join(out, "*.safetensors")):
        found.update(load_file(path))
    compare_tensors("--to hf", truth, found, False)


def read_checkpoint(folder):
    """Everything in a distributed checkpoint, as torch reads it."""
    import torch
    import torch.distributed.checkpoint as dcp
    known = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {key: torch.empty(value.size, dtype=value.properties.dtype)
             if hasattr(value, "properties") else None for key, value in known.items()}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state


def compare_optimizer(truth, state):
    """Moments and steps under optimizer.state: those that the engine held, and no others. Stage 0
    saves no names, so that there nothing may be said of them."""
    trained = {n: e for n, e in truth["tensors"].items() if e["exp_avg"]}
    found = {key for key in state if key.startswith("optimizer.state.")}
    if truth["stage"] == 0 and not found:
        return
    wanted = {f"optimizer.state.{name}.{key}": (entry["shape"], "float32", entry[key])
              for name, entry in trained.items() for key in MOMENTS}
    steps = {f"optimizer.state.{name}.step" for name in trained}
    if found != wanted.keys() | steps:
        differ = found ^ (wanted.keys() | steps)
        raise Wrong(f"--to dcp: other state: {sorted(differ)[:4]}")
    for key, value in wanted.items():
        if entry_of(state[key]) != value:
            raise Wrong(f"--to dcp: {key}: {entry_of(state[key])}, the engine held {value}")
    for key in steps & found:
        if float(state[key]) != truth["step"]:
            raise Wrong(f"--to dcp: {key}: {float(state[key])}, was {truth['step']}")


def compare_options(truth, state):
    """Options of every parameter that has a state. elastic_checkpoint saves none of them."""
    must = truth["stage"] and "elastic_checkpoint" not in truth["what"] and truth["step"]
    for group in truth["groups"]:
        for name in group["names"]:
            for option in ("lr", "weight_decay", "betas", "eps"):
                key = f"optimizer.param_groups.{name}.{option}"
                if key not in state and not must:
                    continue
                value = state.get(key)
                value = list(value) if isinstance(value, (tuple, list)) else value
                if value != group[option]:
                    raise Wrong(f"--to dcp: {key}: {value}, was {group[option]}")


def check_checkpoint(given, folder, truth):
    out = os.path.join(given.work, "dcp")
    shutil.rmtree(out, ignore_errors=True)
    run_it(given, *CONVERT, "--to", "dcp", folder, out)
    state = read_checkpoint(out)
    compare_tensors("--to dcp", truth, {key: value for key, value in state.items() if
                                        hasattr(value, "dtype") and
                                        not key.startswith("optimizer.")}, True)
    compare_optimizer(truth, state)
    compare_options(truth, state)


def check_digests(given, folder, _):
    """One digest of the run and of the model that came of it."""
    digest = run_it(given, "ckpt-digest", "--quiet", folder)
    other = run_it(given, "ckpt-digest", "--quiet", os.path.join(given.work, "hf"))
    if digest != other:
        raise Wrong(f"ckpt-digest: {digest} of the run, {other} of --to hf")
    return digest


def check_ours(given, folder, truth):
    """The faults in words, the digest, and the allowed refusals: the optimizer of stage 0, which
    saves no names, and a model with parameters left out."""
    wrong, digest, refused = [], None, ""
    absent = [f"{name}: the parameter is stored nowhere" for name in truth["excluded"]]
    for check in (check_model, check_checkpoint, check_digests):
        try:
            digest = check(given, folder, truth)
        except Wrong as error:
            if isinstance(error, Refused) and truth["stage"] == 0 and check is check_checkpoint:
                refused = ", the optimizer refused"
            elif any(words in str(error) for words in absent):
                refused = ", refused as incomplete"
            else:
                wrong.append(str(error))
    return wrong, digest, refused


# ------------------------------------------------------------ theirs

def judge_theirs(truth):
    """The verdict of zero_to_fp32 in words, and whether it is one that is expected."""
    said = truth["zero_to_fp32"]
    if said == "equal":
        return said, True
    if truth["stage"] == 0 and said.startswith("TypeError: 'NoneType'"):
        return "fails: stage 0 has no param_shapes", True
    if said.endswith("is not a zero checkpoint"):
        return "fails: BF16_Optimizer says no zero_stage", True
    if said.startswith("lacks") and ";" not in said:
        reasons = set()
        for name in said.split(": ", 1)[1].split():
            entry = truth["tensors"].get(truth["tied"].get(name, name))
            if entry and entry["kind"] != "trained" and truth["stage"] == 1:
                reasons.add("what is frozen in stage 1")
            elif name in truth["tied"] and not truth["family"]:
                reasons.add("the second name of a module")
            else:
                return said, False
        return f"lacks {' and '.join(sorted(reasons))}", True
    return said, False


# ------------------------------------------------------------ all of them

def line_of(value):
    return json.dumps(value, ensure_ascii=False)


def text_of(runs):
    """generated.json, a line for each tensor."""
    lines = []
    for seed, truth in runs.items():
        parts = []
        for key, value in truth.items():
            if key in ("tensors", "buffers") and value:
                inner = ",\n".join(f"   {line_of(n)}: {line_of(e)}" for n, e in value.items())
                parts.append(f"  {line_of(key)}: {{\n{inner}}}")
            else:
                parts.append(f"  {line_of(key)}: {line_of(value)}")
        lines.append(f" {line_of(seed)}: {{\n" + ",\n".join(parts) + "}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_down(given, runs):
    """The folders in one archive without times and owners, and what is true of them."""
    def plain(info):
        info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
        info.mode = 0o755 if info.isdir() else 0o644
        return info

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for seed in runs:
            tar.add(os.path.join(given.work, f"seed_{int(seed):02}"), f"seed_{int(seed):02}",
                    filter=plain)
    os.makedirs(given.write, exist_ok=True)
    with open(os.path.join(given.write, "generated.tar.zst"), "wb") as file:
        subprocess.run(["zstd", "-19", "--long=24", "-q", "-c"], input=data.getvalue(),
                       stdout=file, check=True)
    kept = {seed: {key: value for key, value in truth.items() if key not in ("api", "shadow")}
            for seed, truth in runs.items()}
    with open(os.path.join(given.write, "generated.json"), "w", encoding="utf-8") as file:
        file.write(text_of(kept))


def proved(truth):
    """In words what is wrong with the truth itself: moments that are not near Adam's."""
    shadow = truth["shadow"]
    if shadow and shadow["distance"] > 0.1:
        return [f"the engine's moments are not those of the gradients: {shadow}"]
    return []


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("bin", "work", "generator", "only", "results", "write"):
        parser.add_argument("--" + name)
    parser.add_argument("--keep", action="store_true", help="leave the runs that are right too")
    given = parser.parse_args()
    given.work = os.path.abspath(given.work)
    seeds = [int(n) for n in given.only.split(",")] if given.only else list(zero_runs.SEEDS)
    zero_runs.make(given.generator, given.work, seeds)
    failed, verdicts, results, written = 0, collections.Counter(), {}, {}
    for seed in seeds:
        base = os.path.join(given.work, f"seed_{seed:02}")
        with open(base + ".json", encoding="utf-8") as file:
            truth = json.load(file)
        if "failed" in truth:
            skipped = truth["failed"].startswith("skipped")
            failed += not skipped
            verdicts["ours not made"] += 1
            print(f"{'skipped' if skipped else 'FAILED'}: {seed}: not made: {truth['failed']}")
            continue
        written[str(seed)] = truth
        wrong, digest, refused = proved(truth), None, ""
        if not given.write:
            found, digest, refused = check_ours(
                given, os.path.join(given.work, truth["folder"]), truth)
            wrong += found
        verdict, known = judge_theirs(truth)
        right = known and not wrong
        words = "not run" if given.write else "not equal" if wrong else "equal"
        words += refused
        verdicts["ours " + words] += 1
        verdicts["zero_to_fp32 " + verdict] += 1
        failed += not right
        print(f"{'ok' if right else 'FAILED'}: {seed}: {truth['what']}: ours {words}; "
              f"zero_to_fp32 {verdict}", *wrong, sep="\n    ", flush=True)
        results[seed] = {"what": truth["what"], "zero_to_fp32": verdict, "digest": digest}
        if right and not given.keep and not given.write:
            shutil.rmtree(base, ignore_errors=True)
    for words, count in verdicts.most_common():
        print(f"{count:4} {words}")
    if given.write:
        write_down(given, written)
    if given.results:
        with open(given.results, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
