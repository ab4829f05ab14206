#!/usr/bin/env bash
# Eighty runs of FSDP rank files, made anew by the real torch 2.6, 2.9 and that of the other interop
# tests, against what torch gathered and against the mergers of verl and EasyR1: fsdp_generated.py.
#
# Usage: fsdp_generated.sh [BUILD_DIR] [OPTION of fsdp_generated.py...]
#                                      (default: $NXDKIT_BUILD, else build/dev of the source tree;
#                                       `ctest -L interop` first, and fsdp_loads.sh)
#
# NXDKIT_RANK_FILES_GENERATOR is the folder of make_rank_files.py, without which nothing is run.
# NXDKIT_VERL_SOURCE and NXDKIT_EASYR1_SOURCE are checkouts of the two trainers: the merger of one
# that is not named is not run. NXDKIT_TORCH_ENVS is the folder of fsdp_loads.sh, else
# BUILD_DIR/torch-envs; the runs of a release that is not there are skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${NXDKIT_BUILD:-$here/../../build/dev}
if [[ ${1:-} && $1 != --* ]]; then
  build=$1
  shift
fi
envs=${NXDKIT_TORCH_ENVS:-$build/torch-envs}
newest=$build/interop-venv/bin/python
export PYTHONDONTWRITEBYTECODE=1

skip() {
  echo "fsdp_generated.sh: skipped: $1"
  exit 0
}
generator=${NXDKIT_RANK_FILES_GENERATOR:-}
[[ $generator ]] || skip "NXDKIT_RANK_FILES_GENERATOR names no folder of make_rank_files.py"
[[ -e $generator/make_rank_files.py ]] || skip "no make_rank_files.py in $generator"
[[ -x $newest ]] || skip "no $newest: run.sh makes it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources=()
for trainer in verl easyr1; do
  name=NXDKIT_${trainer^^}_SOURCE
  if [[ ${!name:-} ]]; then
    sources+=("--$trainer" "${!name}")
  else
    echo "fsdp_generated.sh: $name names no checkout: the merger of $trainer is not run"
  fi
done

# A Python for each release: fsdp_loads.sh made environments with the libraries that torch misses.
pythons=("newest=$newest")
for release in 2.6 2.9; do
  if [[ -e $envs/$release/done || -x $envs/$release/bin/python ]]; then
    cat >"$work/python-$release" <<PYTHON
#!/usr/bin/env bash
LD_LIBRARY_PATH=$envs/$release/stubs exec $envs/$release/bin/python "\$@"
PYTHON
    chmod +x "$work/python-$release"
    pythons+=("$release=$work/python-$release")
  else
    echo "fsdp_generated.sh: no torch $release in $envs: fsdp_loads.sh makes it"
  fi
done

"$newest" "$here/fsdp_generated.py" --bin "$build/tools" --work "$work" --generator "$generator" \
  "${sources[@]}" "$@" "${pythons[@]}"
