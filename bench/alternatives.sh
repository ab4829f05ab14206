#!/usr/bin/env bash
# Wall time, CPU time and peak memory of nxd-convert against two programs that do the same work:
# optimum-neuron's consolidation of a training checkpoint (TP8, with a file for each tensor and
# without) into a Hugging Face model, and torch's dcp_to_torch; interleaved, and the outputs compared
# tensor by tensor. optimum-neuron is the user's own, an unpacked wheel or a site-packages folder,
# named with --optimum; without it only dcp_to_torch is run. It needs a Python with torch, safetensors
# and transformers (by default that of tests/interop/run.sh). See README.md.
#   bench/alternatives.sh [--optimum FOLDER] [--rounds N] [--layers N] [--python PYTHON]
#                         [--priority N] [--keep] [--work FOLDER] [--build FOLDER]
# --priority N runs what is measured under chrt -f N.
set -euo pipefail
cd "$(dirname "$0")/.."
usage="bench/alternatives.sh"
own_options="optimum layers python priority"
. bench/common.sh

rounds=3 layers=6 work=build/bench-alternatives optimum="" python="" priority=""
parse_options "$@"
prepare_build nxd-convert nxdkit-make-model
prepare_work
[ -n "$python" ] || python=$build/interop-venv/bin/python
[ -x "$(command -v "$python")" ] || { echo "no $python: run tests/interop/run.sh, or name one with --python" >&2; exit 2; }

bin=$build/tools
run=("$python" bench/reference_run.py)
write_config "$layers" 32768
"$bin/nxdkit-make-model" -q --force --config "$work/config.json" --out "$work/hf"
bytes=$(bytes_of "$work/hf")
make() { "$bin/nxd-convert" -q --force --from hf "$@"; }
make --to dcp --mesh "dp=4,tp=2" "$work/hf" "$work/dcp"
pairs=(dcp)
if [ -n "$optimum" ]; then
  make --to nxd --tp 8 --style optimum --xser "$work/hf" "$work/xser"
  make --to nxd --tp 8 --style optimum --no-xser "$work/hf" "$work/plain"
  pairs=(xser plain dcp)
fi

declare -A rows
# Each command runs twice: removing the output of the first run gives the measured one warm memory.
measure() { # row, output, command: adds "seconds CPU-seconds bytes" to the row
  rm -rf "$2"
  "${@:3}" > /dev/null
  rm -rf "$2"
  rows[$1]+="$(${priority:+chrt -f "$priority"} "${run[@]}" --measure "${@:3}")"$'\n'
}
convert() { measure "$1" "$2" "$bin/nxd-convert" -q --no-sync "${@:3}" "$2"; }
compared=()
finish() { # pair: compares the outputs of the first round, and removes them to free the page cache
  if ((round == 0)); then
    compared+=("$1: $("${run[@]}" --compare "$work/ours" "$work/theirs")")
    "${run[@]}" --compare "$work/hf" "$work/theirs" > /dev/null
  fi
  rm -rf "$work/ours" "$work/theirs"
}
for ((round = 0; round < rounds; ++round)); do
  if [ -n "$optimum" ]; then
    for set in xser plain; do
      convert "ours-$set" "$work/ours" --from nxd --to hf "$work/$set"
      measure "theirs-$set" "$work/theirs" "${run[@]}" --optimum "$optimum" "$work/$set/shards" "$work/theirs"
      finish "$set"
    done
    measure imports-optimum "$work/none" "${run[@]}" --optimum "$optimum"
  fi
  convert ours-dcp "$work/ours" --from dcp --to torch "$work/dcp"
  measure theirs-dcp "$work/theirs" "$python" -m torch.distributed.checkpoint.format_utils \
    dcp_to_torch "$work/dcp" "$work/theirs"
  finish dcp
  measure imports-torch "$work/none" "$python" -c "import torch.distributed.checkpoint.format_utils"
done

column() { printf '%s' "${rows[$1]}" | cut -d' ' -f"$2" | median; }
show() { # pair, text
  awk -v t="$2" -v a="$(column "ours-$1" 1)" -v b="$(column "theirs-$1" 1)" \
    -v ca="$(column "ours-$1" 2)" -v cb="$(column "theirs-$1" 2)" \
    -v ma="$(column "ours-$1" 3)" -v mb="$(column "theirs-$1" 3)" -v B="$bytes" 'BEGIN {
      print t
      printf "  ours   %7.2f s %7.2f CPU s %6.2f GB/s  peak %7.0f MB\n", a, ca, B / 1e9 / a, ma / 1e6
      printf "  theirs %7.2f s %7.2f CPU s %6.2f GB/s  peak %7.0f MB\n", b, cb, B / 1e9 / b, mb / 1e6
      printf "  ratio  %7.1f   %7.1f %29.1f\n", b / a, cb / ca, mb / ma }'
}
awk -v B="$bytes" 'BEGIN { printf "qwen3 of %.2f GB, bf16\n", B / 1e9 }'
declare -A texts=([xser]="optimum-neuron, a file for each tensor" [plain]="optimum-neuron, a file for each rank"
  [dcp]="torch, dcp_to_torch")
for pair in "${pairs[@]}"; do show "$pair" "${texts[$pair]}"; done
for program in ${optimum:+optimum} torch; do
  awk -v p="$program" -v s="$(column "imports-$program" 1)" -v c="$(column "imports-$program" 2)" \
    -v m="$(column "imports-$program" 3)" 'BEGIN {
      printf "imports alone, %-8s %6.2f s %7.2f CPU s  peak %7.0f MB\n", p, s, c, m / 1e6 }'
done
printf '%s\n' "${compared[@]}"
echo "load average: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) processors"
