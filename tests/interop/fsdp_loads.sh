#!/usr/bin/env bash
# The outputs of nxd-convert --to fsdp for another number of ranks are loaded as EasyR1 and verl
# load them, by the real torch 2.6, 2.9 and that of the other interop tests: see fsdp_loads.py. A
# run resumes in the release that wrote it, or in another that --torch names.
#
# Usage: fsdp_loads.sh [BUILD_DIR]     (default: $NXDKIT_BUILD, else build/dev of the source tree;
#                                       `ctest -L interop` first)
#
# The other releases go into BUILD_DIR/torch-envs once, two gigabytes each; NXDKIT_TORCH_ENVS names
# another folder for them. NXDKIT_FSDP_CUT names another program to cut with, called as
# PROGRAM CASE RUN OUT MESH RELEASE [OPTION...].
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-${NXDKIT_BUILD:-$here/../../build/dev}}
envs=${NXDKIT_TORCH_ENVS:-$build/torch-envs}
runs=$here/../../testdata/rank_files
newest=$build/interop-venv/bin/python
export PYTHONDONTWRITEBYTECODE=1

# CASE, MESH of nxd-convert, RELEASE that loads it, and for a run converted to another form the
# options of fsdp_loads.py for it (--style is nxd-convert's --for). 2.12 has no environment of its
# own: that run resumes in the newest.
cases='
easyr1-w2-qwen3          dp=3 2.6
easyr1-w3-uneven         dp=2 2.6
easyr1-w3-uneven         dp=1 2.6
easyr1-w1-plain          dp=3 2.6
verl-fsdp1-flat          dp=2 2.6
verl-fsdp1-flat          dp=5 2.6
easyr1-w2-qwen3          dp=3 2.9
verl-fsdp2-w8            dp=3 2.9
verl-fsdp2-frozen-groups dp=3 2.9
easyr1-w2-qwen3          dp=3 newest
verl-fsdp2-w1            dp=2 newest
verl-fsdp2-hsdp2x2       dp=3 newest
easyr1-w2-qwen3          dp=3 2.6 --style verl --fsdp 1
easyr1-w2-qwen3          dp=3 2.9 --style verl --fsdp 2
verl-fsdp1-flat          dp=2 2.6 --style easyr1 --fsdp 1
verl-fsdp2-w8            dp=3 2.9 --style verl --fsdp 1
verl-fsdp2-w8            dp=3 newest --style easyr1 --fsdp 2
'

# PyPI's torch without the CUDA packages that it requires.
make_environment() {  # RELEASE TORCH TRANSFORMERS
  local folder=$envs/$1
  [[ -e $folder/done ]] && return
  rm -rf "$folder"
  python3 -m venv "$folder"
  local pip=("$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir)
  "${pip[@]}" filelock typing-extensions sympy networkx jinja2 fsspec numpy safetensors packaging \
    "transformers==$3"
  "${pip[@]}" --no-deps "torch==$2"
  "$folder/bin/python" "$here/torch_cpu_stubs.py" "$folder/stubs"
  touch "$folder/done"  # last: marks a whole environment
}

torch_of() {
  if [[ $1 != newest ]]; then
    echo "$1"
  else
    "$newest" -c 'from importlib import metadata; print(metadata.version("torch"))' |
      grep -o '^[0-9]*\.[0-9]*'
  fi
}

cut_run() {  # CASE RUN OUT MESH RELEASE [OPTION...]
  if [[ ${NXDKIT_FSDP_CUT:-} ]]; then
    "$NXDKIT_FSDP_CUT" "$@"
  else
    "$build/tools/nxd-convert" --no-sync --to fsdp --mesh "$4" --torch "$5" "${@:6}" "$2" "$3"
  fi
}

load() {  # RELEASE
  local python=$newest libraries=
  if [[ $1 != newest ]]; then
    python=$envs/$1/bin/python
    libraries=$envs/$1/stubs
  fi
  LD_LIBRARY_PATH=$libraries "$python" "$here/fsdp_loads.py" --plan "$work/$1.plan"
}

make_environment 2.6 2.6.0 4.51.3
make_environment 2.9 2.9.1 4.57.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

failed=0
made=0
while read -r name mesh release options; do
  [[ $name ]] || continue
  out=$work/$((made += 1))
  read -ra form <<<"${options/--style/--for}"
  if cut_run "$name" "$runs/$name" "$out" "$mesh" "$(torch_of "$release")" "${form[@]}" \
    >"$work/log" 2>&1 </dev/null; then
    echo "$name '$out' ${mesh#dp=} $options" >>"$work/$release.plan"
  else
    echo "$name to $mesh $options for torch $release: not cut:"
    cat "$work/log"
    failed=1
  fi
done <<<"$cases"
for release in 2.6 2.9 newest; do
  [[ ! -e $work/$release.plan ]] || load "$release" || failed=1
done
exit "$failed"
