#!/usr/bin/env bash
# The Python package against its limits: a rank's slice against pread of the same runs, opening a set of
# many files against reading their headers, a bundle from a trainer's memory against --into from files
# and torch.save. See README.md. Needs a Python with torch (by default that of tests/interop/run.sh).
#   bench/python.sh [--rounds N] [--layers N] [--python PYTHON] [--keep] [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/python.sh
own_options="layers python"
. bench/common.sh

rounds=5 layers=6 work=build/bench-python python=""
parse_options "$@"
prepare_build nxdkit slice_limit
prepare_work
[ -n "$python" ] || python=$build/interop-venv/bin/python
[ -x "$(command -v "$python")" ] || { echo "no $python: run tests/interop/run.sh, or name one with --python" >&2; exit 2; }

bin=$build/tools
write_config "$layers" 32000
"$bin/nxdkit-make-model" -q --config "$work/config.json" --out "$work/hf" --force >/dev/null
"$bin/nxdkit-make-model" -q --config "$work/config.json" --max-shard-size 1500KB --out "$work/many" --force >/dev/null
"$bin/nxd-convert" -q --no-sync --force --to rollout --tp 8 "$work/hf" "$work/bundle" >/dev/null
PYTHONPATH=tools/python NXDKIT_LIBRARY=$bin/libnxdkit.so.1 "$python" bench/python_bench.py \
  --work "$work" --rounds "$rounds" --limit "$build/bench/slice_limit"
