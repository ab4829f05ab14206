#!/usr/bin/env bash
# Refreshing a bundle in use (nxd-convert --into) against `cp` of the same weights over a copy that
# is there, and against `cp` into new files; interleaved. See README.md.
#   bench/into.sh [--rounds N] [--layers N] [--keep] [--work FOLDER] [--bin FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=5 layers=6 keep=0 work=build/bench-into bin=build/release/tools
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --layers) layers=$2; shift 2 ;;
    --keep) keep=1; shift ;;
    --work) work=$2; shift 2 ;;
    --bin) bin=$2; shift 2 ;;
    *) echo "usage: bench/into.sh [--rounds N] [--layers N] [--keep] [--work FOLDER] [--bin FOLDER]" >&2; exit 2 ;;
  esac
done
if [ "$bin" = build/release/tools ]; then
  cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DNXDKIT_TESTS=OFF >/dev/null
  ninja -C build/release nxd-convert nxdkit-make-model >/dev/null
fi
mkdir -p "$work"
trap '[ $keep = 1 ] || rm -rf "$work"' EXIT

# The shapes of Qwen3-4B with fewer layers and an lm_head of its own.
cat > "$work/config.json" <<JSON
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728,
 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": $layers,
 "vocab_size": 32000, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON

since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

{
"$bin/nxdkit-make-model" -q --config "$work/config.json" --out "$work/hf" --force
"$bin/nxd-convert" -q --no-sync --force --from hf --to nxd --tp 8 --qkv linear "$work/hf" "$work/nxd"
"$bin/nxd-convert" -q --no-sync --force --from hf --to rollout --tp 8 "$work/hf" "$work/bundle"
} > /dev/null
weights=$work/bundle/checkpoint/weights
bytes=$(du -sbL --apparent-size "$weights" | cut -f1)

refresh() {  # extra options...
  local start=$EPOCHREALTIME
  "$bin/nxd-convert" -q --from nxd --to rollout --into "$@" "$work/nxd" "$work/bundle" >/dev/null
  since "$start"
}
copy_over() {
  local start=$EPOCHREALTIME
  cp -r "$weights/." "$work/copy/"
  since "$start"
}
copy_new() {
  rm -rf "$work/copy.new"
  local start=$EPOCHREALTIME
  cp -rL "$weights" "$work/copy.new"
  since "$start"
}
# Twice: from then on both slots are there. The copy is there too.
refresh > /dev/null; refresh > /dev/null
mkdir -p "$work/copy"; copy_over > /dev/null

into=() synced=() over=() new=()
for ((i = 0; i < rounds; ++i)); do
  into+=("$(refresh)")
  over+=("$(copy_over)")
  new+=("$(copy_new)")
  synced+=("$(refresh --sync)")
done
a=$(printf '%s\n' "${into[@]}" | median); b=$(printf '%s\n' "${over[@]}" | median)
c=$(printf '%s\n' "${new[@]}" | median); d=$(printf '%s\n' "${synced[@]}" | median)
printf '%-34s %8s %8s %10s\n' "$(awk -v B="$bytes" 'BEGIN { printf "%.2f GB of weights, tp 8", B / 1e9 }')" s GB/s 'vs --into'
row() { awk -v n="$1" -v t="$2" -v a="$a" -v B="$bytes" 'BEGIN { printf "%-34s %8.3f %8.2f %9.2fx\n", n, t, B / 1e9 / t, t / a }'; }
row 'nxd-convert --into' "$a"
row 'nxd-convert --into --sync' "$d"
row 'cp into new files' "$c"
row 'cp over existing files' "$b"
