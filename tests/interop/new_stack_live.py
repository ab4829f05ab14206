"""The outputs of nxd-convert for torchtitan and transformers are resumed by the real programs.

Usage: python new_stack_live.py --tools DIR --fixtures DIR --titan030 PYTHON --titan022 PYTHON --transformers PYTHON

Each folder of testdata/new_stack becomes an NxD tag, and that a checkpoint for another mesh; then the
program resumes it and makes a step on a fixed batch. With the gradients of the rule, weights, moments
and learning rates are those that the program had when nothing was converted (stored with the folders:
the same on every mesh). With its own gradients, loss, weights and moments are bit for bit those of the
folder that was never converted, resumed on the same mesh. Between the programs, whose arithmetic is not
the same, it is the step with the rule's gradients that must be equal.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "new_stack")
SECONDS = 600  # for one resumption; a tiny model takes some 10

# name, its checkpoint, program, seed of the rule, has two groups
CASES = [
    ("titan-0.3.0-llama3", "checkpoint/step-2", "titan030", 11, True),
    ("titan-0.3.0-qwen3", "checkpoint/step-2", "titan030", 12, False),
    ("titan-0.2.2-llama3", "checkpoint/step-2", "titan022", 13, False),
    ("transformers-5.24-qwen3-fsdp2", "checkpoint-2", "transformers", 21, True),
    ("transformers-5.24-qwen3moe-tp2", "checkpoint-2", "transformers", 22, True),
    ("transformers-5.19-qwen3-fsdp2", "checkpoint-2", "transformers", 23, True),
]
# The written mesh, and the meshes on which it is resumed: options of the programs.
MESHES = {
    "titan030": ("dp=3,tp=2", [[], ["--ranks", "2"]]),
    "titan022": ("dp=1,tp=2", [[], ["--ranks", "2", "--tp", "2"]]),
    "transformers": ("dp=3,tp=2", [[], ["--fsdp", "2"]]),
}
STYLES = {
    "titan030": ["--for", "torchtitan"],
    "titan022": ["--for", "torchtitan", "--style", "torchtitan-2025"],
    "transformers": ["--for", "transformers"],
}
# From one program to the other: case, program. (0.2.2's Qwen3 has no attention for TP on a CPU, so all
# of these are resumed by FSDP, or alone.)
ACROSS = [(0, "transformers"), (3, "titan030"), (4, "titan030"), (2, "titan030"), (1, "titan022")]


class Failed(Exception):
    pass


class Live:
    def __init__(self, arguments, work):
        self.a, self.work, self.count = arguments, work, 0

    def convert(self, *words):
        done = subprocess.run([os.path.join(self.a.tools, "nxd-convert"), "-q", "--no-sync", *words],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise Failed(f"nxd-convert {' '.join(words)}: {done.stderr}")

    def path(self, *parts):
        path = os.path.join(self.work, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def folder(self, case):
        return os.path.join(self.a.fixtures, CASES[case][0], CASES[case][1])

    def config(self, case):
        return os.path.join(self.a.fixtures, CASES[case][0], "config.json")

    def converted(self, case, program):
        """The case through a tag, as the program loads it."""
        self.count += 1
        tag = self.path(str(self.count), "tag")
        name = "checkpoint-2" if program == "transformers" else "step-2"
        out = self.path(str(self.count), name)
        self.convert("--to", "nxd", "--tp", "2", "--config", self.config(case), self.folder(case), tag)
        self.convert("--to", "dcp", *STYLES[program], "--mesh", MESHES[program][0], tag, out)
        return out

    def resume(self, case, program, folder, mesh, given):
        script = "resume_transformers.py" if program == "transformers" else "resume_torchtitan.py"
        self.count += 1
        out = self.path(str(self.count), "result.json")
        words = [getattr(self.a, program), os.path.join(HERE, script), folder, self.config(case), *mesh, "--out", out]
        if program != "transformers":
            words += ["--exclude", "dataloader"] + ["--two-groups"] * CASES[case][4]
        if given:
            words += ["--given", str(CASES[case][3])]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise Failed(f"{' '.join(words[1:])}: {done.stderr[-2000:]}")
        with open(out, encoding="utf-8") as file:
            return json.load(file)


def compare(what, found, expected):
    wrong = [f"{name} {key}" for name, values in expected.items() for key in values
             if found[name][key] != values[key]]
    if wrong:
        raise Failed(f"{what}: {len(wrong)} differ, the first is {wrong[0]}")
    return len(expected)


def there_and_back(live, case, expected):
    name, _, program, _, _ = CASES[case]
    folder = live.converted(case, program)
    # Experts under tensor parallelism are cut differently from all other tensors.
    more = [["--tp", "2"]] if "moe" in name else []
    for mesh in MESHES[program][1] + more:
        step = live.resume(case, program, folder, mesh, given=True)
        count = compare("with the rule's gradients", step["hf"], expected["given_gradients"])
        for key in ("lr_used", "lr_next"):
            if step[key] != expected[key]:
                raise Failed(f"{key} is {step[key]}, expected {expected[key]}")
        # 5.19's optimizer has a form that 5.24 does not load.
        if "5.19" in name:
            continue
        ours = live.resume(case, program, folder, mesh, given=False)
        theirs = live.resume(case, program, live.folder(case), mesh, given=False)
        if ours["loss"] != theirs["loss"]:
            raise Failed(f"loss {ours['loss']}, of the folder that was not converted {theirs['loss']}")
        compare("with its own gradients", ours["hf"], theirs["hf"])
        print(f"{name} resumed by {program} {' '.join(mesh) or 'alone'}: {count} parameters, their moments and "
              f"loss {ours['loss']:.7f} as without a conversion")


def across(live, case, program, expected):
    folder = live.converted(case, program)
    mesh = [] if program == "titan022" else MESHES[program][1][1]
    step = live.resume(case, program, folder, mesh, given=True)
    count = compare("with the rule's gradients", step["hf"], expected["given_gradients"])
    if step["lr_used"] != expected["lr_used"][:1] * len(step["lr_used"]):
        raise Failed(f"lr_used is {step['lr_used']}, expected {expected['lr_used']}")
    print(f"{CASES[case][0]} resumed by {program}: {count} parameters and their moments equal after a step")


def main():
    parser = argparse.ArgumentParser()
    for name in ("tools", "fixtures", "titan030", "titan022", "transformers"):
        parser.add_argument("--" + name, required=True)
    arguments = parser.parse_args()
    with open(os.path.join(arguments.fixtures, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        live = Live(arguments, work)
        runs = [(there_and_back, (case,)) for case in range(len(CASES))] + [(across, pair) for pair in ACROSS]
        for run, of in runs:
            try:
                run(live, *of, expected[CASES[of[0]][0]]["next_step"])
            except Failed as failure:
                failures += 1
                print(f"FAILED: {CASES[of[0]][0]} {of[1:]}: {failure}")
    print(f"{len(runs) - failures} of {len(runs)}")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
