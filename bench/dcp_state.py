"""dcp_state.py make HF OUT | to_torch DCP OUT | load_save IN OUT

The torch part of bench/dcp.sh: a checkpoint of a Hugging Face model with AdamW's state, and torch's own
two ways of converting one.
"""

import glob
import os
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

OPTIONS = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.01, "amsgrad": False,
           "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
           "fused": None, "decoupled_weight_decay": True}


def make(model, out):
    state = {}
    optimizer = {}
    for path in sorted(glob.glob(os.path.join(model, "*.safetensors"))):
        for name, tensor in load_file(path).items():
            weight = tensor.float() * 1.001
            state[name] = weight
            optimizer[f"state.{name}.step"] = torch.tensor(10.0)
            optimizer[f"state.{name}.exp_avg"] = weight * 0.1
            optimizer[f"state.{name}.exp_avg_sq"] = weight * weight
            for option, value in OPTIONS.items():
                optimizer[f"param_groups.{name}.{option}"] = value
    dcp.save({**state, "optimizer": optimizer, "lr_scheduler": {"last_epoch": 10},
              "train_state": {"step": 10, "ntokens_seen": 0}}, checkpoint_id=out, no_dist=True)


def to_torch(folder, out):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    dcp_to_torch_save(folder, out)


def load_save(path, out):
    torch.save(torch.load(path, weights_only=False), out)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"make": make, "to_torch": to_torch, "load_save": load_save}[sys.argv[1]](*sys.argv[2:])
