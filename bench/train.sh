#!/usr/bin/env bash
# Tokens per second of training (forward and backward) of a model of 48 M parameters, ours against
# transformers on the same rows and threads, in the same run.
#
# usage: bash bench/train.sh [--build FOLDER] [--rounds N] [--rows "equal ragged groups"]
# (FOLDER: build/dev, with its interop-venv; train_rows.py describes the kinds of rows)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/dev
rounds=3
kinds="equal ragged groups"
usage="usage: bash bench/train.sh [--build FOLDER] [--rounds N] [--rows KINDS]"
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --rows) kinds=$2; shift ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
python=$build/interop-venv/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/config.json" <<'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 512, "intermediate_size": 2048,
 "num_hidden_layers": 10, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 16384,
 "tie_word_embeddings": true, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
 "max_position_embeddings": 4096, "hidden_act": "silu", "attention_bias": false, "attention_dropout": 0.0}
JSON
"$build/tools/nxdkit-make-model" --quiet --config "$work/config.json" --out "$work/model"
for kind in equal:8 ragged:16 groups:16; do
  "$python" "$root/bench/train_rows.py" "${kind%:*}" "${kind#*:}" 16384 > "$work/${kind%:*}.rows"
done
unset OPENBLAS_CORETYPE
compare() {  # KIND DTYPE THREADS
  echo "$1 rows, $2, $3 threads"
  "$build/bench/train_bench" "$work/model" 1 "$3" "$2" "$work/$1.rows" "$rounds"
  "$python" "$root/bench/train_peer.py" "$work/model" "$3" "$2" "$work/$1.rows" "$rounds" 2> /dev/null
}
for kind in $kinds; do
  for dtype in f32 bf16; do
    for threads in 1 2; do compare "$kind" "$dtype" "$threads"; done
  done
done
echo "equal rows, bf16, two tensor parallel ranks"
"$build/bench/train_bench" "$work/model" 2 1 bf16 "$work/equal.rows" "$rounds"
