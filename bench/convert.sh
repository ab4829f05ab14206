#!/usr/bin/env bash
# Conversions of a model of 5.2 GB against `cp -r` of the same input, interleaved, and against the
# limit of writing the same bytes. See README.md for the method and the results.
#   bench/convert.sh [--rounds N] [--keep] [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/convert.sh
own_options=""
. bench/common.sh

rounds=3 work=build/bench
parse_options "$@"
prepare_build nxd-convert nxdkit-make-model write_limit
prepare_work

bin=$build/tools
# 2.6 G parameters, 5.2 GB in bf16.
write_config 18 151936

"$bin/nxdkit-make-model" -q --config "$work/config.json" --out "$work/hf" --force
"$bin/nxd-convert" -q --no-sync --force --from hf --to nxd --tp 8 --qkv linear "$work/hf" "$work/nxd"
"$bin/nxd-convert" -q --no-sync --force --from nxd --to rollout --tp 8 --bs 64 --seq 4096 "$work/nxd" "$work/rollout"

# Every measured output replaces one of the same size that was removed just before, for cp as well:
# free memory that the kernel still has is warm, and memory that it gave back is not.
convert() { "$bin/nxd-convert" -q --json "$@" > "$work/$name.json"; }
copy_synced() {
  cp -r "$1" "$2"
  find "$2" -type f -exec sync {} +
}
measure_ours() {  # name, input, options...
  local name=$1 input=$2; shift 2
  rm -rf "$work/out.$name"
  timed convert "$@" "$input" "$work/out.$name"
}
measure_cp() {
  rm -rf "$work/out.cp"
  timed cp -r "$1" "$work/out.cp"
}
measure_cp_sync() {
  rm -rf "$work/out.cp"
  timed copy_synced "$1" "$work/out.cp"
}
measure_limit() {
  rm -rf "$work/out.limit"
  "$build/bench/write_limit" "$1" "$work/out.limit" 2 | cut -d' ' -f1
}
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
  a=$(median_of "${ours[@]}") b=$(median_of "${cps[@]}") c=$(median_of "${limits[@]}")
  d=$(median_of "${synced[@]}") e=$(median_of "${cps_synced[@]}")
  awk -v n="$name" -v B="$bytes" -v a="$a" -v b="$b" -v c="$c" -v p="$(peak_of "$name")" \
    'BEGIN { printf "%-18s %6.2f %10.2f %10.2f %10.2f %10.2f %8.2fx %8.2fx %8.0f\n", n, B / 1e9, a, b, c, B / 1e9 / a, b / a, c / a, p / 1e6 }'
  awk -v n="$name, synced" -v B="$bytes" -v a="$d" -v b="$e" \
    'BEGIN { printf "%-18s %6.2f %10.2f %10.2f %10s %10.2f %8.2fx\n", n, B / 1e9, a, b, "-", B / 1e9 / a, b / a }'
  rm -rf "$work/out.$name"
}
run_case nxd-to-rollout "$work/nxd" --from nxd --to rollout --tp 8 --bs 64 --seq 4096
run_case hf-to-nxd "$work/hf" --from hf --to nxd --tp 8 --qkv linear
run_case rollout-to-hf "$work/rollout" --from rollout --to hf
run_case nxd-to-dcp "$work/nxd" --from nxd --to dcp --style torchtitan --mesh dp=4,tp=2
"$bin/nxd-convert" -q --no-sync --force --from nxd --to dcp --style torchtitan --mesh dp=4,tp=2 "$work/nxd" "$work/dcp"
run_case dcp-to-nxd "$work/dcp" --from dcp --to nxd --tp 8 --qkv linear
rm -rf "$work/hf" "$work/nxd" "$work/rollout" "$work/dcp"

# 32 experts in each of 4 layers, 1.6 GB, stored transposed.
cat > "$work/experts.json" <<'EOF'
{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
 "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 32,
 "num_experts_per_tok": 8, "num_hidden_layers": 4, "num_attention_heads": 32,
 "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16"}
EOF
"$bin/nxdkit-make-model" -q --config "$work/experts.json" --out "$work/hf" --force
"$bin/nxd-convert" -q --no-sync --force --from hf --to nxd --tp 8 --hw trn1 "$work/hf" "$work/nxd"
run_case experts-nxd-to-hf "$work/nxd" --from nxd --to hf
run_case experts-hf-to-nxd "$work/hf" --from hf --to nxd --tp 8 --hw trn1
