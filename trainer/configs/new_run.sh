#!/usr/bin/env bash
# Turns a local Hugging Face folder (llama, qwen2 or qwen3) and a data set into a run: exports the rollout
# bundle for the CPU and writes a configuration to start from.
#
# usage: bash trainer/configs/new_run.sh [OPTION...] MODEL DATA FOLDER
#   --build DIR    where the commands are (build/release, build/dev, or where they are installed)
#   --tp N         tensor parallel size of training and of rollout (1)
#   --bs N         responses that the engine generates at once (16)
#   --prompt N     longest prompt, tokens (512)
#   --response N   longest response, tokens (512)
#   --dtype D      bf16 or f32 (bf16)
#   --reward R     math, r1v, dapo, exact, or exec:PROGRAM (math)
#   --prompt-key K, --answer-key K  columns of the data (prompt, answer)
# MODEL is a folder, or a hub name in the hub's cache. DATA is a .jsonl, .json, .parquet or .arrow file, a
# folder of them, a hub name (each with @SPLIT, or the split "train"), or exec:COMMAND, which prints JSON Lines.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=trainer/configs/find_tools.sh
source "$root/trainer/configs/find_tools.sh"
build=() tp=1 bs=16 prompt=512 response=512 dtype=bf16 reward=math
prompt_key=prompt answer_key=answer
usage() {
  sed -n '2,15p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//' >&2
  exit 2
}
while [ $# -gt 3 ]; do
  case $1 in
    --build) build=("$2") ;;
    --tp) tp=$2 ;;
    --bs) bs=$2 ;;
    --prompt) prompt=$2 ;;
    --response) response=$2 ;;
    --dtype) dtype=$2 ;;
    --reward) reward=$2 ;;
    --prompt-key) prompt_key=$2 ;;
    --answer-key) answer_key=$2 ;;
    *) usage ;;
  esac
  shift 2
done
if [ $# -ne 3 ] || [ "${1#-}" != "$1" ]; then usage; fi
tools=$(find_tools "${build[@]}")
# The run may start in another folder: local paths become absolute.
whole() {
  if [ -e "${1%%@*}" ]; then
    printf '%s' "$(realpath "${1%%@*}")"
    case $1 in *@*) printf '@%s' "${1#*@}" ;; esac
  else
    printf '%s' "$1"
  fi
}
model=$(whole "$1") data=$(whole "$2")
mkdir -p "$3"
folder=$(realpath "$3")
seq=$((prompt + response))
long=bf16
[ "$dtype" = f32 ] && long=fp32

"$tools/neuron-export" --quiet --target cpu --tp "$tp" --bs "$bs" --seq "$seq" --dtype "$dtype" \
  "$model" "$folder/bundle"
cat > "$folder/config.yaml" <<YAML
data:
  train_files: "$data"
  prompt_key: "$prompt_key"
  answer_key: "$answer_key"
  max_prompt_length: $prompt
  max_response_length: $response
  rollout_batch_size: 16
algorithm:
  adv_estimator: grpo
  use_kl_loss: true
  kl_penalty: low_var_kl
  kl_coef: 1.0e-2
worker:
  actor:
    tensor_parallel_size: $tp
    global_batch_size: 16
    micro_batch_size_per_device_for_update: 1
    micro_batch_size_per_device_for_experience: 2
    compute_dtype: $dtype
    model:
      model_path: "$model"
    optim:
      lr: 1.0e-6
  rollout:
    n: 4
    tensor_parallel_size: $tp
    model_path: "$folder/bundle"
    dtype: $long
    max_num_batched_tokens: $((seq > 8192 ? seq : 8192))
    neuron_override_config:
      tp_degree: $tp
      batch_size: $bs
      seq_len: $seq
  reward:
    reward_function: "$reward"
trainer:
  max_steps: 100
  cores: $((2 * tp))
  separate_rollout_workers: true
  training_core_ratio: 0.5
  val_before_train: false
  save_freq: 20
  save_limit: 3
  save_checkpoint_path: "$folder/run"
YAML
echo "made $folder/bundle and $folder/config.yaml; now: $tools/grpo-train --config $folder/config.yaml"
