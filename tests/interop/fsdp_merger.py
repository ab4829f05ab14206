"""The mergers of verl and EasyR1, from a checkout of theirs and unchanged, on one run's rank files.

    fsdp_merger.py verl|easyr1 CHECKOUT FOLDER OUT

FOLDER has the rank files and huggingface/, such as global_step_2/actor. It is left as it is: OUT
gets links to the files, and EasyR1's merger writes beside those. Prints where the model is. What
verl imports for training and does not call here is stood in for.
"""
import contextlib
import importlib.util
import os
import runpy
import shutil
import sys
import types


def stand_in(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


def prepare_verl(checkout):
    import torch
    import transformers
    stand_in("verl", __path__=[os.path.join(checkout, "verl")])
    stand_in("verl.utils", hf_processor=lambda *_, **__: None, hf_tokenizer=lambda *_, **__: None)
    if not importlib.util.find_spec("accelerate"):
        stand_in("accelerate", init_empty_weights=lambda: torch.device("meta"))
    if not hasattr(transformers, "AutoModelForVision2Seq"):  # transformers 5 has none
        transformers.AutoModelForVision2Seq = transformers.AutoModelForImageTextToText


def merge(trainer, checkout, source, out):
    """Returns the folder of the merged model."""
    files = os.path.join(out, "files")
    shutil.copytree(os.path.join(source, "huggingface"), os.path.join(files, "huggingface"))
    for name in os.listdir(source):
        if not os.path.isdir(os.path.join(source, name)):
            os.symlink(os.path.abspath(os.path.join(source, name)), os.path.join(files, name))
    if trainer == "easyr1":
        if not importlib.util.find_spec("peft"):  # needed for adapters only
            stand_in("peft", LoraConfig=None, get_peft_model=None)
        sys.argv = ["model_merger.py", "--local_dir", files]
        runpy.run_path(os.path.join(checkout, "scripts", "model_merger.py"), run_name="__main__")
        return os.path.join(files, "huggingface")
    prepare_verl(checkout)
    target = os.path.join(out, "merged")
    sys.argv = ["model_merger", "merge", "--backend", "fsdp", "--local_dir", files,
                "--target_dir", target]
    runpy.run_module("verl.model_merger", run_name="__main__", alter_sys=True)
    return target


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[1] not in ("verl", "easyr1"):
        sys.exit(__doc__)
    with contextlib.redirect_stdout(sys.stderr):
        where = merge(*sys.argv[1:])
    print(where)
