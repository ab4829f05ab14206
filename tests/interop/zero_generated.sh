#!/usr/bin/env bash
# Forty ZeRO folders, made anew by the real DeepSpeed 0.19.8, against what its engines held and
# against its own zero_to_fp32: zero_generated.py.
#
# Usage: zero_generated.sh [BUILD_DIR] [OPTION of zero_generated.py...]
#                                      (default: $NXDKIT_BUILD, else build/dev of the source tree;
#                                       fsdp_loads.sh first)
#
# NXDKIT_DEEPSPEED_GENERATOR is the folder of make_deepspeed.py, without which nothing is run.
# NXDKIT_TORCH_ENVS is the folder of fsdp_loads.sh, else BUILD_DIR/torch-envs: DeepSpeed is put
# beside its torch 2.9, into NXDKIT_DEEPSPEED_ENV, else BUILD_DIR/deepspeed-env, once (80 MB). Four
# of the runs have optimizers that DeepSpeed compiles there when they are first used; without a
# compiler they are skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${NXDKIT_BUILD:-$here/../../build/dev}
if [[ ${1:-} && $1 != --* ]]; then
  build=$1
  shift
fi
torch=${NXDKIT_TORCH_ENVS:-$build/torch-envs}/2.9
folder=${NXDKIT_DEEPSPEED_ENV:-$build/deepspeed-env}

skip() {
  echo "zero_generated.sh: skipped: $1"
  exit 0
}
generator=${NXDKIT_DEEPSPEED_GENERATOR:-}
[[ $generator ]] || skip "NXDKIT_DEEPSPEED_GENERATOR names no folder of make_deepspeed.py"
[[ -e $generator/make_deepspeed.py ]] || skip "no make_deepspeed.py in $generator"
[[ -x $torch/bin/python ]] || skip "no torch 2.9 in $torch: fsdp_loads.sh makes it"

torch=$(cd "$torch" && pwd)
export LD_LIBRARY_PATH=$torch/stubs PYTHONDONTWRITEBYTECODE=1 DS_ACCELERATOR=cpu
export OMP_NUM_THREADS=1 MAX_JOBS=${MAX_JOBS:-1}

# DeepSpeed with what it asks for, torch and transformers excepted.
if [[ ! -e $folder/done ]]; then
  rm -rf "$folder"
  "$(readlink -f "$torch/bin/python")" -m venv "$folder"
  pip=("$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir)
  "${pip[@]}" einops hjson msgpack ninja packaging psutil py-cpuinfo pydantic tqdm setuptools wheel
  "$folder/bin/python" - "$torch" <<'PYTHON'
import glob, site, sys
here, = [path for path in site.getsitepackages() if path.endswith("site-packages")]
there, = glob.glob(sys.argv[1] + "/lib/python*/site-packages")
with open(here + "/torch.pth", "w", encoding="utf-8") as file:
    file.write(there + "\n")
PYTHON
  DS_BUILD_OPS=0 "${pip[@]}" --no-build-isolation --no-deps deepspeed==0.19.8
  touch "$folder/done"  # last: marks a whole environment
fi
folder=$(cd "$folder" && pwd)
export PATH=$folder/bin:$PATH TORCH_EXTENSIONS_DIR=$folder/extensions

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$folder/bin/python" "$here/zero_generated.py" --bin "$build/tools" --work "$work" \
  --generator "$generator" "$@"
