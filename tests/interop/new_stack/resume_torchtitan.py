"""Resumes a step-N folder with the real torchtitan, makes one step on a fixed batch, and prints what came of it as JSON.

Usage: python resume_torchtitan.py STEP_FOLDER CONFIG.json [--ranks N] [--tp T] [--two-groups] [--unfused]
           [--given SEED] [--exclude KEY ...] [--model-only] [--out FILE]

--given SEED    the optimizer gets the rule's gradients (seed, name.gradSTEP) in place of those of the backward pass:
                then weights and moments are the same, bit for bit, on every mesh and machine; the loss is real anyway
--two-groups    norms without weight decay, as one of the stored cases has it
--exclude       checkpoint.exclude_from_loading, for example dataloader; the batch is that of step N + 1 all the same
--model-only    initial_load_path, as after a seed checkpoint: weights only
"""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile

import common


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("config")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--tp", type=int, default=1)
    p.add_argument("--two-groups", action="store_true")
    p.add_argument("--unfused", action="store_true")
    p.add_argument("--given", type=int)
    p.add_argument("--exclude", nargs="*", default=[])
    p.add_argument("--model-only", action="store_true")
    p.add_argument("--out")
    a = p.parse_args()
    common.spawn(a.ranks)
    with open(a.config, encoding="utf-8") as f:
        c = json.load(f)
    import torch.distributed as dist

    import titan
    rank, folder = int(os.environ["RANK"]), os.path.abspath(a.folder)
    step = int(re.search(r"step-(\d+)$", folder.rstrip("/"))[1])
    work = os.path.join(tempfile.gettempdir(), f"resume_torchtitan.{os.getppid()}")
    checkpoint = {"exclude_from_loading": a.exclude}
    os.makedirs(os.path.join(work, "checkpoint"), exist_ok=True)
    if a.model_only:
        checkpoint |= {"initial_load_path": folder}
        step = 0
    elif rank == 0:
        os.symlink(folder, os.path.join(work, "checkpoint", f"step-{step}"))
    titan.Rows.start = step
    t = titan.trainer(c, work, stop=step + 1, tp=a.tp, groups=titan.TWO if a.two_groups else titan.ONE,
                      fuse_qkv=not a.unfused and titan.NEW, checkpoint=checkpoint)
    if a.given is not None:
        titan.give_gradients(t, c, a.given)
    loaded = {}
    step_of_optimizer = t.train_step

    def train_step(*args, **kw):
        loaded["lr"] = [g["lr"] for o in t.optimizers for g in o.param_groups]
        return step_of_optimizer(*args, **kw)

    t.train_step = train_step
    t.train()
    names = common.Names(c, titan.STYLE)
    model = names.to_hf(titan.whole_model(t))
    sd = {n: common.whole(v) if hasattr(v, "shape") else v for n, v in t.optimizers.state_dict().items()}
    moments = {k: names.to_hf({n[len("state."):-len(k) - 1]: v for n, v in sd.items() if n.startswith("state.") and n.endswith("." + k)})
               for k in ("exp_avg", "exp_avg_sq")}
    steps = sorted({float(v) for n, v in sd.items() if n.startswith("state.") and n.endswith(".step")})
    dist.barrier()
    if rank == 0:
        result = {"step": t.step, "loss": t.losses[t.step][0], "grad_norm": t.losses[t.step][1], "lr_used": loaded["lr"],
                  "lr_next": [g["lr"] for o in t.optimizers for g in o.param_groups], "optimizer_steps": steps,
                  "ntokens_seen": t.ntokens_seen, "last_epoch": t.lr_schedulers.schedulers[0].last_epoch,
                  "hf": {n: {"weight": common.digest(w), "exp_avg": common.digest(moments["exp_avg"][n]),
                             "exp_avg_sq": common.digest(moments["exp_avg_sq"][n])} for n, w in model.items()}}
        if a.out:
            common.dump(a.out, result)
        else:
            print("RESULT " + json.dumps(result))
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
