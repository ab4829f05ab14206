"""A conversion, or a training run on one machine, from TorchX, on any of its schedulers:

    torchx run --workspace="" -s kubernetes -cfg queue=default torchx_component.py:convert --parts 8 \
        --image REGISTRY/nxdkit:latest --mounts type=volume,src=fsx-claim,dst=/data \
        -- --from nxd --to hf /data/shards /data/model

Each replica gets its number from TorchX's own macro, which is right on every scheduler.

    torchx run --workspace="" -s kubernetes -cfg queue=default torchx_component.py:train \
        --image REGISTRY/nxdkit:latest --mounts type=volume,src=fsx-claim,dst=/data -- --config /data/run.yaml

A run on several machines needs a launcher of MPI, which TorchX does not have: train-mpijob.yaml, train-volcano.yaml.

Before a run, the graphs of a torchrun program are compiled (collect on a node that the program runs on, then
compile on any node), or the rollout bundle of grpo-train (export). With --wait each ends before the next begins, and
with && nothing starts after a failure:

    torchx run --wait --workspace="" -s kubernetes -cfg queue=default torchx_component.py:collect --devices 16 \
        --image REGISTRY/nxdkit-neuron:latest --mounts type=volume,src=fsx-claim,dst=/data \
        -- torchrun --nproc_per_node=32 /data/train.py --max_steps=10 &&
    torchx run --wait --workspace="" -s kubernetes -cfg queue=default torchx_component.py:compile --target trn1 \
        --replicas 4 --image REGISTRY/nxdkit-neuron:latest --mounts type=volume,src=fsx-claim,dst=/data

    torchx run --wait --workspace="" -s kubernetes -cfg queue=default torchx_component.py:export \
        --image REGISTRY/nxdkit-neuron:latest --mounts type=volume,src=fsx-claim,dst=/data \
        -- --instance trn1.32xlarge --tp 8 --bs 64 --seq 4096 /data/model /data/bundle
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
    """grpo-train on one machine; restarted, it resumes from its last checkpoint.

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


def collect(
    *args: str,
    image: str = "nxdkit-neuron:latest",
    cache: str = "/data/neuron-cache",
    mounts: Optional[List[str]] = None,
    devices: int = 16,
    cpu: int = 32,
    mem_mb: int = 131072,
) -> specs.AppDef:
    """Writes the graphs of a program into a cache: nothing is executed, and nothing compiled.

    Args:
        args: the program and its options, such as torchrun --nproc_per_node=32 /data/train.py
        image: the container image, with the program
        cache: the compile cache, also named by the training job
        mounts: type=volume,src=CLAIM,dst=FOLDER of the file system with the cache
        devices: Neuron devices, as many as the program asks for
        cpu: cores
        mem_mb: memory
    """
    resource = specs.Resource(cpu=cpu, gpu=0, memMB=mem_mb, devices={"aws.amazon.com/neuron": devices})
    env = {"NEURON_COMPILE_CACHE_URL": cache}
    return _app("neuron-collect", "neuron-cache", ["collect", "--", *args], image, env, mounts, resource)


def compile(
    target: str,
    image: str = "nxdkit-neuron:latest",
    cache: str = "/data/neuron-cache",
    replicas: int = 1,
    mounts: Optional[List[str]] = None,
    cpu: int = 16,
    mem_mb: int = 65536,
) -> specs.AppDef:
    """Compiles every graph of a cache that has no result. Replicas share the work, and need no device.

    Args:
        target: the kind of the run's devices: trn1, trn2 or inf2
        image: the container image, with neuronx-cc
        cache: the compile cache
        replicas: how many work on it
        mounts: type=volume,src=CLAIM,dst=FOLDER of the file system with the cache
        cpu: cores of each
        mem_mb: memory of each: as many compilers run at once as fit
    """
    words = ["compile", "--target", target]
    resource = specs.Resource(cpu=cpu, gpu=0, memMB=mem_mb)
    env = {"NEURON_COMPILE_CACHE_URL": cache}
    return _app("neuron-compile", "neuron-cache", words, image, env, mounts, resource, replicas)


def export(
    *args: str,
    image: str = "nxdkit-neuron:latest",
    cache: str = "/data/neuron-cache",
    mounts: Optional[List[str]] = None,
    cpu: int = 16,
    mem_mb: int = 65536,
) -> specs.AppDef:
    """Compiles the rollout bundle of grpo-train. It needs no device.

    Args:
        args: options and the two paths of neuron-export; --instance selects the compiler's target, because there is
            no device to query
        image: the container image, with the vendor's compiler
        cache: the compile cache
        mounts: type=volume,src=CLAIM,dst=FOLDER of the file system with the model and the bundle
        cpu: cores
        mem_mb: memory
    """
    env = {"NEURON_COMPILE_CACHE_URL": cache}
    resource = specs.Resource(cpu=cpu, gpu=0, memMB=mem_mb)
    return _app("neuron-export", "neuron-export", list(args), image, env, mounts, resource)


def _app(name, command, words, image, env, mounts, resource, replicas=1):
    """An application of one role."""
    return specs.AppDef(
        name=name,
        roles=[
            specs.Role(
                name=name,
                image=image,
                entrypoint=command,
                args=words,
                env=env,
                num_replicas=replicas,
                max_retries=2,
                mounts=specs.parse_mounts(mounts) if mounts else [],
                resource=resource,
            )
        ],
    )
