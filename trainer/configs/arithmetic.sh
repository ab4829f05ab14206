#!/usr/bin/env bash
# Makes the inputs of arithmetic.yaml: a small Qwen3 with random weights and a tokenizer of 16 tokens (and a
# bigger one for arithmetic_vllm.yaml),
# and all sums of two digits with a result of one digit.
#
# usage: bash trainer/configs/arithmetic.sh [--build DIR] [FOLDER]
#   --build DIR   where the commands are (build/release, build/dev, or where they are installed)
# FOLDER is build/arithmetic by default, where arithmetic.yaml expects it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=trainer/configs/find_tools.sh
source "$root/trainer/configs/find_tools.sh"
build=()
if [ "${1:-}" = --build ] && [ $# -gt 1 ]; then
  build=("$2")
  shift 2
fi
if [[ $# -gt 1 || ${1:-} == -* ]]; then
  sed -n '2,8p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//' >&2
  exit 2
fi
tools=$(find_tools "${build[@]}")
folder=${1:-$root/build/arithmetic}
own=$root/trainer/configs/arithmetic

mkdir -p "$folder/data"
for suffix in "" _vllm; do
  "$tools/nxdkit-make-model" --quiet --force --config "$own/config$suffix.json" --dtype f32 --out "$folder/model$suffix"
  cp "$own"/tokenizer.json "$own"/tokenizer_config.json "$own"/generation_config.json "$folder/model$suffix/"
done
for ((a = 0; a <= 9; a++)); do
  for ((b = 0; a + b <= 9; b++)); do
    printf '{"prompt": "%d+%d=", "answer": "%d"}\n' "$a" "$b" "$((a + b))"
  done
done > "$folder/data/train.jsonl"
cp "$folder/data/train.jsonl" "$folder/data/test.jsonl"
echo "made $folder; now: $tools/grpo-train --config $root/trainer/configs/arithmetic.yaml"
