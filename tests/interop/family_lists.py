"""The tensors that transformers saves for the models of testdata/families: name, dtype and shape.

    family_lists.py           compare with the lists of this major version: exit 1 where one differs
    family_lists.py --write   store what version 4 saves, from the configs of version 5, as families-4.json

family_lists.sh runs it with both versions.
"""
import argparse
import json
import os
import struct
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")
import torch  # noqa: E402
import transformers  # noqa: E402

transformers.logging.set_verbosity_error()
if hasattr(transformers.utils.logging, "disable_progress_bar"):
    transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
MAJOR = int(transformers.__version__.split(".")[0])


def header(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        tensors = json.loads(file.read(size))
    tensors.pop("__metadata__", None)
    return {name: (row["dtype"], tuple(row["shape"])) for name, row in tensors.items()}


def saved(case):
    """The tensors of a tiny model of this config, and the config as this version writes it."""
    model_class = getattr(transformers, case["architecture"])
    config = model_class.config_class.from_dict(spelled(plain(case["config"]), model_class))
    torch.manual_seed(0)
    model = model_class(config).to(torch.bfloat16)
    tensors = {}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".safetensors"):
                tensors.update(header(os.path.join(folder, name)))
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
    config.pop("transformers_version", None)
    return tensors, config


def spelled(config, model_class):
    """Version 4 has another key for the number of experts in some of its configs."""
    count = config.get("num_local_experts")
    if MAJOR == 4 and count and hasattr(model_class.config_class(), "num_experts"):
        config = {**config, "num_experts": config.pop("num_local_experts")}
    return config


def plain(value):
    """JSON has no infinity: the lists say it in words."""
    if isinstance(value, dict) and set(value) == {"__float__"}:
        return float(value["__float__"])
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def main(folder, write):
    cases = {}
    for name in ("families.json", "more.json") if MAJOR == 5 or write else ("families-4.json",):
        with open(os.path.join(folder, name)) as file:
            cases.update(json.load(file)["families"])
    wrong, out = 0, {}
    for name, case in cases.items():
        if not hasattr(transformers, case["architecture"]):
            print(f"{name}: transformers {transformers.__version__} has no {case['architecture']}")
            continue
        try:
            tensors, config = saved(case)
        except Exception as failure:  # a config that this version rejects
            print(f"{name}: not made: {type(failure).__name__}: {str(failure)[:120]}")
            wrong += not write
            continue
        stored = {row[0]: (row[1], tuple(row[2])) for row in case["disk"]}
        out[name] = {"architecture": case["architecture"], "config": config,
                     "disk": [[n, *map(list_of, t)] for n, t in tensors.items()]}
        if not write and tensors != stored:
            wrong += 1
            print(f"{name}: differs: {sorted(set(tensors.items()) ^ set(stored.items()))[:4]}")
    print(f"transformers {transformers.__version__}: {len(out)} of {len(cases)} models, {wrong} differ")
    if write:
        with open(os.path.join(folder, "families-4.json"), "w") as file:
            file.write('{"transformers": "%s",\n"families": {\n' % transformers.__version__)
            file.write(",\n".join(
                '"%s": {"architecture": "%s",\n "config": %s,\n "disk": [\n  %s]}' % (
                    n, c["architecture"], json.dumps(c["config"], separators=(",", ":"), sort_keys=True),
                    ",\n  ".join(json.dumps(row, separators=(",", ":")) for row in c["disk"]))
                for n, c in out.items()))
            file.write("}}\n")
    return 1 if wrong else 0


def list_of(value):
    return list(value) if isinstance(value, tuple) else value


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    here = os.path.dirname(os.path.abspath(__file__))
    sys.exit(main(os.path.join(here, "..", "..", "testdata", "families"), parser.parse_args().write))
