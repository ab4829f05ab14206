"""Eighty runs of FSDP rank files, made anew by the real torch, against what torch itself gathered
from them and against the mergers of verl and EasyR1.

    fsdp_generated.py --bin DIR --work DIR [--only SEED,...] [--keep] [--results FILE]
                      [--generator FOLDER] [--verl CHECKOUT] [--easyr1 CHECKOUT]
                      RELEASE=PYTHON...

Each seed of SEEDS stands for one run: options_of() draws the release of torch, the trainer, the
number of ranks, the mesh and what is odd about the model. FOLDER has the generator,
make_rank_files.py, whose options these are: it saves as the trainers do, and says what torch
gathered. For each run

- nxd-convert --to hf must give the gathered tensors, to the byte,
- nxd-convert --to dcp, read by torch.distributed.checkpoint, the gathered moments and steps,
- nxd-convert --to fsdp for another number of ranks a run that ckpt-diff --optimizer finds equal,
- ckpt-digest the same digest of the run, of the model and of the run that was cut anew.

The trainer's own merger, unchanged, then merges the run. It casts to BF16, so that ours is cast
before they are compared. Where it fails or is wrong the reason is printed: FAULTS knows those that
are expected. Exit 1 where ours is wrong, or a merger is in a way that is not in FAULTS.

    fsdp_generated.py --make PLAN --release RELEASE --generator FOLDER [--verl ...] [--easyr1 ...]

is the part of one release, in its own Python: torch starts once, each rank is a fork of it.
"""
import argparse
import collections
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import pickle
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import traceback
import types
import warnings

import fsdp_merger

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")

SEEDS = range(1, 81)
# Seeds for rare runs: release, options, other number of ranks.
FIXED = {
    75: ("newest", "--style verl --fsdp 2 --tp --world 4 --mesh 2x2 --family llama --vocab 99", 3),
    76: ("newest", "--style verl --fsdp 2 --tp --world 8 --mesh 4x2 --family qwen2"
                   " --intermediate 50 --dtype bfloat16 --label cuda", 5),
    77: ("2.6", "--style verl --fsdp 1 --world 2 --mesh 2x1 --family qwen3", 3),
    78: ("2.9", "--style verl --fsdp 1 --world 4 --mesh 4x1 --family llama --tied", 2),
    79: ("2.9", "--style verl --fsdp 1 --world 1 --family qwen2 --layers 3 --vocab 97", 4),
    80: ("2.6", "--style verl --fsdp 1 --world 9 --mesh 3x3 --family qwen2 --intermediate 45"
                " --mixed --role critic --label cuda", 7),
}
RELEASES = ("2.6", "2.9", "newest")
STEP = 2  # the generator's
TIMEOUT = 60  # seconds, for what takes one or two
# Known faults of the mergers, recognised by their message or result: the text, and the reason.
FAULTS = (
    ("zero-dimensional tensor", "a buffer of no dimension cannot be concatenated"),
    ("Unsupported mesh_dim_names", "a mesh of tensor parallelism is refused"),
    ("Need to initialize default process group", "a ShardedTensor is loaded only by a group"),
    ("times as long", "a buffer, whole on every rank, is there W times"),
)


# ------------------------------------------------------------ the runs

