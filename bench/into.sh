#!/usr/bin/env bash
# Refreshing a bundle in use (nxd-convert --into) against `cp` of the same weights over an existing
# copy, and against `cp` into new files; interleaved. See README.md.
#   bench/into.sh [--rounds N] [--layers N] [--keep] [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/into.sh
own_options="layers"
. bench/common.sh

rounds=5 layers=6 work=build/bench-into
parse_options "$@"
prepare_build nxd-convert nxdkit-make-model
prepare_work

bin=$build/tools
write_config "$layers" 32000

{
"$bin/nxdkit-make-model" -q --config "$work/config.json" --out "$work/hf" --force
"$bin/nxd-convert" -q --no-sync --force --from hf --to nxd --tp 8 --qkv linear "$work/hf" "$work/nxd"
"$bin/nxd-convert" -q --no-sync --force --from hf --to rollout --tp 8 "$work/hf" "$work/bundle"
} > /dev/null
weights=$work/bundle/checkpoint/weights
bytes=$(bytes_of "$weights")

# shellcheck disable=SC2120  # options come through timed
refresh() { "$bin/nxd-convert" -q --from nxd --to rollout --into "$@" "$work/nxd" "$work/bundle" >/dev/null; }
copy_over() { cp -r "$weights/." "$work/copy/"; }
copy_new() { cp -rL "$weights" "$work/copy.new"; }
# Twice: from then on both slots exist, and the copy too.
for slot in 1 2; do refresh --label "$slot"; done
mkdir -p "$work/copy"; copy_over

into=() synced=() over=() new=()
for ((i = 0; i < rounds; ++i)); do
  into+=("$(timed refresh)")
  over+=("$(timed copy_over)")
  rm -rf "$work/copy.new"
  new+=("$(timed copy_new)")
  synced+=("$(timed refresh --sync)")
done
a=$(median_of "${into[@]}") b=$(median_of "${over[@]}") c=$(median_of "${new[@]}") d=$(median_of "${synced[@]}")
printf '%-34s %8s %8s %10s\n' "$(awk -v B="$bytes" 'BEGIN { printf "%.2f GB of weights, tp 8", B / 1e9 }')" s GB/s 'vs --into'
row() { awk -v n="$1" -v t="$2" -v a="$a" -v B="$bytes" 'BEGIN { printf "%-34s %8.3f %8.2f %9.2fx\n", n, t, B / 1e9 / t, t / a }'; }
row 'nxd-convert --into' "$a"
row 'nxd-convert --into --sync' "$d"
row 'cp into new files' "$c"
row 'cp over existing files' "$b"
