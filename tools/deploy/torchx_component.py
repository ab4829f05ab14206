"""A conversion, or a training run on one machine, from TorchX, on any of its schedulers:

    torchx run -s kubernetes torchx_component.py:convert --parts 8 --image REGISTRY/nxdkit:latest \
        --mounts type=volume,src=fsx-claim,dst=/data -- --from nxd --to hf /data/shards /data/model

Each replica gets its number by TorchX's own macro, which is right on every scheduler.

    torchx run -s kubernetes torchx_component.py:train --image REGISTRY/nxdkit:latest \
        --mounts type=volume,src=fsx-claim,dst=/data -- --config /data/run.yaml

A run on several machines needs a launcher of MPI, which TorchX has not: train-mpijob.yaml, train-volcano.yaml.
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


def train(
    *args: str,
    image: str = "nxdkit:latest",
    mounts: Optional[List[str]] = None,
    cpu: int = 32,
    mem_mb: int = 131072,
    retries: int = 50,
) -> specs.AppDef:
    """grpo-train on one machine; started again it goes on from its last checkpoint.

    Args:
        args: options and KEY=VALUE of grpo-train
        image: the container image
        mounts: type=volume,src=CLAIM,dst=FOLDER of the file system with the run
        cpu: cores
        mem_mb: memory
        retries: how often it may be started again
    """
    return specs.AppDef(
        name="grpo-train",
        roles=[
            specs.Role(
                name="train",
                image=image,
                entrypoint="grpo-train",
                args=list(args),
                num_replicas=1,
                max_retries=retries,
                mounts=specs.parse_mounts(mounts) if mounts else [],
                resource=specs.Resource(cpu=cpu, gpu=0, memMB=mem_mb),
            )
        ],
    )