def options_of(seed):
    """The release of torch of one run, the options of the generator, another number of ranks."""
    if seed in FIXED:
        release, options, other = FIXED[seed]
        return release, f"{options} --seed {100 + seed}", other
    draw = random.Random(seed)
    chance = lambda p: draw.random() < p
    release = draw.choice(RELEASES)
    style = "easyr1" if chance(0.4) else "verl"
    fsdp = 1 if chance(0.75 if style == "easyr1" else 0.4) else 2
    world = draw.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9))
    said = [f"--style {style} --fsdp {fsdp} --world {world} --seed {100 + seed}",
            f"--layers {draw.choice((1, 2, 3))}"]
    tp = fsdp == 2 and release == "newest" and world % 2 == 0 and chance(0.5)
    # The generator's plan of tensor parallelism lacks the norms of qwen3's heads.
    said.append("--family " + draw.choice(("llama", "qwen2") + (() if tp else ("qwen3",))))
    copies = [n for n in range(1, world + 1) if world % n == 0]
    if fsdp == 1 and release == "newest":
        copies.remove(world)  # torch itself fails
    if tp:
        said.append(f"--tp --mesh {world // 2}x2")
    elif world > 1 and copies and chance(0.35):
        n = draw.choice(copies)
        said.append(f"--mesh {n}x{world // n}")
    if chance(0.5):
        said.append(f"--vocab {draw.choice((97, 99, 101, 103))}")
    if chance(0.5):
        said.append(f"--intermediate {draw.choice((37, 45, 50))}")
    said.append(draw.choice(("", "", "--kv-heads 1", "--kv-heads 4")))
    critic = not tp and chance(0.2)
    if critic:
        said.append("--role critic")
    elif not tp and chance(0.3):
        said.append("--tied")
    if chance(0.2):
        said.append("--buffers")
    if chance(0.3):
        kahan = style == "easyr1" and chance(0.6)
        said.append("--dtype bfloat16" + (" --optimizer adamw_bf16" if kahan else ""))
    if fsdp == 2:
        if not tp and chance(0.3):
            said.append("--placement divisible")
        if chance(0.25):
            said.append("--freeze " + draw.choice(("embed_tokens", "layers.0.", "norm")))
        if chance(0.25):
            said.append("--groups 2")
    else:
        parts = int(re.search(r"--mesh \d+x(\d+)|--world (\d+)", " ".join(reversed(said)))[0]
                    .replace("x", " ").split()[-1])
        original = parts > 1 and chance(0.35)  # torch shards nothing over one rank
        if original:
            said.append("--orig-params")
        if chance(0.35):
            said.append("--mixed")
        if chance(0.2):
            said.append("--freeze " + ("embed_tokens" if original else "layers.0."))
        if style == "easyr1" and not any("--mesh" in s for s in said) and chance(0.12):
            said.append("--no-mesh")
    if style == "easyr1" and chance(0.08):
        said.append("--model-only")
    if chance(0.4) and "--no-mesh" not in said:
        said.append("--label cuda")
    others = [n for n in range(1, 10) if n != world]
    return release, " ".join(s for s in said if s), draw.choice(others)


def entry_of(tensor):
    """As the generator describes a tensor, with a digest of 24 hexadecimal digits."""
    import torch
    tensor = tensor.detach().contiguous().cpu()
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape),
            "sha256": hashlib.sha256(data).hexdigest()[:24]}


# ------------------------------------------------------------ one release: make, merge

class Held:
    """A queue of one value: a pipe could be full before its reader comes."""

    def __init__(self, path):
        self.path = path

    def put(self, value):
        with open(self.path, "wb") as file:
            pickle.dump(value, file)

    def get(self):
        with open(self.path, "rb") as file:
            return pickle.load(file)


def load_generator(folder, work):
    import torch.multiprocessing as mp
    spec = importlib.util.spec_from_file_location(
        "make_rank_files", os.path.join(folder, "make_rank_files.py"))
    generator = importlib.util.module_from_spec(spec)
    sys.modules["make_rank_files"] = generator
    spec.loader.exec_module(generator)
    queue = types.SimpleNamespace(SimpleQueue=lambda: Held(os.path.join(work, "held")))
    generator.mp = types.SimpleNamespace(
        get_context=lambda method: queue,
        spawn=lambda worker, args, nprocs: mp.start_processes(
            worker, args=args, nprocs=nprocs, start_method="fork"))
    return generator


