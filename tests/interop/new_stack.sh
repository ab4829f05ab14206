#!/usr/bin/env bash
# Checkpoints that nxd-convert makes from NxD tags for TorchTitan (0.3.0 and 0.2.2) and transformers
# (5.24) are resumed by the real programs, on CPUs with gloo: see new_stack_live.py.
#
# Usage: new_stack.sh [BUILD_DIR]     (default: $NXDKIT_BUILD, else build/dev of the source tree)
#
# The programs go into BUILD_DIR/torch-envs once, four gigabytes; NXDKIT_TORCH_ENVS names another
# folder for them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-${NXDKIT_BUILD:-$here/../../build/dev}}
envs=${NXDKIT_TORCH_ENVS:-$build/torch-envs}
export PYTHONDONTWRITEBYTECODE=1

# PyPI's torch without the CUDA packages that it requires, with one release of torchtitan.
make_environment() {  # NAME TORCHTITAN
  local folder=$envs/$1
  [[ -e $folder/done ]] && return
  rm -rf "$folder"
  mkdir -p "$envs"
  python3 -m venv "$folder"
  local pip=("$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir)
  "${pip[@]}" filelock typing-extensions sympy networkx jinja2 fsspec numpy safetensors packaging \
    einops tensorboard tabulate tyro pillow requests 'datasets>=3.6,<4.8' psutil blobfile tiktoken tokenizers \
    transformers==5.24.0
  "${pip[@]}" --no-deps torch==2.15.0 triton torchdata accelerate==1.15.0 "torchtitan==$2"
  [[ $2 == 0.2.2 ]] || "${pip[@]}" --no-deps spmd_types==0.2.3 torch_checkpointing
  "$folder/bin/python" "$here/torch_cpu_stubs.py" "$folder/stubs"
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/bin/python "$@"\n' "$folder/stubs" "$folder" >"$folder/python"
  chmod +x "$folder/python"
  touch "$folder/done"  # last: marks a whole environment
}

mkdir -p "$envs"
envs=$(cd "$envs" && pwd)
make_environment titan030 0.3.0
make_environment titan022 0.2.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --zstd -xf "$here/../../testdata/new_stack/fixtures.tar.zst" -C "$work"
python3 "$here/new_stack_live.py" --tools "$build/tools" --fixtures "$work" --titan030 "$envs/titan030/python" \
  --titan022 "$envs/titan022/python" --transformers "$envs/titan030/python"
