#!/usr/bin/env bash
# A delta of a model of 1.5 GB, one element in a hundred changed: how large it is, how fast it is made
# and applied, against a whole refresh and against `cp` of the same weights. See README.md.
#   bench/delta.sh [--rounds N] [--layers N] [--percent P] [--keep] [--work FOLDER] [--bin FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 layers=6 percent=1 keep=0 work=build/bench-delta bin=build/release
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --layers) layers=$2; shift 2 ;;
    --percent) percent=$2; shift 2 ;;
    --keep) keep=1; shift ;;
    --work) work=$2; shift 2 ;;
    --bin) bin=$2; shift 2 ;;
    *) echo "usage: bench/delta.sh [--rounds N] [--layers N] [--percent P] [--keep] [--work FOLDER] [--bin FOLDER]" >&2; exit 2 ;;
  esac
done
if [ "$bin" = build/release ]; then
  cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DNXDKIT_TESTS=OFF -DNXDKIT_BENCH=ON >/dev/null
  ninja -C build/release nxd-convert nxdkit-make-model perturb >/dev/null
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
convert() { "$bin/tools/nxd-convert" -q "$@" >/dev/null; }
timed() {
  local start=$EPOCHREALTIME
  "$@"
  since "$start"
}

"$bin/tools/nxdkit-make-model" -q --config "$work/config.json" --out "$work/old" --force >/dev/null
rm -rf "$work/new"
cp -r "$work/old" "$work/new"
"$bin/bench/perturb" "$work/new" "$percent" 1
convert --no-sync --force --from hf --to nxd --tp 8 --qkv linear "$work/new" "$work/nxd"
convert --no-sync --force --from hf --to rollout --tp 8 "$work/old" "$work/bundle"
bytes=$(du -sbL --apparent-size "$work/new/model.safetensors" | cut -f1)
weights=$work/bundle/checkpoint/weights

# Forth and back, so that every application finds its base; both slots are there from then on.
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
row() { awk -v n="$1" -v t="$(printf '%s\n' "${@:2}" | median)" -v B="$bytes" 'BEGIN { printf "%-28s %8.3f s %6.2f GB/s\n", n, t, B / 1e9 / t }'; }
row 'made, raw' "${made_raw[@]}"
row 'made, ulp' "${made_ulp[@]}"
row 'applied and proved, raw' "${applied_raw[@]}"
row 'applied and proved, ulp' "${applied_ulp[@]}"
row 'whole refresh (--into)' "${whole[@]}"
row 'cp over existing files' "${copied[@]}"
