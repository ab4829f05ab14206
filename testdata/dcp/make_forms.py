"""Makes the small checkpoints of forms/, and forms/expected.json, next to this file (or in the folder given).

Needs torch 2.15, safetensors, zstandard and torch_checkpointing 0.1.1; CPU and gloo only, four processes on a mesh of
2 by 2. Usage: python make_forms.py [outdir]
"""
import datetime
import hashlib
import json
import os
import pathlib
import pickle
import shutil
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import save_file
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard
from torch_checkpointing.checkpoint_layout import LayoutInfo, SafetensorsSerialization
from torch_checkpointing.default_resharder import DefaultResharder
from torch_checkpointing.distributed_metadata import DistributedItemMetadata, DistributedMetadata
from torch_checkpointing.metadata_manager import DefaultMetadataManager
from torch_checkpointing.types import RankInfo

WORLD = 4
LAYOUTS = {"w": [_StridedShard(0, split_factor=2), Shard(0)],  # FSDP2 over tensor parallelism
           "v": [Shard(0), Shard(1)], "e": [Replicate(), Shard(0)]}
STRIDED = [_StridedShard(0, split_factor=2), Replicate()]  # rows of a rank that are no neighbours


def full():
    torch.manual_seed(7)
    return {"w": torch.randn(5, 3), "v": torch.randn(6, 4).to(torch.bfloat16), "e": torch.randn(3, 2),
            "r": torch.randn(3)}


def place(tensor, mesh, placements):
    sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    local = tensor[tuple(slice(o, o + n) for o, n in zip(offsets, sizes))].clone()
    return from_local(local, tensor, mesh, placements)


def from_local(local, tensor, mesh, placements):
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride())


def strided(tensor, mesh):
    parts, _ = STRIDED[0]._split_tensor(tensor, mesh.size(0), with_padding=False)
    return from_local(parts[mesh.get_coordinate()[0]].clone(), tensor, mesh, STRIDED)


def metadata(rank, items, layouts):
    """metadata.pkl by torch_checkpointing's own classes; only the exchange between ranks, which is made for CUDA, is ours."""
    manager = DefaultMetadataManager(RankInfo(rank, WORLD, rank, WORLD), should_cache_metadata=False, enable_serialization=False)
    mine = {name: DefaultResharder().extract_sharding_metadata(name, value) for name, value in items.items()}
    every = [None] * WORLD
    dist.all_gather_object(every, (manager._compact(mine), layouts))
    merged = manager._merge_object_metadata_from_ranks({r: m for r, (m, _) in enumerate(every)})
    manager.close()
    return DistributedMetadata({
        name: DistributedItemMetadata(paths, {r: known.get(name) for r, (_, known) in enumerate(every)})
        for name, paths in merged.items()}, WORLD).to_dict()


def as_version_1(metadata):
    """What the package's _convert_v1_to_v2 takes apart."""
    paths, ranks = {}, {}
    for name, item in metadata["metadata"].items():
        for path, groups in item["nested_path_to_metadata"].items():
            paths[json.dumps([name, *json.loads(path)], separators=(",", ":"))] = groups
        for rank, layout in item["rank_to_layout_info"].items():
            ranks.setdefault(rank, {})[name] = layout
    old = {"metadata": paths, "rank_to_layout_info_mappings": ranks, "world_size": metadata["world_size"], "version": "1.0"}
    assert DistributedMetadata.from_dict(old).to_dict()["metadata"].keys() == metadata["metadata"].keys()
    return old


def save_ranks(rank, mesh, tensors, placed):
    """torch_checkpointing: each rank's values as they are."""
    s = torch.arange(9, dtype=torch.float32)
    model = dict(placed, s=strided(s, mesh), r=tensors["r"])
    optimizer = {"state": {"w": {"exp_avg": place(tensors["w"] * 2, mesh, LAYOUTS["w"]), "step": torch.tensor(3.0)}},
                 "param_groups": [{"lr": 0.5, "betas": (0.9, 0.95), "params": ["w"]}]}
    for folder in ("ranks", "own"):
        os.makedirs(folder, exist_ok=True)
        torch.save(dict(placed, s=model["s"]) if folder == "own" else model, f"{folder}/model_{rank}.pt")
        torch.save(optimizer, f"{folder}/optimizer_{rank}.pt")
        torch.save({"step": 3, "rank": rank}, f"{folder}/train_state_{rank}.pt")
    known = metadata(rank, {"model": model, "optimizer": optimizer}, {"model": None, "optimizer": None})
    os.makedirs("ranks_1", exist_ok=True)
    name = f"m_{rank}.safetensors"
    save_file(SafetensorsSerialization.prepare_tensors_for_save(model), f"ranks_1/{name}")
    old = metadata(rank, {"model": model}, {"model": LayoutInfo(name, SafetensorsSerialization())})
    if rank == 0:
        for path, value in (("ranks/metadata.pkl", known), ("ranks_1/metadata.pkl", as_version_1(old))):
            with open(path, "wb") as f:
                pickle.dump(value, f)


