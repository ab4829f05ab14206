#!/usr/bin/env bash
# Rollout and training with and without a program that never rests: new tokens, and tokens of rows, per
# second, on one and two threads, and with two ranks.
#
# usage: bash bench/neighbour.sh [--build FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
if [ "${1:-}" = --build ] && [ $# = 2 ]; then build=$2; shift 2; fi
[ $# = 0 ] || { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
work=$(mktemp -d)
neighbour=
trap '[ -z "$neighbour" ] || kill "$neighbour"; rm -rf "$work"' EXIT
export GOMP_SPINCOUNT=20000  # as rollout workers have it
cat > "$work/config.json" <<'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 512, "intermediate_size": 2048,
 "num_hidden_layers": 10, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 16384,
 "tie_word_embeddings": true, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
 "max_position_embeddings": 4096, "hidden_act": "silu", "attention_bias": false, "attention_dropout": 0.0}
JSON
"$build/tools/nxdkit-make-model" --quiet --config "$work/config.json" --out "$work/model"
python3 "$root/bench/train_rows.py" groups 16 16384 > "$work/rows"

rollout() {  # TP THREADS
  "$build/bench/rollout_bench" --bf16 --tp "$1" --threads "$2" --bs 16 --prompt 64 --new 256 |
    sed -n 's/^generate: \([0-9]*\) new.*/\1/p'
}
train() {  # TP THREADS
  "$build/bench/train_bench" "$work/model" "$1" "$2" bf16 "$work/rows" 3 | sed -n 's/.*, \([0-9]*\) tokens per second.*/\1/p'
}
compare() {  # JOB TP THREADS
  local quiet busy
  quiet=$("$@")
  sh -c 'while :; do :; done' &
  neighbour=$!
  busy=$("$@")
  kill "$neighbour"
  wait "$neighbour" 2> /dev/null || true
  neighbour=
  echo "$1, $2 ranks, $3 threads: quiet $quiet tokens/s, beside a neighbour $busy"
}
compare rollout 1 1
compare rollout 1 2
compare rollout 2 2  # one thread for each rank
compare train 1 1
compare train 1 2
compare train 2 1