def apart(work):
    """Runs work() in a process of its own and ends what is left of it; its error in words."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        said = "the process ended"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                work()
            said = ""
        except BaseException as error:  # SystemExit too
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = (f"{type(error).__name__}: {error} "
                    f"({os.path.basename(where.filename)}:{where.lineno})")
        finally:
            os.write(sender, said.encode()[:4096])
            os._exit(0)
    os.close(sender)
    ready, _, _ = select.select([receiver], [], [], TIMEOUT)
    said = os.read(receiver, 4096).decode() if ready else f"no end after {TIMEOUT} seconds"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(receiver)
    return said


def make_one(generator, o, options, seed, folder):
    expected = generator.make(o, options, seed)
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file)


def merge_one(style, checkout, source, folder):
    from safetensors.torch import load_file
    with contextlib.redirect_stderr(io.StringIO()):
        target = fsdp_merger.merge(style, checkout, source, folder)
    found = load_file(os.path.join(target, "model.safetensors"))
    with open(os.path.join(folder, "merged.json"), "w", encoding="utf-8") as file:
        json.dump({"tensors": {name: entry_of(t) for name, t in found.items()}}, file)


def make(plan, given):
    """One line of the plan is SEED FOLDER OPTION...: expected.json and merged.json go to FOLDER."""
    import torch
    torch.set_num_threads(1)
    generator = load_generator(given.generator, os.path.dirname(plan))
    checkouts = {"verl": given.verl, "easyr1": given.easyr1}
    with open(plan, encoding="utf-8") as file:
        lines = [shlex.split(line) for line in file]
    for seed, folder, *words in lines:
        o = generator.parser().parse_args([os.path.join(folder, "run"), *words])
        generator.build_model(o)  # so that its modules are imported once
        for attempt in range(2):  # a gloo process may hang
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            failed = apart(lambda: make_one(generator, o, shlex.join(words), seed, folder))
            if not failed:
                break
        if failed:
            with open(os.path.join(folder, "failed"), "w", encoding="utf-8") as file:
                file.write(failed)
        elif checkouts[o.style]:
            source = source_of(folder, o.role)
            failed = apart(lambda: merge_one(o.style, checkouts[o.style], source, folder))
            if failed:
                with open(os.path.join(folder, "merged.json"), "w", encoding="utf-8") as file:
                    json.dump({"error": failed}, file)


def source_of(folder, role):
    return os.path.join(folder, "run", f"global_step_{STEP}", role)


# ------------------------------------------------------------ ours

AMBIGUOUS = "the sizes do not decide"  # of an optimizer by number, as it should be
CONVERT = ("nxd-convert", "--quiet", "--no-sync", "--from", "fsdp")


class Wrong(Exception):
    pass


def run_it(given, program, *arguments):
    done = subprocess.run([os.path.join(given.bin, program), *arguments], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise Wrong(f"{program} {shlex.join(arguments)}: exit {done.returncode}: "
                    f"{(done.stderr + done.stdout).strip()}")
    return done.stdout.strip()


def compare_model(expected, options, found):
    """Ours is what torch gathered; the second name of a tie is not saved a second time."""
    wanted = dict(expected["model"])
    if "--tied" in options and "--role critic" not in options:
        wanted.pop("lm_head.weight")
    if wanted.keys() != found.keys():
        raise Wrong(f"--to hf: other names: {sorted(wanted.keys() ^ found.keys())[:4]}")
    for name, tensor in found.items():
        if entry_of(tensor) != wanted[name]:
            raise Wrong(f"--to hf: {name}: {entry_of(tensor)}, torch gathered {wanted[name]}")


def read_checkpoint(folder):
    """Everything in a distributed checkpoint, as torch reads it."""
    import torch
    import torch.distributed.checkpoint as dcp
    known = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {key: torch.empty(value.size, dtype=value.properties.dtype)
             if hasattr(value, "properties") else None for key, value in known.items()}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state


def compare_optimizer(expected, state):
    """Moments, steps and options under optimizer.*: those that torch gathered, and no others."""
    wanted = {f"optimizer.state.{name}.{what}": value
              for name, values in expected["optimizer"]["state"].items()
              for what, value in values.items()}
    found = {key for key in state if key.startswith("optimizer.state.")}
    if wanted.keys() != found:
        raise Wrong(f"--to dcp: other state: {sorted(wanted.keys() ^ found)[:4]}")
    for key, value in wanted.items():
        if key.endswith(".step"):
            if float(state[key]) != value["value"]:
                raise Wrong(f"--to dcp: {key}: {float(state[key])}, was {value['value']}")
        elif entry_of(state[key]) != value:
            raise Wrong(f"--to dcp: {key}: {entry_of(state[key])}, torch gathered {value}")
    for group in expected["optimizer"]["param_groups"]:
        for name in group["params"]:
            for option in ("lr", "betas", "eps", "weight_decay"):
                key = f"optimizer.param_groups.{name}.{option}"
                value = state.get(key)
                value = list(value) if isinstance(value, (tuple, list)) else value
                if value != group[option]:
                    raise Wrong(f"--to dcp: {key}: {value}, was {group[option]}")


def check_model(given, folder, expected, options):
    """Returns our tensors."""
    from safetensors.torch import load_file
    out = os.path.join(folder, "hf")
    run_it(given, *CONVERT, "--to", "hf", os.path.join(folder, "run"), out)
    found = load_file(os.path.join(out, "model.safetensors"))
    compare_model(expected, options, found)
    return found


def check_checkpoint(given, folder, expected, options):
    out = os.path.join(folder, "dcp")
    run_it(given, *CONVERT, "--to", "dcp", os.path.join(folder, "run"), out)
    if "--model-only" not in options:
        compare_optimizer(expected, read_checkpoint(out))


def check_cut(given, folder, options, other):
    """For another number of ranks. Slices of parameters are not written: names are, then."""
    run, out = os.path.join(folder, "run"), os.path.join(folder, "cut")
    form = ("--for", "easyr1") if "--orig-params" in options else ()
    run_it(given, *CONVERT, "--to", "fsdp", "--mesh", f"dp={other}", *form, run, out)
    state = () if "--model-only" in options else ("--optimizer",)
    run_it(given, "ckpt-diff", "--quiet", *state, run, out)
    run_it(given, "ckpt-verify", "--quiet", out)


def check_digests(given, folder):
    """One digest of the run and of all that came of it."""
    names = [n for n in ("run", "hf", "cut") if os.path.exists(os.path.join(folder, n))]
    digests = {n: run_it(given, "ckpt-digest", "--quiet", os.path.join(folder, n)) for n in names}
    if len(set(digests.values())) > 1:
        raise Wrong(f"ckpt-digest: {digests}")
    return digests["run"]


def check_ours(given, folder, options, other):
    """The faults in words, our tensors, their digest, and why an optimizer was refused."""
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    wrong, found, refused = [], {}, ""
    for check, more in ((check_model, (expected, options)), (check_checkpoint, (expected, options)),
                        (check_cut, (options, other)), (check_digests, ())):
        try:
            found[check] = check(given, folder, *more)
        except Wrong as error:
            if "--freeze" in options and AMBIGUOUS in str(error):
                refused = ", which of equal layers is frozen cannot be told"
            else:
                wrong.append(str(error))
    return wrong, found.get(check_model), found.get(check_digests), refused


# ------------------------------------------------------------ the merger's

def compare_merged(ours, merged, world):
    """In words how the merged model differs from ours cast to BF16; nothing where it is equal."""
    import torch
    wanted = {name: entry_of(t.to(torch.bfloat16)) for name, t in ours.items()}
    if "lm_head.weight" in merged and "lm_head.weight" not in wanted:  # a tie, saved twice
        wanted["lm_head.weight"] = wanted["model.embed_tokens.weight"]
    said = []
    for name, want in wanted.items():
        got = merged.get(name)
        if got is None:
            said.append(f"{name} is not there")
        elif got["shape"] != want["shape"]:
            times = got["shape"][:1] == [n * world for n in want["shape"][:1]]
            said.append(f"{name} is {world} times as long" if times and world > 1 else
                        f"{name} has the shape {got['shape']}, not {want['shape']}")
        elif got != want:
            said.append(f"{name} has other values")
    said += [f"{name} is one too many" for name in merged.keys() - wanted.keys()]
    return said


def judge_merger(folder, ours, world):
    """A verdict in words, and whether it is one that is known."""
    path = os.path.join(folder, "merged.json")
    if not os.path.exists(path):
        return "not run", True
    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    if "error" in said:
        text = "fails: " + " ".join(said["error"].split())
    else:
        differences = compare_merged(ours, said["tensors"], world)
        if not differences:
            return "equal", True
        more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
        text = f"wrong: {sorted(differences)[0]}{more}"
    for mark, reason in FAULTS:
        if mark in text:
            return f"{text.split(':')[0]}: {reason}", True
    return text, False


# ------------------------------------------------------------ all of them

def make_all(given, runs):
    """A plan for each release, and its Python to make it."""
    plans = collections.defaultdict(list)
    for seed, (release, options, _) in runs.items():
        folder = os.path.join(given.work, str(seed))
        plans[release].append(f"{seed} {shlex.quote(folder)} {options}")
    for release, lines in plans.items():
        path = os.path.join(given.work, f"{release}.plan")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        command = [given.python[release], os.path.abspath(__file__), "--make", path,
                   "--release", release, "--generator", given.generator]
        for name in ("verl", "easyr1"):
            if getattr(given, name):
                command += ["--" + name, getattr(given, name)]
        with open(os.path.join(given.work, f"{release}.log"), "w", encoding="utf-8") as log:
            subprocess.run(command, stdout=log, stderr=log, check=False)


def judge(given, seed, options, other):
    """Our faults, words for the run, the merger's verdict, whether it is known, the digest."""
    folder = os.path.join(given.work, str(seed))
    if not os.path.exists(os.path.join(folder, "expected.json")):
        try:
            with open(os.path.join(folder, "failed"), encoding="utf-8") as file:
                reason = file.read()
        except OSError:
            reason = "see the log of its release"
        return [f"not made: {reason}"], "not made", "not run", True, None
    wrong, ours, digest, refused = check_ours(given, folder, options, other)
    world = int(re.search(r"--world (\d+)", options)[1])
    verdict, known = judge_merger(folder, ours, world) if ours else ("not compared", True)
    return wrong, "not equal" if wrong else "equal" + refused, verdict, known, digest


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("python", nargs="*", metavar="RELEASE=PYTHON")
    for name in ("make", "release", "generator", "verl", "easyr1", "bin", "work", "results",
                 "only"):
        parser.add_argument("--" + name)
    parser.add_argument("--keep", action="store_true", help="leave the runs that are right too")
    given = parser.parse_args()
    if given.make:
        make(given.make, given)
        return
    given.python = dict(word.split("=", 1) for word in given.python)
    seeds = [int(n) for n in given.only.split(",")] if given.only else SEEDS
    runs = {seed: options_of(seed) for seed in seeds}
    skipped = [seed for seed, run in runs.items() if run[0] not in given.python]
    if skipped:
        print(f"{len(skipped)} runs are skipped: no Python of their release of torch")
    runs = {seed: run for seed, run in runs.items() if seed not in skipped}
    make_all(given, runs)
    failed, verdicts, results = 0, collections.Counter(), {}
    for seed, (release, options, other) in runs.items():
        wrong, words, verdict, known, digest = judge(given, seed, options, other)
        right = known and not wrong
        verdicts["ours " + words] += 1
        verdicts["merger " + verdict] += 1
        failed += not right
        print(f"{'ok' if right else 'FAILED'}: {seed}: torch {release} {options} -> {other}: "
              f"ours {words}; merger {verdict}", *wrong, sep="\n    ", flush=True)
        results[seed] = {"torch": release, "options": options, "merger": verdict, "digest": digest}
        if right and not given.keep:
            shutil.rmtree(os.path.join(given.work, str(seed)), ignore_errors=True)
    for words, count in verdicts.most_common():
        print(f"{count:4} {words}")
    if given.results:
        with open(given.results, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