def worker(rank, outdir, store):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    os.chdir(outdir)
    tensors = full()
    placed = {name: place(tensors[name], mesh, layout) for name, layout in LAYOUTS.items()}
    state = {**placed, "r": tensors["r"], "o": {"lr": 0.5, "rank": rank}}
    dcp.save(state, storage_writer=dcp.FileSystemWriter("local"), use_collectives=False)
    dcp.save(state, storage_writer=dcp.FileSystemWriter("zstd", _extensions=[ZStandard()]))
    dcp.save({**placed, "r": tensors["r"]}, storage_writer=HuggingFaceStorageWriter("shards", save_distributed=True))
    save_ranks(rank, mesh, tensors, placed)
    dist.barrier()
    dist.destroy_process_group()


def save_objects(path):
    """A run's state may be of any class; one that has two has them in one checkpoint."""
    state = {"w": full()["w"], "when": datetime.datetime(2026, 11, 24, 12), "where": pathlib.PurePosixPath("a/b")}
    dcp.save(state, checkpoint_id=path, no_dist=True)


def entry(tensor):
    data = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else tensor.numpy().tobytes()
    return {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()}


def shardings():
    """What torch gives each place of a mesh: the indices along every dimension of the tensor."""
    cases = []
    for shape, mesh, placements in (
            ([8, 3], [2, 2], [Shard(0), Shard(0)]), ([8, 3], [2, 2], [_StridedShard(0, split_factor=2), Shard(0)]),
            ([5, 3], [2, 2], [_StridedShard(0, split_factor=2), Shard(0)]), ([5], [4], [Shard(0)]),
            ([11], [3], [_StridedShard(0, split_factor=4)]), ([3, 10], [2, 3], [Shard(1), _StridedShard(1, split_factor=2)]),
            ([7, 5], [2, 2, 2], [_StridedShard(0, split_factor=2), Replicate(), Shard(0)]), ([2], [3], [Shard(0)]),
            ([13, 9], [2, 2], [_StridedShard(0, split_factor=3), _StridedShard(1, split_factor=2)])):
        for flat in range(torch.Size(mesh).numel()):
            place = [int(i) for i in torch.unravel_index(torch.tensor(flat), mesh)]
            indices = [torch.arange(n) for n in shape]
            for at, size, placement in zip(place, mesh, placements):
                if isinstance(placement, Replicate):
                    continue
                along = type(placement)(0, **({"split_factor": placement.split_factor} if isinstance(placement, _StridedShard) else {}))
                parts, _ = along._split_tensor(indices[placement.dim], size, with_padding=False)
                indices[placement.dim] = parts[at]
            texts = [["Replicate"] if isinstance(p, Replicate) else ["StridedShard", p.dim, p.split_factor]
                     if isinstance(p, _StridedShard) else ["Shard", p.dim] for p in placements]
            cases.append({"shape": shape, "mesh": mesh, "placements": texts, "place": place, "indices": [i.tolist() for i in indices]})
    return cases


def main():
    outdir = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "forms"))
    shutil.rmtree(outdir, ignore_errors=True)
    os.makedirs(outdir)
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(worker, args=(outdir, os.path.join(tmp, "store")), nprocs=WORLD)
    save_objects(os.path.join(outdir, "objects"))
    tensors = {name: entry(value) for name, value in full().items()}
    model = {"model." + name: value for name, value in tensors.items()}
    model["model.s"] = entry(torch.arange(9, dtype=torch.float32))
    state = {"optimizer.state.w.exp_avg": entry(full()["w"] * 2), "optimizer.state.w.step": entry(torch.tensor(3.0))}
    own = {name: value for name, value in model.items() if name != "model.r"}
    expected = {"local": tensors, "zstd": tensors, "shards": tensors, "ranks": {**model, **state}, "ranks_1": model,
                "own": {**own, **state}, "objects": {"w": tensors["w"]}}
    with open(os.path.join(outdir, "expected.json"), "w") as f:
        json.dump(expected, f, indent=1, sort_keys=True)
        f.write("\n")
    with open(os.path.join(outdir, "shardings.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in shardings()) + "\n]\n")


if __name__ == "__main__":
    main()
