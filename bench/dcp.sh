#!/usr/bin/env bash
# A training state of 5 GB, weights, master weights and moments, from an NxD tag to a torch
# distributed checkpoint and back: against `cp -r` of the same input, against torch's own
# dcp_to_torch_save, and against a plain torch.load and torch.save; interleaved, with the peaks of
# memory. It needs a Python with torch and safetensors (by default that of tests/interop/run.sh).
#   bench/dcp.sh [--rounds N] [--layers N] [--python PYTHON] [--keep] [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/dcp.sh
own_options="layers python"
. bench/common.sh

rounds=3 layers=2 work=build/bench-dcp python=""
parse_options "$@"
prepare_build nxd-convert nxdkit-make-model
prepare_work
[ -n "$python" ] || python=$build/interop-venv/bin/python
[ -x "$(command -v "$python")" ] || { echo "no $python: run tests/interop/run.sh, or name one with --python" >&2; exit 2; }

bin=$build/tools
write_config "$layers" 32768
"$bin/nxdkit-make-model" -q --force --config "$work/config.json" --out "$work/hf"
"$python" bench/dcp_state.py make "$work/hf" "$work/first"
rm -rf "$work/hf"
there=(--from nxd --to dcp --style torchtitan --mesh "dp=4,tp=2")
back=(--from dcp --to nxd --tp 8 --dp 4 --qkv linear --hw trn1)
"$bin/nxd-convert" -q --no-sync --force "${back[@]}" --config "$work/config.json" "$work/first" "$work/tag"
rm -rf "$work/first"
"$bin/nxd-convert" -q --no-sync --force "${there[@]}" "$work/tag" "$work/dcp"
"$python" bench/dcp_state.py to_torch "$work/dcp" "$work/whole.pt"

declare -A rows
measure() {  # row, output, command: adds "seconds CPU-seconds bytes" to the row
  rm -rf "$2"
  warm_memory "$(($(bytes_of "$work/tag") * 5 / 4))"
  rows[$1]+="$("$python" bench/reference_run.py --measure "${@:3}")"$'\n'
}
for ((round = 0; round < rounds; ++round)); do
  measure to-dcp "$work/out" "$bin/nxd-convert" -q --no-sync "${there[@]}" "$work/tag" "$work/out"
  measure cp-tag "$work/out" cp -r "$work/tag" "$work/out"
  measure to-nxd "$work/out" "$bin/nxd-convert" -q --no-sync "${back[@]}" "$work/dcp" "$work/out"
  measure cp-dcp "$work/out" cp -r "$work/dcp" "$work/out"
  measure to-torch "$work/out" "$python" bench/dcp_state.py to_torch "$work/dcp" "$work/out"
  measure load-save "$work/out" "$python" bench/dcp_state.py load_save "$work/whole.pt" "$work/out"
done

printf '%-34s %6s %9s %9s %9s %9s %9s %9s\n' what GB seconds 'CPU s' GB/s 'cp in' 'cp out' 'peak MB'
column() { printf '%s' "${rows[$1]}" | cut -d' ' -f"$2" | median; }
show() {  # row, input, rows of the cp of the input and of the output, text
  awk -v t="$5" -v B="$(bytes_of "$2")" -v s="$(column "$1" 1)" -v c="$(column "$1" 2)" \
    -v m="$(column "$1" 3)" -v cp_in="$(column "$3" 1)" -v cp_out="$(column "$4" 1)" 'BEGIN {
      printf "%-34s %6.2f %9.2f %9.2f %9.2f %8.2fx %8.2fx %9.0f\n", t, B / 1e9, s, c, B / 1e9 / s,
        s / cp_in, s / cp_out, m / 1e6 }'
}
show to-dcp "$work/tag" cp-tag cp-dcp "NxD tag to DCP"
show to-nxd "$work/dcp" cp-dcp cp-tag "DCP to NxD tag"
show cp-tag "$work/tag" cp-tag cp-tag "cp -r of the tag"
show cp-dcp "$work/dcp" cp-dcp cp-dcp "cp -r of the checkpoint"
show to-torch "$work/dcp" cp-dcp cp-dcp "torch's dcp_to_torch_save"
show load-save "$work/whole.pt" cp-dcp cp-dcp "torch.load and torch.save"
echo "cp in, cp out: times the seconds of cp -r of what is read, and of what is written"
echo "load average: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) processors"
