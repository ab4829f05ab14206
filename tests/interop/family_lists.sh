#!/usr/bin/env bash
# The lists of tensors that transformers 5 and 4 save for the models of testdata/families, with the torch of the other interop
# tests. A release that saves other tensors fails only here: the daily tests use the stored lists.
#
# Usage: family_lists.sh [BUILD_DIR]     (default: $NXDKIT_BUILD, else build/dev of the source tree; `ctest -L interop` first)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-${NXDKIT_BUILD:-$here/../../build/dev}}
python=$build/interop-venv/bin/python
packages=$build/transformers-4

if [[ ! -e $packages/done ]]; then
  rm -rf "$packages"
  "$python" -m pip install --quiet --disable-pip-version-check --target "$packages" "transformers==4.57.*"
  rm -rf "$packages"/torch "$packages"/torch-* "$packages"/nvidia*  # the other environment has it
  touch "$packages/done"
fi
"$python" "$here/family_lists.py"
PYTHONPATH=$packages "$python" "$here/family_lists.py"
