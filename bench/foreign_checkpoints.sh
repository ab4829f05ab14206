#!/usr/bin/env bash
# Checkpoints of other trainers to Hugging Face's layout: ZeRO folders of DeepSpeed's stages 2 and 3
# on 8 ranks, and a torch_dist checkpoint of Megatron-Core at TP 4 and PP 2, each of a qwen3 whose
# weights are 1.2 GB in BF16, made by foreign_checkpoints.py. Compared with the limit, `cp -r` of
# the files that are read and of those that are written, and with DeepSpeed's own zero_to_fp32,
# which writes F32; interleaved, from the page cache and from the disk, with the peaks of memory.
# The resulting weights are checked once for each.
#   bench/foreign_checkpoints.sh [--rounds N] [--size MB] [--ranks N] [--moments 1] [--kinds KINDS]
#                                [--python PYTHON] [--keep] [--work FOLDER] [--build FOLDER]
# --size is the size of the weights in BF16; the files take six times as much, by default at most 8
# GB, or ten times with --moments, which adds Adam's moments to the master weights. --kinds lists
# some of "zero2 zero3 megatron". --python has torch (by default that of tests/interop/run.sh).
# zero_to_fp32 is run where NXDKIT_DEEPSPEED_PYTHON names a Python with deepspeed, in the
# environment of this script.
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/foreign_checkpoints.sh
own_options="size ranks moments kinds python"
. bench/common.sh

rounds=3 size=1200 ranks=8 moments=0 kinds="zero2 zero3 megatron" work=build/bench-foreign python=""
parse_options "$@"
if ((size * (moments ? 10 : 6) > 8000)); then
  echo "--size $size takes more than 8 GB of disk: at most $((8000 / (moments ? 10 : 6)))" >&2
  exit 2
fi
prepare_build nxd-convert
for folder in "$build" build/dev; do
  [ -n "$python" ] || [ ! -x "$folder/interop-venv/bin/python" ] ||
    python=$folder/interop-venv/bin/python
done
[ -x "$(command -v "$python")" ] || {
  echo "no Python with torch: run tests/interop/run.sh, or name one with --python" >&2
  exit 2
}
theirs=(env DS_ACCELERATOR=cpu "${NXDKIT_DEEPSPEED_PYTHON:-}")
peer=0 peer_options=()
if [ -z "${NXDKIT_DEEPSPEED_PYTHON:-}" ]; then
  echo "zero_to_fp32 is left out: NXDKIT_DEEPSPEED_PYTHON names no Python" >&2
elif ! "${theirs[@]}" -c "import deepspeed.utils.zero_to_fp32" > /dev/null 2>&1; then
  echo "zero_to_fp32 is left out: $NXDKIT_DEEPSPEED_PYTHON cannot import it" >&2
else
  peer=1
  # Safetensors, like ours, if it can: faster than the torch archive that it writes otherwise.
  ! "${theirs[@]}" -c "import safetensors" 2> /dev/null || peer_options=(--safe_serialization)
fi
prepare_work

bin=$build/tools
run=$work/run hf=$work/hf out=$work/out
foreign() { "$python" bench/foreign_checkpoints.py "$1" "$kind" "$2" --size "$size" "${@:3}"; }

declare -A rows
measure() {  # row, bytes written, folder read, command: adds to the row of the kind
  rm -rf "$out"
  warm_memory "$2"
  local files file
  mapfile -t files < <(find "$3" -type f)
  if [ "$cache" = memory ]; then
    cat "${files[@]}" > /dev/null
  else  # makes the kernel drop its cached pages of these files
    for file in "${files[@]}"; do dd if="$file" iflag=nocache count=0 status=none; done
  fi
  rows[$kind-$1-$cache]+="$(python3 bench/reference_run.py --measure "${@:4}")"$'\n'
}
merge() {
  measure peer $((written * 2)) "$run" "${theirs[@]}" -m deepspeed.utils.zero_to_fp32 "$run" \
    "$out" "${peer_options[@]}" 2> "$work/peer.log" || {
    cat "$work/peer.log" >&2
    return 1
  }
}

