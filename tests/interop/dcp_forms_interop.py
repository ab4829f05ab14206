"""Distributed checkpoints of other forms than dcp.save's, as the real torch writes them.

Usage: python dcp_forms_interop.py --bin-dir DIR
    DIR is tests/interop of the build; the commands lie in tools of the build.

One model of four gloo processes, FSDP2 over tensor parallelism, and its optimizer's state, saved by
ranks on their own (use_collectives=False), as safetensors shards, as files of ranks with DTensors
in them, and, where the packages are there, compressed with zstd and with the metadata.pkl of
torch_checkpointing. Of each, the model must be the source's, and all must have one digest.
"""

import importlib.util
import os
import subprocess
import warnings

import torch
import torch.distributed as dist
from safetensors.torch import load_file

import dcp_interop as dcps
import dcp_models as models
import dcp_resume as resume
import interop
import reshard_interop as reshard

WORLD = 4
FORMS = ["local", "shards", "ranks"]
if importlib.util.find_spec("zstandard") or importlib.util.find_spec("pyzstd"):
    FORMS.append("zstd")
if importlib.util.find_spec("torch_checkpointing"):
    FORMS.append("known")


def metadata(items, rank):
    """metadata.pkl by the package's own classes; its exchange between ranks is made for CUDA."""
    from torch_checkpointing.default_resharder import DefaultResharder
    from torch_checkpointing.distributed_metadata import (DistributedItemMetadata,
                                                          DistributedMetadata)
    from torch_checkpointing.metadata_manager import DefaultMetadataManager
    from torch_checkpointing.types import RankInfo
    manager = DefaultMetadataManager(RankInfo(rank, WORLD, rank, WORLD),
                                     should_cache_metadata=False, enable_serialization=False)
    mine = {name: DefaultResharder().extract_sharding_metadata(name, value)
            for name, value in items.items()}
    every = [None] * WORLD
    dist.all_gather_object(every, manager._compact(mine))
    merged = manager._merge_object_metadata_from_ranks(dict(enumerate(every)))
    manager.close()
    return DistributedMetadata({
        name: DistributedItemMetadata(paths, {r: None for r in range(WORLD)})
        for name, paths in merged.items()}, WORLD).to_dict()


def save_ranks(folder, items, rank):
    os.makedirs(folder, exist_ok=True)
    for name, value in items.items():
        torch.save(value, f"{folder}/{name}_{rank}.pt")


def save_forms(rank, folder):
    import pickle

    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint._extension import ZStandard
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    source = torch.load(folder + "/source.pt", weights_only=True)
    root = models.parallel(models.module_of(source["weights"]), 2, 2)
    named = dict(root.named_parameters())
    state = {}
    with torch.no_grad():
        for name, p in named.items():
            p.copy_(models.shard(source["weights"][name], p))
            state[name] = {"step": torch.tensor(10.0)}
            for moment in ("exp_avg", "exp_avg_sq"):
                state[name][moment] = models.shard(source[moment][name], p)
    options = {name: source["options"] for name in named}
    model = {name: p.detach() for name, p in named.items()}
    items = {"model": model, "optimizer": {"state": state, "param_groups": options},
             "train_state": {"step": 10, "rank": rank}}

    dcp.save({**model, "optimizer": items["optimizer"]},
             storage_writer=dcp.FileSystemWriter(folder + "/local"), use_collectives=False)
    dcp.save(model, storage_writer=HuggingFaceStorageWriter(folder + "/shards",
                                                            save_distributed=True))
    save_ranks(folder + "/ranks", items, rank)
    if "zstd" in FORMS:
        dcp.save(model, storage_writer=dcp.FileSystemWriter(folder + "/zstd",
                                                            _extensions=[ZStandard()]))
    if "known" in FORMS:
        save_ranks(folder + "/known", items, rank)
        known = metadata({"model": model, "optimizer": items["optimizer"]}, rank)
        if rank == 0:
            with open(folder + "/known/metadata.pkl", "wb") as f:
                pickle.dump(known, f)
    dist.barrier()


def worker(rank, world, folder, store):
    with resume.of_processes(rank, world, store):
        save_forms(rank, folder)


class Forms(dcps.Dcp):
    def make(self, config, style):
        training = reshard.Training(config, "norms")
        weights = training.states["sharded_master_weights"]
        source = {"weights": models.renamed(weights, config, style),
                  "exp_avg": models.renamed(training.states["exp_avg"], config, style),
                  "exp_avg_sq": models.renamed({n: t.abs() for n, t in
                                                training.states["exp_avg_sq"].items()},
                                               config, style),
                  "options": {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.01}}
        torch.save(source, self.path("source.pt"))
        training.save(self.path("tag"), reshard.Geometry(tp=2, dp=1, style="separate"))
        resume.spawn(worker, WORLD, self.folder)
        return weights

    def digest(self, form):
        done = subprocess.run([interop.program("ckpt-digest"), "-q", "--from", "dcp", "--config",
                               self.path("tag", "config.json"), self.path(form)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{form}: {done.stdout}{done.stderr}")
        return done.stdout.split()[0]

    def check_forms(self, config, style):
        weights = self.make(config, style)
        digests = set()
        for form in FORMS:
            with self.subTest(config["model_type"], form=form):
                self.convert("--from", "dcp", "--to", "hf", "--config",
                             self.path("tag", "config.json"), "--verify", self.path(form),
                             self.path(form + "-hf"))
                found = load_file(self.path(form + "-hf", "model.safetensors"))
                self.assertEqual(set(found), set(weights))
                for name, tensor in weights.items():
                    self.assertTrue(torch.equal(found[name], tensor), name)
                digests.add(self.digest(form))
        self.assertEqual(len(digests), 1, digests)

    def check_state(self, form):
        """The optimizer's state goes through a checkpoint of dcp.save's form, to torch."""
        warnings.simplefilter("ignore")
        self.convert("--from", "dcp", "--to", "dcp", "--style", "hf", "--config",
                     self.path("tag", "config.json"), self.path(form), self.path(form + "-dcp"))
        import torch.distributed.checkpoint as dcp
        source = torch.load(self.path("source.pt"), weights_only=True)
        target = {}
        for moment in ("exp_avg", "exp_avg_sq"):
            for name, tensor in source[moment].items():
                target[f"optimizer.state.{name}.{moment}"] = torch.full_like(tensor, float("nan"))
        names = list(target)
        for name in source["weights"]:
            target[f"optimizer.state.{name}.step"] = torch.tensor(-1.0)
        dcp.load(target, checkpoint_id=self.path(form + "-dcp"), no_dist=True)
        for key in names:
            _, _, rest = key.partition("optimizer.state.")
            name, _, moment = rest.rpartition(".")
            self.assertTrue(torch.equal(target[key], source[moment][name]), key)
        for name in source["weights"]:
            self.assertEqual(target[f"optimizer.state.{name}.step"].item(), 10)

    def test_every_form_is_the_model(self):
        self.check_forms(reshard.LLAMA, "torchtitan")
        self.setUp()
        self.check_forms(reshard.QWEN2, "hf")
        for form in ("local", "ranks", *(["known"] if "known" in FORMS else [])):
            with self.subTest("state", form=form):
                self.check_state(form)


if __name__ == "__main__":
    reshard.NXD.install_torch_xla()
    interop.main()
