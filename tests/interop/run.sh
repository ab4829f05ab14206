#!/usr/bin/env bash
# Runs every *_interop.py against the real Python packages.
#
# Usage: run.sh [BUILD_DIR]     (default: $NXDKIT_BUILD, else build/dev of the source tree)
#
# The packages go into BUILD_DIR/interop-venv once. A package that cannot be installed is a failure,
# not a skip: a check that silently does not run is worth nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-${NXDKIT_BUILD:-$here/../../build/dev}}
venv=$build/interop-venv
bin=$build/tests/interop

if ! cmp -s "$here/requirements.txt" "$venv/installed.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/installed.txt"  # last: marks a whole environment
fi

ran=0
failed=()
for script in "$here"/*_interop.py; do
  [[ -e $script ]] || continue
  echo "== $(basename "$script")"
  ran=$((ran + 1))
  "$venv/bin/python" "$script" --bin-dir "$bin" || failed+=("$(basename "$script")")
done

if ((ran == 0)); then
  echo "no *_interop.py found in $here" >&2
  exit 1
fi
if ((${#failed[@]} > 0)); then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
echo "$ran scripts passed"
