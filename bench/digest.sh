#!/usr/bin/env bash
# ckpt-digest against `openssl dgst -sha256` over the same bytes on all cores; ckpt-diff and
# ckpt-verify --against against reading both inputs with dd: one dd after the other, as typed by hand,
# and two at once, each on a core of its own. All from the page cache, interleaved. See README.md.
#   bench/digest.sh [--rounds N] [--keep] [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/digest.sh
own_options=""
. bench/common.sh

rounds=3 work=build/bench
parse_options "$@"
prepare_build nxdkit-make-model nxd-convert ckpt-digest ckpt-diff ckpt-verify
prepare_work

# The shapes of Qwen3-4B with 9 layers: 1.3 G parameters, 2.6 GB in bf16, in as many files as cores,
# of one size, so that openssl has work for all of them until the end.
cat > "$work/config.json" <<'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728,
 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 9,
 "vocab_size": 151936, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}
JSON
bin=$build/tools
make() { "$bin/nxdkit-make-model" -q --config "$work/config.json" --out "$work/$1" --seed "$2" --max-shard-size 700MB; }
[ -d "$work/a" ] || make a 1
[ -d "$work/b" ] || make b 2
[ -d "$work/copy" ] || cp -r "$work/a" "$work/copy"
[ -d "$work/nxd" ] || "$bin/nxd-convert" -q --no-sync --from hf --to nxd --tp 8 --qkv linear "$work/a" "$work/nxd"
bytes=$(cat "$work"/a/*.safetensors | wc -c)
cat "$work"/{a,b,copy}/*.safetensors "$work"/nxd/model/* > /dev/null  # into the page cache

# Runs a command and prints its seconds; exit code 1 means findings and is not a failure.
seconds() {
  local start=$EPOCHREALTIME code=0
  "$@" > /dev/null || code=$?
  [ $code -le 1 ] || { echo "exit code $code: $*" >&2; return 1; }
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
}
openssl_all() { printf '%s\0' "$work"/a/*.safetensors | xargs -0 -n 1 -P "$(nproc)" openssl dgst -sha256; }
dd_folder() {
  local file
  for file in "$work/$1"/*.safetensors "$work/$1"/model/*.pt; do
    [ ! -e "$file" ] || dd if="$file" of=/dev/null bs=1M status=none
  done
}
dd_in_turn() { dd_folder "$1"; dd_folder "$2"; }
dd_at_once() {
  local pids=() folder
  for folder in "$1" "$2"; do dd_folder "$folder" & pids+=($!); done
  wait "${pids[@]}"
}

names=(openssl digest-hf digest-nxd engine-tp1 engine-tp8 turn-hf once-hf diff-same diff-other verify-same verify-other
  turn-nxd once-nxd diff-nxd verify-nxd)
declare -A command=(
  [openssl]="openssl_all"
  [digest-hf]="$bin/ckpt-digest -q $work/a"
  [digest-nxd]="$bin/ckpt-digest -q $work/nxd"
  [engine-tp1]="$bin/ckpt-digest -q --as vllm $work/a"
  [engine-tp8]="$bin/ckpt-digest -q --as vllm --tp 8 $work/nxd"
  [turn-hf]="dd_in_turn a copy"
  [once-hf]="dd_at_once a copy"
  [diff-same]="$bin/ckpt-diff -q $work/a $work/copy"
  [diff-other]="$bin/ckpt-diff -q $work/a $work/b"
  [verify-same]="$bin/ckpt-verify -q $work/a --against $work/copy"
  [verify-other]="$bin/ckpt-verify -q $work/a --against $work/b"
  [turn-nxd]="dd_in_turn a nxd"
  [once-nxd]="dd_at_once a nxd"
  [diff-nxd]="$bin/ckpt-diff -q $work/a $work/nxd"
  [verify-nxd]="$bin/ckpt-verify -q $work/nxd --against $work/a"
)
declare -A times median
for ((round = 0; round < rounds; ++round)); do
  for name in "${names[@]}"; do
    # shellcheck disable=SC2086  # words on purpose
    times[$name]+="$(seconds ${command[$name]})"$'\n'
  done
done
for name in "${names[@]}"; do median[$name]=$(printf '%s' "${times[$name]}" | median); done
ratio() { awk -v t="${median[$1]}" -v p="${median[$2]}" 'BEGIN { printf "%.2f (%.2f s)", p / t, p }'; }
speed() { awk -v n="$1" -v t="${median[$1]}" -v B="$2" 'BEGIN { printf "%-14s %7.2f s %7.2f GB/s", n, t, B / 1e9 / t }'; }
echo "ratios: time of the peer / ours, and the peer's time"
for name in digest-hf digest-nxd engine-tp1 engine-tp8; do
  echo "$(speed "$name" "$bytes")   openssl on all cores $(ratio "$name" openssl)"
done
for name in diff-same diff-other verify-same verify-other diff-nxd verify-nxd; do
  pair=hf
  [ "${name#*-}" != nxd ] || pair=nxd
  echo "$(speed "$name" $((2 * bytes)))   dd in turn $(ratio "$name" turn-$pair)   two dd at once $(ratio "$name" once-$pair)"
done
