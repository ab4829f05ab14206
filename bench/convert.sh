#!/usr/bin/env bash
# Conversions of a model of 5.2 GB against `cp -r` of the same input, interleaved, and against the
# limit of writing the same bytes. See README.md for how it is taken and what it means.
#   bench/convert.sh [--rounds N] [--keep] [--work FOLDER] [--bin BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 keep=0 work=build/bench build=
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --keep) keep=1; shift ;;
    --work) work=$2; shift 2 ;;
    --bin) build=$2; shift 2 ;;
    *) echo "usage: bench/convert.sh [--rounds N] [--keep] [--work FOLDER] [--bin BUILD_FOLDER]" >&2; exit 2 ;;
  esac
done

if [ -z "$build" ]; then
  build=build/release
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DNXDKIT_TESTS=OFF -DNXDKIT_BENCH=ON >/dev/null
  ninja -C $build >/dev/null
fi
bin=$build/tools
mkdir -p "$work"
trap '[ $keep = 1 ] || rm -rf "$work"' EXIT

# The shapes of Qwen3-4B with half its layers and an lm_head of its own, so that every layout has
# the same bytes: 2.6 G parameters, 5.2 GB in bf16.
cat > "$work/config.json" <<'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728,
 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 18,
 "vocab_size": 151936, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON

now() { echo "$EPOCHREALTIME"; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }'; }
bytes_of() { du -sb --apparent-size "$1" | cut -f1; }

"$bin/nxdkit-make-model" -q --config "$work/config.json" --out "$work/hf" --force
"$bin/nxd-convert" -q --no-sync --force --from hf --to nxd --tp 8 --qkv linear "$work/hf" "$work/nxd"
"$bin/nxd-convert" -q --no-sync --force --from nxd --to rollout --tp 8 --bs 64 --seq 4096 "$work/nxd" "$work/rollout"

# Every measured output replaces one of the same size that was removed just before, for cp as for
# us: free memory that the kernel still has at hand is warm, and memory it gave back is not.
measure_ours() {  # name, extra options..., input
  local name=$1 input=$2; shift 2
  rm -rf "$work/out.$name"
  local start; start=$(now)
  "$bin/nxd-convert" -q --json "$@" "$input" "$work/out.$name" > "$work/$name.json"
  since "$start"
}
measure_cp() {
  rm -rf "$work/out.cp"
  local start; start=$(now)
  cp -r "$1" "$work/out.cp"
  since "$start"
}
measure_cp_sync() {
  rm -rf "$work/out.cp"
  local start; start=$(now)
  cp -r "$1" "$work/out.cp"
  find "$work/out.cp" -type f -exec sync {} +
  since "$start"
}
measure_limit() {
  rm -rf "$work/out.limit"
  "$build/bench/write_limit" "$1" "$work/out.limit" 2 | cut -d' ' -f1
}
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

peak_of() { sed -n 's/.*"peak_memory_bytes":\([0-9]*\).*/\1/p' "$work/$1.json"; }

printf '%-18s %6s %10s %10s %10s %10s %9s %9s %8s\n' conversion GB 'ours s' 'cp s' 'limit s' 'ours GB/s' 'vs cp' 'vs limit' 'peak MB'
run_case() {  # name, input, options...
  local name=$1 input=$2; shift 2
  local ours=() cps=() limits=() synced=() cps_synced=()
  for ((i = 0; i < rounds; ++i)); do
    ours+=("$(measure_ours "$name" "$input" --no-sync "$@")")
    cps+=("$(measure_cp "$input")")
    rm -rf "$work/out.cp"
    limits+=("$(measure_limit "$work/out.$name")")
    rm -rf "$work/out.limit"
    synced+=("$(measure_ours "$name" "$input" --sync "$@")")
    cps_synced+=("$(measure_cp_sync "$input")")
    rm -rf "$work/out.cp"
  done
  local bytes; bytes=$(bytes_of "$work/out.$name")
  local a b c d e
  a=$(printf '%s\n' "${ours[@]}" | median); b=$(printf '%s\n' "${cps[@]}" | median); c=$(printf '%s\n' "${limits[@]}" | median)
  d=$(printf '%s\n' "${synced[@]}" | median); e=$(printf '%s\n' "${cps_synced[@]}" | median)
  awk -v n="$name" -v B="$bytes" -v a="$a" -v b="$b" -v c="$c" -v p="$(peak_of "$name")" \
    'BEGIN { printf "%-18s %6.2f %10.2f %10.2f %10.2f %10.2f %8.2fx %8.2fx %8.0f\n", n, B / 1e9, a, b, c, B / 1e9 / a, b / a, c / a, p / 1e6 }'
  awk -v n="$name, synced" -v B="$bytes" -v a="$d" -v b="$e" \
    'BEGIN { printf "%-18s %6.2f %10.2f %10.2f %10s %10.2f %8.2fx\n", n, B / 1e9, a, b, "-", B / 1e9 / a, b / a }'
  rm -rf "$work/out.$name"
}
run_case nxd-to-rollout "$work/nxd" --from nxd --to rollout --tp 8 --bs 64 --seq 4096
run_case hf-to-nxd "$work/hf" --from hf --to nxd --tp 8 --qkv linear
run_case rollout-to-hf "$work/rollout" --from rollout --to hf
