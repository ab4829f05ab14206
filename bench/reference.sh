#!/usr/bin/env bash
# Wall time and peak memory of nxd-convert against the converter of neuronx-distributed: a llama from
# Hugging Face's layout to NxD TP8 and back; interleaved, and the outputs compared tensor by tensor.
# The package is the user's own checkout, named with --reference; it needs a Python with torch and
# safetensors (by default that of tests/interop/run.sh). See README.md.
#   bench/reference.sh --reference CHECKOUT [--rounds N] [--layers N] [--python PYTHON] [--keep]
#                      [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage="bench/reference.sh --reference CHECKOUT"
own_options="reference layers python"
. bench/common.sh

rounds=3 layers=12 work=build/bench-reference reference="" python=""
parse_options "$@"
[ -n "$reference" ] || usage_and_exit
prepare_build nxd-convert nxdkit-make-model
prepare_work
[ -n "$python" ] || python=$build/interop-venv/bin/python
[ -x "$(command -v "$python")" ] || { echo "no $python: run tests/interop/run.sh, or name one with --python" >&2; exit 2; }

bin=$build/tools
run=("$python" bench/reference_run.py)
cat > "$work/config.json" <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
 "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": $layers, "vocab_size": 32000,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON
"$bin/nxdkit-make-model" -q --force --config "$work/config.json" --out "$work/hf" > /dev/null
"${run[@]}" --consolidate "$work/hf" "$work/full.pt"
bytes=$(bytes_of "$work/full.pt")

common=(--config "$work/config.json" --hw_backend trn1 --tp_size 8 --n_layers "$layers" --qkv_linear True)
measure() { # row, output, command: adds "seconds CPU-seconds bytes" to the row
  rm -rf "$2"
  rows[$1]+="$("${run[@]}" --measure "${@:3}")"$'\n'
}
convert() { measure "$1" "$2" "$bin/nxd-convert" -q --no-sync "${@:3}" "$2"; }
reference() { measure "$1" "$2" "${run[@]}" "$reference" --output_dir "$2" "${common[@]}" "${@:3}"; }
declare -A rows
for ((round = 0; round < rounds; ++round)); do
  convert ours-nxd "$work/ours" --from hf --to nxd --tp 8 --qkv linear "$work/hf"
  reference theirs-nxd "$work/theirs" --convert_from_full_state --input_dir "$work/full.pt"
  convert ours-hf "$work/back" --from nxd --to hf "$work/theirs"
  reference theirs-hf "$work/whole" --convert_to_full_state --input_dir "$work/theirs/model"
done
awk -v B="$bytes" 'BEGIN { printf "llama of %.2f GB, bf16\n", B / 1e9 }'
column() { printf '%s' "${rows[$1]}" | cut -d' ' -f"$2" | median; }
for direction in nxd hf; do
  awk -v d="$direction" -v a="$(column "ours-$direction" 1)" -v b="$(column "theirs-$direction" 1)" \
    -v ca="$(column "ours-$direction" 2)" -v cb="$(column "theirs-$direction" 2)" \
    -v ma="$(column "ours-$direction" 3)" -v mb="$(column "theirs-$direction" 3)" -v B="$bytes" 'BEGIN {
      printf "to %-4s ours   %7.2f s %6.2f CPU s %6.2f GB/s  peak %7.0f MB\n", d, a, ca, B / 1e9 / a, ma / 1e6
      printf "        theirs %7.2f s %6.2f CPU s %6.2f GB/s  peak %7.0f MB\n", b, cb, B / 1e9 / b, mb / 1e6
      printf "        ratio  %7.1f   %6.1f   %29.1f\n", b / a, cb / ca, mb / ma }'
done
"${run[@]}" --compare "$work/ours/model" "$work/theirs/model"
"${run[@]}" --compare "$work/back" "$work/whole/checkpoint.pt"