# The files that a conversion reads, for cp: at stage 2 the weights, at stage 3 the master weights.
# With moments these are in one file with them, so nothing is copied then.
list_read() {
  case $kind-$moments in
    zero2-*) ls "$run"/global_step*/mp_rank_00_model_states.pt ;;
    zero3-0) ls -d "$run"/global_step* ;;
    megatron-*) ls -d "$run"/iter_* ;;
  esac
}

make_kind() {
  rm -rf "$run" "$hf" "$out"
  local options=(--ranks "$ranks")
  [ "$moments" = 0 ] || options+=(--moments)
  foreign make "$run" "${options[@]}"
  "$bin/nxd-convert" -q --no-sync --max-memory 64MiB --to hf "$run" "$hf" > /dev/null
  foreign check "$hf" > "$work/check.log"
  find "$run" "$hf" -type f -exec sync {} +  # unwritten pages are not dropped
  written=$(bytes_of "$hf")
  mapfile -t sources < <(list_read)
  of_read[$kind]=0
  for file in "${sources[@]}"; do of_read[$kind]=$((of_read[$kind] + $(bytes_of "$file"))); done
  of_written[$kind]=$written
}

declare -A of_read of_written
for kind in $kinds; do
  make_kind
  for ((round = 0; round < rounds; ++round)); do
    for cache in memory disk; do
      measure hf "$written" "$run" "$bin/nxd-convert" -q --no-sync --max-memory 64MiB --to hf \
        "$run" "$out"
      [ ${#sources[@]} = 0 ] || measure read "${of_read[$kind]}" "$run" cp -r "${sources[@]}" "$out"
      measure written "$written" "$hf" cp -r "$hf" "$out"
      [ "$peer" = 0 ] || [ "$kind" = megatron ] || merge
    done
  done
done
rm -rf "$run" "$hf" "$out"

declare -A text=([hf]="nxd-convert --to hf" [read]="cp -r of what is read"
  [written]="cp -r of what is written" [peer]="zero_to_fp32, to F32")
declare -A title=([zero2]="ZeRO stage 2" [zero3]="ZeRO stage 3"
  [megatron]="Megatron-Core torch_dist")
column() {  # row, number: the median, or nothing if the row was not measured
  [ -z "${rows[$kind-$1-$cache]:-}" ] ||
    printf '%s' "${rows[$kind-$1-$cache]}" | cut -d' ' -f"$2" | median
}
show() {  # row
  awk -v t="${text[$1]}" -v f="$cache" -v B="${of_written[$kind]}" -v s="$(column "$1" 1)" \
    -v c="$(column "$1" 2)" -v m="$(column "$1" 3)" -v cp_in="$(column read 1)" \
    -v cp_out="$(column written 1)" -v peer="$(column peer 1)" '
      function times(other) { return other == "" ? "-" : sprintf("%.3gx", s / other) }
      BEGIN { printf "%-28s %-6s %8.2f %8.2f %8.2f %8s %8s %8s %9.0f\n", t, f, s, c, B / 1e9 / s,
                times(cp_in), times(cp_out), times(peer), m / 1e6 }'
}
for kind in $kinds; do
  awk -v t="${title[$kind]}" -v r="${of_read[$kind]}" -v w="${of_written[$kind]}" 'BEGIN {
    printf "%s: %s%.2f GB are written\n", t, r ? sprintf("%.2f GB are read, ", r / 1e9) : "",
      w / 1e9 }'
  printf '%-28s %-6s %8s %8s %8s %8s %8s %8s %9s\n' what from seconds 'CPU s' GB/s 'cp in' \
    'cp out' peer 'peak MB'
  for cache in memory disk; do
    for row in hf read written peer; do
      [ -z "${rows[$kind-$row-$cache]:-}" ] || show "$row"
    done
  done
done
echo "cp in, cp out, peer: times the seconds of cp -r of what is read, of cp -r of what is written,"
echo "and of zero_to_fp32; from: the page cache, or the disk; GB/s: of the BF16 weights"
python3 bench/reference_run.py --measure true | awk '{
  printf "peak MB: the first %.0f are those of the Python that measures\n", $3 / 1e6 }'
if [ "$peer" = 1 ]; then
  printf 'zero_to_fp32: its imports alone take %s s; %s\n' \
    "$(timed "${theirs[@]}" -c "import deepspeed.utils.zero_to_fp32" 2> /dev/null)" \
    "it writes twice the bytes"
fi
echo "load average: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) processors"
