"""Fifty checkpoints of Megatron-Core, made anew by the real program, against their tensors.

    megatron_generated.py --bin DIR --work DIR [--only SEED,...] [--keep] [--generator FOLDER]
                          [--made ARCHIVE] [--json FILE] RELEASE=PYTHON...

Each seed of megatron_runs.RUNS stands for one run: the release of megatron-core, the family, the
ranks, the optimizer, the folders around it. FOLDER has the generator, make_megatron.py; a PYTHON
for each release makes its runs. With --made nothing is made: the runs of testdata are unpacked,
whose truth is generated.json beside the archive. For each run

- nxd-convert --to hf must give the Hugging Face tensors, to the byte,
- nxd-convert --to dcp, read by torch.distributed.checkpoint, the masters (the weights where there
  are none), the moments and the steps that torch's AdamW has, and no others,
- ckpt-digest the same digest of the run and of the model.

--json writes what must come of the runs as generated.json has it. Exit 1 where ours is wrong.
"""
import argparse
import collections
import glob
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import warnings

import megatron_runs

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")

CONVERT = ("nxd-convert", "--quiet", "--no-sync", "--from", "megatron-dist")


class Wrong(Exception):
    pass


def run_it(given, program, *arguments):
    done = subprocess.run([os.path.join(given.bin, program), *arguments], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise Wrong(f"{program} {shlex.join(arguments)}: exit {done.returncode}: "
                    f"{(done.stderr + done.stdout).strip()}")
    return done.stdout.strip()


def digest_of(tensor):
    import torch
    tensor = tensor.detach().contiguous().cpu()
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return hashlib.sha256(data).hexdigest()[:24]


def compare(what, name, tensor, shape, dtype, digest):
    found = [list(tensor.shape), str(tensor.dtype)[6:], digest_of(tensor)]
    if found != [shape, dtype, digest]:
        raise Wrong(f"{what}: {name}: {found}, must be {[shape, dtype, digest]}")


def same_names(what, wanted, found):
    if wanted != found:
        raise Wrong(f"{what}: missing: {sorted(wanted - found)[:4]}, "
                    f"too many: {sorted(found - wanted)[:4]}")


# ------------------------------------------------------------ ours

def check_model(given, run, folder, expected):
    from safetensors.torch import load_file
    out, found = os.path.join(folder, "hf"), {}
    run_it(given, *CONVERT, "--to", "hf", run, out)
    for path in glob.glob(os.path.join(out, "*.safetensors")):
        found.update(load_file(path))
    same_names("--to hf", set(expected["tensors"]), set(found))
    for name, entry in expected["tensors"].items():
        compare("--to hf", name, found[name], entry["shape"], entry["dtype"], entry["weight"])


def read_checkpoint(folder):
    """Everything in a distributed checkpoint, as torch reads it."""
    import torch
    import torch.distributed.checkpoint as dcp
    known = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {key: torch.empty(value.size, dtype=value.properties.dtype)
             if hasattr(value, "properties") else None for key, value in known.items()}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state


def trained(expected):
    """The tensors of a model in transformers: layers of multi-token prediction are carried beside it,
    and a checkpoint has no place for them."""
    beside = f"model.layers.{expected['config']['num_hidden_layers']}."
    return {name: entry for name, entry in expected["tensors"].items()
            if not name.startswith(beside)}


def check_checkpoint(given, run, folder, expected):
    tensors = trained(expected)
    out = os.path.join(folder, "dcp")
    run_it(given, *CONVERT, "--to", "dcp", run, out)
    state = read_checkpoint(out)
    if expected["config"]["tie_word_embeddings"]:  # the second name of a tie may be there
        for at in ("", "optimizer.state."):
            for key in [key for key in state if key.startswith(at + "lm_head.weight")]:
                first = key.replace("lm_head", "model.embed_tokens")
                if digest_of(state.pop(key)) != digest_of(state[first]):
                    raise Wrong(f"--to dcp: {key} is not {first}")
    same_names("--to dcp", set(tensors),
               {key for key in state if not key.startswith("optimizer.")})
    moments = set()
    for name, entry in tensors.items():
        dtype = "float32" if entry["f32"] else entry["dtype"]
        compare("--to dcp", name, state[name], entry["shape"], dtype,
                entry["f32"] or entry["weight"])
        at = f"optimizer.state.{name}."
        for key in ("exp_avg", "exp_avg_sq"):
            if entry[key]:
                moments.update({at + key, at + "step"})
    same_names("--to dcp", moments, {key for key in state if key.startswith("optimizer.state.")})
    for key in moments:
        name, what = key[len("optimizer.state."):].rsplit(".", 1)
        entry = tensors[name]
        if what != "step":
            compare("--to dcp", key, state[key], entry["shape"], "float32", entry[what])
        elif float(state[key]) != expected["steps"]:
            raise Wrong(f"--to dcp: {key}: {float(state[key])}, was {expected['steps']}")


def check_digests(given, run, folder, expected):
    """One digest of the run and of the model that came of it."""
    del expected
    digests = {name: run_it(given, "ckpt-digest", "--quiet", at)
               for name, at in (("run", run), ("hf", os.path.join(folder, "hf")))
               if os.path.exists(at)}
    if len(set(digests.values())) > 1:
        raise Wrong(f"ckpt-digest: {digests}")


def check_ours(given, run, folder, expected):
    wrong = []
    for check in (check_model, check_checkpoint, check_digests):
        try:
            check(given, run, folder, expected)
        except Wrong as error:
            wrong.append(str(error))
        shutil.rmtree(os.path.join(folder, "dcp"), ignore_errors=True)
    return wrong


# ------------------------------------------------------------ all of them

def make_all(given, seeds):
    """A plan for each release, and its Python to make it."""
    plans = collections.defaultdict(list)
    for seed in seeds:
        folder = os.path.join(given.work, f"seed_{seed:02d}")
        plans[megatron_runs.RUNS[seed].split()[0]].append(f"{seed} {shlex.quote(folder)}")
    script = os.path.abspath(megatron_runs.__file__)
    for release, lines in plans.items():
        path = os.path.join(given.work, f"{release}.plan")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        with open(os.path.join(given.work, f"{release}.log"), "w", encoding="utf-8") as log:
            subprocess.run([given.python[release], script, "--make", path, "--generator",
                            given.generator], stdout=log, stderr=log, check=False)


def unpack(given, seeds):
    """The runs of an archive, and what must come of them, as if they had been made."""
    subprocess.run(["tar", "--zstd", "-xf", os.path.abspath(given.made), "-C", given.work],
                   check=True)
    beside = os.path.join(os.path.dirname(os.path.abspath(given.made)), "generated.json")
    with open(beside, encoding="utf-8") as file:
        said = json.load(file)
    for seed in seeds:
        name = f"seed_{seed:02d}"
        folder = os.path.join(given.work, name)
        os.rename(folder, folder + ".run")
        os.mkdir(folder)
        os.rename(folder + ".run", os.path.join(folder, "run"))
        entry = {**said[name], "folder": said[name]["folder"][len(name) + 1:]}
        with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
            json.dump(entry, file)


def judge(given, seed):
    """Our faults, words for the run, the expected result."""
    folder = os.path.join(given.work, f"seed_{seed:02d}")
    failed = os.path.join(folder, "failed")
    if os.path.exists(failed) or not os.path.exists(os.path.join(folder, "expected.json")):
        reason = "see the log of its release"
        if os.path.exists(failed):
            with open(failed, encoding="utf-8") as file:
                reason = file.read()
        return [f"not made: {reason}"], megatron_runs.RUNS[seed], None
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    run = os.path.join(folder, "run", expected["folder"]).rstrip("/")
    return check_ours(given, run, folder, expected), expected["what"], expected


def write_json(path, all_expected):
    """A line for each tensor."""
    entries = []
    for seed, entry in all_expected.items():
        name = f"seed_{seed:02d}"
        folder = name + ("/" + entry["folder"] if entry["folder"] else "")
        head = {**entry, "folder": folder}
        tensors = ",\n   ".join(f"{json.dumps(key)}: {json.dumps(value)}"
                                for key, value in head.pop("tensors").items())
        head.pop("orders", None)
        entries.append(f'{json.dumps(name)}: {json.dumps(head)[:-1]}, "tensors": {{\n   '
                       f"{tensors}}}}}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n " + ",\n ".join(entries) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("python", nargs="*", metavar="RELEASE=PYTHON")
    for name in ("generator", "bin", "work", "only", "made", "json"):
        parser.add_argument("--" + name)
    parser.add_argument("--keep", action="store_true", help="leave the runs that are right too")
    given = parser.parse_args()
    given.work = os.path.abspath(given.work)
    given.python = dict(word.split("=", 1) for word in given.python)
    seeds = [int(n) for n in given.only.split(",")] if given.only else list(megatron_runs.SEEDS)
    if given.made:
        unpack(given, seeds)
    else:
        has = lambda seed: megatron_runs.RUNS[seed].split()[0] in given.python
        skipped = [seed for seed in seeds if not has(seed)]
        if skipped:
            print(f"{len(skipped)} runs are skipped: no Python of their release of megatron-core")
        seeds = [seed for seed in seeds if has(seed)]
        make_all(given, seeds)
    failed, all_expected = 0, {}
    for seed in seeds:
        wrong, words, expected = judge(given, seed)
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok'}: {seed}: {words}", *wrong, sep="\n    ", flush=True)
        if expected:
            all_expected[seed] = expected
        if not wrong and not given.keep:
            shutil.rmtree(os.path.join(given.work, f"seed_{seed:02d}"), ignore_errors=True)
    print(f"{len(seeds) - failed} of {len(seeds)} are right")
    if given.json:
        write_json(given.json, all_expected)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
