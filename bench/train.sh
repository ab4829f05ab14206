#!/usr/bin/env bash
# Tokens per second of training (forward and backward) of a model of 48 M parameters, ours and that of
# transformers on the same threads, in the same run.
#
# usage: bash bench/train.sh [--build FOLDER] [--rounds N]     (FOLDER: build/dev, with its interop-venv)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/dev
rounds=3
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    *) echo "usage: bash bench/train.sh [--build FOLDER] [--rounds N]" >&2; exit 2 ;;
  esac
  shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/config.json" <<'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 512, "intermediate_size": 2048,
 "num_hidden_layers": 10, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 16384,
 "tie_word_embeddings": true, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
 "max_position_embeddings": 4096, "hidden_act": "silu", "attention_bias": false, "attention_dropout": 0.0}
JSON
"$build/tools/nxdkit-make-model" --quiet --config "$work/config.json" --out "$work/model"
unset OPENBLAS_CORETYPE
for dtype in f32 bf16; do
  for threads in 1 2; do
    echo "$dtype, $threads threads, 8 rows of 128 + 256 tokens"
    "$build/bench/train_bench" "$work/model" 1 "$threads" "$dtype" 8 128 256 "$rounds"
    "$build/interop-venv/bin/python" "$root/bench/train_peer.py" "$work/model" "$threads" "$dtype" 8 128 256 \
      "$rounds" 2> /dev/null
  done
done
echo "two tensor parallel ranks"
"$build/bench/train_bench" "$work/model" 2 1 bf16 8 128 256 "$rounds"
