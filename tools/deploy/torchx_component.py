"""A conversion from TorchX, on any of its schedulers:

    torchx run -s kubernetes torchx_component.py:convert --parts 8 --image REGISTRY/nxdkit:latest \
        --mounts type=volume,src=fsx-claim,dst=/data -- --from nxd --to hf /data/shards /data/model

Each replica gets its number by TorchX's own macro, which is right on every scheduler.
"""

from typing import List, Optional

import torchx.specs as specs


def convert(
    *args: str,
    image: str = "nxdkit:latest",
    parts: int = 8,
    mounts: Optional[List[str]] = None,
    cpu: int = 4,
    mem_mb: int = 4096,
) -> specs.AppDef:
    """nxd-convert in parts; the last one publishes.

    Args:
        args: options and the two paths of nxd-convert
        image: the container image
        parts: how many replicas
        mounts: type=volume,src=CLAIM,dst=FOLDER of a file system that all replicas share
        cpu: cores of each
        mem_mb: memory of each
    """
    return specs.AppDef(
        name="nxd-convert",
        roles=[
            specs.Role(
                name="convert",
                image=image,
                entrypoint="nxd-convert",
                args=["--part", f"{specs.macros.replica_id}/{parts}", *args],
                num_replicas=parts,
                max_retries=3,
                mounts=specs.parse_mounts(mounts) if mounts else [],
                resource=specs.Resource(cpu=cpu, gpu=0, memMB=mem_mb),
            )
        ],
    )
