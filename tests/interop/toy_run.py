"""Runs of the arithmetic example, for tests of what reads the files of a run. It needs only the
standard library."""

import os
import subprocess

import interop

CONFIGS = os.path.join(interop.SOURCE, "trainer", "configs")


def make(folder, steps, *options):
    """Trains from random weights, in a second or two. Returns the folder of the run."""
    sums = os.path.join(folder, "sums")
    build = os.path.dirname(os.path.dirname(interop.program("grpo-train")))
    script = os.path.join(CONFIGS, "arithmetic.sh")
    subprocess.run(["bash", script, "--build", build, sums], check=True, stdout=subprocess.DEVNULL)
    run = os.path.join(folder, "run")
    subprocess.run(
        [interop.program("grpo-train"), "--quiet", "--config",
         os.path.join(CONFIGS, "arithmetic.yaml"), f"data.train_files={sums}/data@train",
         f"data.val_files={sums}/data@test", f"worker.actor.model.model_path={sums}/model",
         f"trainer.save_checkpoint_path={run}", f"trainer.max_steps={steps}",
         "trainer.logger=[file]", "trainer.save_freq=5", "trainer.val_freq=4", *options], check=True,
        stdout=subprocess.DEVNULL)
    return run
