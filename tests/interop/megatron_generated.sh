#!/usr/bin/env bash
# Fifty distributed checkpoints of the real Megatron-Core 0.13.1, 0.15.3, 0.16.1 and 0.19.2,
# generated on the CPU, compared with the tensors that they were made from: megatron_generated.py.
#
# Usage: megatron_generated.sh [BUILD_DIR] [OPTION of megatron_generated.py...]
#                                      (default: $NXDKIT_BUILD, else build/dev of the source tree;
#                                       `ctest -L interop` first, and fsdp_loads.sh)
#
# NXDKIT_MEGATRON_GENERATOR is the folder of make_megatron.py, without which nothing runs; with
# --made ARCHIVE it is not needed, and the runs of testdata/megatron are judged. The releases run
# with torch 2.9 of NXDKIT_TORCH_ENVS, else BUILD_DIR/torch-envs, the folder of fsdp_loads.sh. They
# go into NXDKIT_MEGATRON_ENVS, else BUILD_DIR/megatron-envs, once: 20 megabytes each, 0.19.2 with
# the triton that it imports 600. NXDKIT_INTEROP_PYTHON is another Python with torch and safetensors
# to judge with.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${NXDKIT_BUILD:-$here/../../build/dev}
if [[ ${1:-} && $1 != --* ]]; then
  build=$1
  shift
fi
torch=${NXDKIT_TORCH_ENVS:-$build/torch-envs}/2.9
envs=${NXDKIT_MEGATRON_ENVS:-$build/megatron-envs}
newest=${NXDKIT_INTEROP_PYTHON:-$build/interop-venv/bin/python}
export PYTHONDONTWRITEBYTECODE=1

skip() {
  echo "megatron_generated.sh: skipped: $1"
  exit 0
}
[[ -x $newest ]] || skip "no $newest: run.sh makes it"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --made needs neither the generator nor the releases.
pythons=()
generator=${NXDKIT_MEGATRON_GENERATOR:-}
if [[ " $* " != *" --made"* ]]; then
  [[ $generator ]] || skip "NXDKIT_MEGATRON_GENERATOR names no folder of make_megatron.py"
  [[ -e $generator/make_megatron.py ]] || skip "no make_megatron.py in $generator"
  [[ -x $torch/bin/python ]] || skip "no torch 2.9 in ${torch%/2.9}: fsdp_loads.sh makes it"
  for release in 0.13.1 0.15.3 0.16.1 0.19.2; do
    folder=$envs/$release
    if [[ ! -e $folder/done ]]; then
      more=()
      [[ $release == 0.19.2 ]] && more=(triton==3.5.1)
      rm -rf "$folder"
      "$torch/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
        --ignore-requires-python --target "$folder" "megatron-core==$release" psutil "${more[@]}"
      touch "$folder/done"  # last: marks a whole environment
    fi
    cat >"$work/python-$release" <<PYTHON
#!/usr/bin/env bash
export PYTHONPATH=$folder
LD_LIBRARY_PATH=$torch/stubs exec $torch/bin/python "\$@"
PYTHON
    chmod +x "$work/python-$release"
    pythons+=("$release=$work/python-$release")
  done
fi

"$newest" "$here/megatron_generated.py" --bin "$build/tools" --work "$work" \
  --generator "$generator" "$@" "${pythons[@]}"
