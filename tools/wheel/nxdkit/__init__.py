"""The commands of nxdkit, as this environment has them."""

import os
import shutil
import sysconfig

__all__ = ["command"]


def command(name: str) -> str:
    """The path of a command such as "nxd-convert"; FileNotFoundError when there is none."""
    places = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    places.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin"))  # pip install --target
    for place in places:
        path = os.path.join(place, name)
        if os.access(path, os.X_OK):
            return path
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"no command {name} in {' or '.join(places)}")
    return path
