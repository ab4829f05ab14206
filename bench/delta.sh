#!/usr/bin/env bash
# A delta of a model of 1.5 GB, one element in a hundred changed: its size, and the speed of making
# and applying it, against a whole refresh and against `cp` of the same weights. See README.md.
#   bench/delta.sh [--rounds N] [--layers N] [--percent P] [--keep] [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/delta.sh
own_options="layers percent"
. bench/common.sh

rounds=3 layers=6 percent=1 work=build/bench-delta
parse_options "$@"
prepare_build nxd-convert nxdkit-make-model perturb
prepare_work

bin=$build/tools
write_config "$layers" 32000

convert() { "$bin/nxd-convert" -q "$@" >/dev/null; }

"$bin/nxdkit-make-model" -q --config "$work/config.json" --out "$work/old" --force >/dev/null
rm -rf "$work/new"
cp -r "$work/old" "$work/new"
"$build/bench/perturb" "$work/new" "$percent" 1
convert --no-sync --force --from hf --to nxd --tp 8 --qkv linear "$work/new" "$work/nxd"
convert --no-sync --force --from hf --to rollout --tp 8 "$work/old" "$work/bundle"
bytes=$(bytes_of "$work/new/model.safetensors")
weights=$work/bundle/checkpoint/weights

# Back and forth, so that every application finds its base; both slots exist from then on.
make_delta() { convert --no-sync --force --from nxd --to delta --base "$work/bundle" --coding "$1" "$work/nxd" "$work/$1.delta"; }
apply() { convert --from delta --to rollout --into "$1" "$work/bundle"; }
back() { convert --from hf --to rollout --into "$work/old" "$work/bundle"; }
back; back
copy_over() { cp -r "$weights/." "$work/copy/"; }
mkdir -p "$work/copy"; copy_over

made_raw=() made_ulp=() applied_raw=() applied_ulp=() whole=() copied=()
for ((i = 0; i < rounds; ++i)); do
  made_raw+=("$(timed make_delta raw)")
  made_ulp+=("$(timed make_delta ulp)")
  applied_raw+=("$(timed apply "$work/raw.delta")"); back
  applied_ulp+=("$(timed apply "$work/ulp.delta")"); back
  whole+=("$(timed back)")
  copied+=("$(timed copy_over)")
done
awk -v B="$bytes" -v p="$percent" 'BEGIN { printf "%.2f GB dense, %s %% of the elements changed\n", B / 1e9, p }'
for coding in raw ulp; do
  awk -v c="$coding" -v B="$bytes" -v D="$(stat -c %s "$work/$coding.delta")" \
    'BEGIN { printf "%-28s %8.2f MB %6.2f %% of the dense bytes\n", c " delta", D / 1e6, 100 * D / B }'
done
row() { awk -v n="$1" -v t="$(median_of "${@:2}")" -v B="$bytes" 'BEGIN { printf "%-28s %8.3f s %6.2f GB/s\n", n, t, B / 1e9 / t }'; }
row 'made, raw' "${made_raw[@]}"
row 'made, ulp' "${made_ulp[@]}"
row 'applied and proved, raw' "${applied_raw[@]}"
row 'applied and proved, ulp' "${applied_ulp[@]}"
row 'whole refresh (--into)' "${whole[@]}"
row 'cp over existing files' "${copied[@]}"
