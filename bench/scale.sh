#!/usr/bin/env bash
# Steps of grpo-train on one to four machines of one rank each: network namespaces behind one switch,
# over a fast link and over one of 1 Gbit/s (tc tbf); with gradients summed while the backward pass
# runs, and after it; the bytes that are sent against the least possible. The machines share the
# processors of this one, so more machines than processors compute no faster. scale_table.py prints
# the table, and the model of trainer/SCALE.md fitted to it.
#
# usage: bash bench/scale.sh [--steps N] [--keep] [--work FOLDER] [--build FOLDER]
# Needs root, ip, tc and Open MPI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage="bash bench/scale.sh"
own_options=steps
work=build/bench-scale steps=6
# shellcheck source=bench/common.sh
source bench/common.sh
parse_options "$@"
prepare_build grpo-train nxdkit_mpi nxdkit-make-model
prepare_work
work=$(realpath "$work") build=$(realpath "$build")
most=4

down() {
  for ((i = 0; i < most; i++)); do
    { ip netns pids "nxds$i" | xargs -r kill -9; ip netns del "nxds$i"; rm -rf "/etc/netns/nxds$i"; } 2>/dev/null || true
  done
  ip netns del nxdsw 2>/dev/null || true
}
trap 'down; [ $keep = 1 ] || rm -rf "$work"' EXIT
down

up() {
  ip netns add nxdsw
  ip -n nxdsw link add sw type bridge
  ip -n nxdsw link set sw up
  local names="127.0.0.1 localhost"
  for ((i = 0; i < most; i++)); do names+=$'\n'"10.79.0.$((i + 1)) nxds$i"; done
  for ((i = 0; i < most; i++)); do
    ip netns add "nxds$i"
    ip -n "nxds$i" link set lo up
    mkdir -p "/etc/netns/nxds$i"
    printf '%s\n' "$names" > "/etc/netns/nxds$i/hosts"
    ip -n "nxds$i" link add v0 type veth peer name "p$i" netns nxdsw
    ip -n "nxds$i" addr add "10.79.0.$((i + 1))/24" dev v0
    ip -n "nxds$i" link set v0 up
    ip -n nxdsw link set "p$i" master sw
    ip -n nxdsw link set "p$i" up
  done
}

link() {  # fast | 1gbit
  for ((i = 0; i < most; i++)); do
    tc -n "nxds$i" qdisc del dev v0 root 2>/dev/null || true
    [ "$1" = fast ] || tc -n "nxds$i" qdisc add dev v0 root tbf rate "$1" burst 256kb latency 20ms
  done
}

cat > "$work/on.sh" <<ON
h=\$1
shift
exec ip netns exec "\$h" unshare --uts /bin/bash -c 'hostname "\$0"; exec /bin/bash -c "\$*"' "\$h" "\$@"
ON

cat > "$work/config.json" <<'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 512, "intermediate_size": 2048,
 "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 16,
 "tie_word_embeddings": true, "torch_dtype": "float32", "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
 "max_position_embeddings": 64, "hidden_act": "silu", "attention_bias": false, "eos_token_id": 1}
JSON
bash trainer/configs/arithmetic.sh --build "$build" "$work/arithmetic" > /dev/null
"$build/tools/nxdkit-make-model" --quiet --force --config "$work/config.json" --dtype f32 --out "$work/model"
cp trainer/configs/arithmetic/{tokenizer,tokenizer_config,generation_config}.json "$work/model/"

run() {  # MACHINES LINK OVERLAP
  local name=$1-$2-$3 hosts=
  link "$2"
  for ((i = 0; i < $1; i++)); do hosts+="nxds$i slots=1"$'\n'; done
  printf '%s' "$hosts" > "$work/hosts"
  local command="OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 10 900 nice -n -20 mpirun
    --hostfile $work/hosts --map-by node --bind-to none -np $1 --mca plm rsh --mca plm_rsh_agent 'bash $work/on.sh'
    --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include 10.79.0.0/24 --mca btl_tcp_if_include 10.79.0.0/24
    --mca pml ob1 --mca btl self,vader,tcp --mca mpi_yield_when_idle 1 -x NXDKIT_MPI_PLUGIN=$build/lib/nxdkit/nxdkit-mpi.so
    $build/tools/grpo-train --quiet --config $PWD/trainer/configs/arithmetic.yaml
    data.train_files=$work/arithmetic/data@train data.val_files=$work/arithmetic/data@test
    worker.actor.model.model_path=$work/model trainer.save_checkpoint_path=$work/run-$name trainer.logger=[file]
    trainer.val_freq=-1 trainer.val_before_train=false trainer.save_freq=-1 trainer.save_model_only=true
    trainer.cores=1 trainer.nnodes=$1 trainer.separate_rollout_workers=false trainer.max_steps=$steps
    trainer.overlap_gradients=$3 worker.actor.tensor_parallel_size=1 worker.rollout.tensor_parallel_size=1
    worker.rollout.neuron_override_config.tp_degree=1 worker.rollout.neuron_override_config.batch_size=24
    data.rollout_batch_size=24 worker.rollout.n=4 worker.actor.global_batch_size=24
    worker.actor.micro_batch_size_per_device_for_update=$((96 / $1)) worker.actor.micro_batch_size_per_device_for_experience=$((96 / $1))"
  rm -rf "$work/run-$name"
  bash "$work/on.sh" nxds0 "${command//$'\n'/ }" > "$work/$name.log" 2>&1 || { cat "$work/$name.log" >&2; exit 1; }
}

up
for machines in 1 2 3 4; do run $machines fast true; done
for machines in 2 3 4; do
  run $machines 1gbit true
  run $machines 1gbit false
done
python3 bench/scale_table.py "$work"
