#!/usr/bin/env bash
# The rank files of an FSDP run of 2.4 GB, the shapes of Qwen3-0.6B in F32 on 8 ranks, to Hugging
# Face's layout and to NxD TP8: against `cp -r` of the same files, which have as many bytes, and
# against verl's own merger; interleaved, from the page cache and from the disk, with the peaks of
# memory. The merger runs if a checkout of verl is named; it needs a Python with torch and
# transformers (by default that of tests/interop/run.sh). See README.md.
#   bench/fsdp_rank_files.sh [--rounds N] [--ranks N] [--verl CHECKOUT] [--python PYTHON] [--keep]
#                            [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/fsdp_rank_files.sh
own_options="ranks verl python"
. bench/common.sh

rounds=3 ranks=8 work=build/bench-fsdp verl="" python=""
parse_options "$@"
prepare_build nxd-convert nxdkit-make-model
[ -n "$python" ] || python=$build/interop-venv/bin/python
peer=0
if [ -z "$verl" ]; then
  echo "verl's merger is left out: name a checkout with --verl" >&2
elif [ ! -x "$(command -v "$python")" ]; then
  echo "verl's merger is left out: no $python (--python, or tests/interop/run.sh)" >&2
else
  peer=1
fi
prepare_work

# The shapes of Qwen3-0.6B with half of its vocabulary and an lm_head of its own: as many bytes, and
# the same in every layout.
bin=$build/tools
cat > "$work/config.json" <<'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024,
 "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
 "num_hidden_layers": 28, "vocab_size": 75968, "tie_word_embeddings": false,
 "torch_dtype": "float32"}
JSON
"$bin/nxdkit-make-model" -q --force --config "$work/config.json" --dtype f32 --out "$work/hf" \
  > /dev/null
rm -rf "$work/run"
"$bin/nxd-convert" -q --from hf --to fsdp --mesh "dp=$ranks" --for verl --fsdp 2 --torch 2.15 \
  "$work/hf" "$work/run" > /dev/null
rm -rf "$work/hf"
rank_zero=$(find "$work/run" -name 'model_world_size_*_rank_0.pt')
files=${rank_zero%/*}
bytes=$(bytes_of "$files")

declare -A rows
measure() {  # row, command: adds "seconds CPU-seconds bytes" to the row; the command writes out
  rm -rf "$work/out"
  warm_memory "$bytes"
  if [ "$cache" = memory ]; then
    cat "$files"/*.pt > /dev/null
  else  # makes the kernel drop its cached pages of these files
    for file in "$files"/*.pt; do dd if="$file" iflag=nocache count=0 status=none; done
  fi
  rows[$1-$cache]+="$(python3 bench/reference_run.py --measure "${@:2}")"$'\n'
}
convert() {
  measure "$1" "$bin/nxd-convert" -q --no-sync --max-memory 64MiB "${@:2}" "$work/run" "$work/out"
}
merge() { measure verl "$python" tests/interop/fsdp_merger.py verl "$verl" "$files" "$work/out"; }

for ((round = 0; round < rounds; ++round)); do
  for cache in memory disk; do
    convert hf --to hf
    measure cp cp -r "$files" "$work/out"
    convert nxd --to nxd --tp 8
    [ "$peer" = 0 ] || merge 2> /dev/null
  done
done
rm -rf "$work/out"

declare -A text=([hf]="nxd-convert --to hf" [nxd]="nxd-convert --to nxd --tp 8" [cp]="cp -r"
  [verl]="verl's merger, to BF16")
column() { printf '%s' "${rows[$1-$cache]}" | cut -d' ' -f"$2" | median; }
printf '%-28s %-6s %8s %8s %8s %8s %9s\n' what from seconds 'CPU s' GB/s 'vs cp' 'peak MB'
for cache in memory disk; do
  for row in hf nxd cp verl; do
    [ -n "${rows[$row-$cache]:-}" ] || continue
    awk -v t="${text[$row]}" -v f="$cache" -v B="$bytes" -v s="$(column "$row" 1)" \
      -v c="$(column "$row" 2)" -v m="$(column "$row" 3)" -v cp="$(column cp 1)" 'BEGIN {
        printf "%-28s %-6s %8.2f %8.2f %8.2f %7.2fx %9.0f\n", t, f, s, c,
          B / 1e9 / s, s / cp, m / 1e6 }'
  done
done
echo "vs cp: times the seconds of cp -r of the rank files; from: the page cache, or the disk"
awk -v B="$bytes" -v n="$ranks" 'BEGIN { printf "%.2f GB of rank files on %d ranks; ", B / 1e9, n }'
echo "load average: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) processors"
