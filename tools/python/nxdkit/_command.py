"""The commands of nxdkit in this environment."""

from __future__ import annotations

import os
import shutil
import sysconfig

# The words of the commands: python -m nxdkit convert ...
WORDS = {
    "convert": "nxd-convert",
    "reshard": "nxd-reshard",
    "inspect": "ckpt-inspect",
    "verify": "ckpt-verify",
    "diff": "ckpt-diff",
    "digest": "ckpt-digest",
    "pack": "ckpt-pack",
    "export": "neuron-export",
    "cache": "neuron-cache",
    "train": "grpo-train",
    "make-model": "nxdkit-make-model",
    "env": "nxdkit-env",
}


def command(name: str) -> str:
    """The path of a command such as "nxd-convert"; FileNotFoundError if there is none."""
    places = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    folder = os.path.dirname(os.path.dirname(__file__))
    places.append(os.path.join(folder, "bin"))  # pip install --target
    for place in places:
        path = os.path.join(place, name)
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"no command {name} in {' or '.join(places)}")
    return found
