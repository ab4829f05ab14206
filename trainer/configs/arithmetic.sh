#!/usr/bin/env bash
# Makes what arithmetic.yaml trains on: a small Qwen3 with random weights and a tokenizer of 16 tokens,
# and all sums of two digits that are one digit again.
#
# usage: bash trainer/configs/arithmetic.sh [BUILD] [FOLDER]   (build/dev, and build/arithmetic)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:-$root/build/dev}
folder=${2:-$root/build/arithmetic}
own=$root/trainer/configs/arithmetic

mkdir -p "$folder/data"
"$build/tools/nxdkit-make-model" --quiet --force --config "$own/config.json" --dtype f32 --out "$folder/model"
cp "$own"/tokenizer.json "$own"/tokenizer_config.json "$own"/generation_config.json "$folder/model/"
for ((a = 0; a <= 9; a++)); do
  for ((b = 0; a + b <= 9; b++)); do
    printf '{"prompt": "%d+%d=", "answer": "%d"}\n' "$a" "$b" "$((a + b))"
  done
done > "$folder/data/train.jsonl"
cp "$folder/data/train.jsonl" "$folder/data/test.jsonl"
echo "made $folder"
