#!/usr/bin/env bash
# Runs config_trainium.yaml from a model and data alone: detects the machine, compiles the rollout bundle if
# there is none, checks that the run fits, and trains. The same command continues a run.
#
# usage: bash trainer/configs/config_trainium.sh [OPTION...] [config=FILE] [KEY=VALUE...]
#   --build DIR      where the commands are (build/release, build/dev, or where they are installed)
#   --instance NAME  the machine that the run must fit (auto: this one, or trn1.32xlarge if it has no devices)
#   --compiler CMD   compiles the bundle; see neuron-export (optimum-cli)
#   --bundle-only    stop before training: for a job before the training job that needs no device
#   --dry-run        show what would be done, and whether it fits
# config=FILE (or --config FILE) replaces config_trainium.yaml with your own configuration, possibly one for the EasyR1
# port: if it names no engine, that of config_trainium.yaml is used. MODEL_PATH, if set, is
# worker.actor.model.model_path. KEY=VALUE wins over both.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=trainer/configs/find_tools.sh
source "$here/find_tools.sh"

say() { echo "config_trainium.sh: $*" >&2; }
usage() {
  sed -n '2,13p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//' >&2
  exit 2
}

# Refuses an option of another launcher, and names the replacement.
refuse_launcher() {
  say "$1 belongs to a launcher of other programs. Here one process has all cores of a machine (trainer.cores=N);"
  say "several machines are started by mpirun or srun: trainer/README.md, \"On several machines\""
  exit 2
}

build=() instance='' compiler=() dry=() bundle_only='' config=$here/config_trainium.yaml words=()
while [ $# -gt 0 ]; do
  case $1 in
    --build | --instance | --compiler | --config) [ $# -gt 1 ] || usage ;;
  esac
  case $1 in
    --build) build=("$2"); shift ;;
    --instance) instance=$2; shift ;;
    --compiler) compiler=(--compiler "$2"); shift ;;
    --config) config=$2; shift ;;
    --bundle-only) bundle_only=yes ;;
    --dry-run | -n) dry=(--dry-run) ;;
    config=*) config=${1#config=} ;;
    --nproc* | --nnodes* | --node-rank* | --node_rank* | --master* | --rdzv* | --num-gpus* | --num_gpus* | --address* | --head)
      refuse_launcher "$1" ;;
    -*) say "unknown option $1"; usage ;;
    *=*) words+=("$1") ;;
    *) say "unknown word $1"; usage ;;
  esac
  shift
done
[ -z "${MODEL_PATH:-}" ] || words=("worker.actor.model.model_path=$MODEL_PATH" "${words[@]}")
[ -z "${RAY_ADDRESS:-}" ] || say "RAY_ADDRESS is not used: there is no Ray here, and no cluster to join"
[ -z "${NEURON_COMPILED_ARTIFACTS:-}" ] ||
  say "NEURON_COMPILED_ARTIFACTS is not used: the bundle is worker.rollout.model_path's"
tools=$(find_tools "${build[@]}")

# The commands' own view of the devices. Without any, the run is for the port's instance.
machine=$("$tools/nxdkit-env" --quiet | sed -n 's/^machine  *//p')
case $machine in
  'no Neuron devices'*) instance=${instance:-trn1.32xlarge} ;;
  *) instance=${instance:-auto} ;;
esac
say "this machine: $machine; the run is for $instance"

# setting TEXT KEY: the value of KEY in the output of --print-config; setting TEXT KEY source: its source.
setting() {
  awk -v key="$2" -v what="${3:-value}" '
    { depth = match($0, /[^ ]/) - 1; name = $1; sub(/:$/, "", name); path[depth / 2] = name
      whole = path[0]; for (i = 1; i <= depth / 2; ++i) whole = whole "." path[i]
      if (whole != key) next
      value = $0; sub(/^ *[^ ]+ /, "", value); source = value
      sub(/.*  # /, "", source); sub(/  # [^#]*$/, "", value)
      print what == "source" ? source : value
      exit }' <<<"$1" | sed 's/^"\(.*\)"$/\1/'
}

print() { "$tools/grpo-train" --quiet --print-config --instance "$instance" "$@"; }
shown=$(print --config "$config" "${words[@]}")
engine=$(setting "$shown" worker.rollout.engine)
command=$(setting "$shown" worker.rollout.command)
url=$(setting "$shown" worker.rollout.url)
own_command() { setting "$(print --config "$here/config_trainium.yaml")" worker.rollout.command; }
# The port's files name no engine: the port has only one.
if [ "$(setting "$shown" worker.rollout.engine source)" = default ]; then
  say "worker.rollout.engine is not named; taken are vllm and the command of config_trainium.yaml"
  if [ "$command $url" = "null []" ]; then
    command=$(own_command)
    words=("worker.rollout.command=$command" "${words[@]}")
  fi
  engine=vllm
  words=("worker.rollout.engine=vllm" "${words[@]}")
fi

model=$(setting "$shown" worker.actor.model.model_path)
bundle=$(setting "$shown" worker.rollout.model_path)
compiled() { setting "$shown" "worker.rollout.neuron_override_config.$1"; }
target=()
case $engine,$(compiled on_device_sampling) in
  cpu,*) target=(--target cpu) ;;
  *,true) target=(--on-device-sampling) ;;
  *,false) target=(--no-on-device-sampling) ;;
esac
train=("$tools/grpo-train" --config "$config" --instance "$instance" "${words[@]}")
# Only the training job needs the engine's program: a command that begins with env is not looked up.
unsought=()
if [ -n "$bundle_only" ] && [ "$engine" != cpu ] && [ "$url" = "[]" ]; then
  [ "$command" != null ] || command=$(own_command)
  unsought=("worker.rollout.command=env $command")
fi
# Checks that the run fits apart from its bundle, and that its engine's program exists.
check_run() { "${train[@]}" "${unsought[@]}" worker.rollout.model_path=null --dry-run; }
make_bundle() {
  local option value words=("${target[@]}" "${compiler[@]}" "${dry[@]}")
  for option in tp:tp_degree bs:batch_size seq:seq_len; do
    value=$(compiled "${option#*:}")
    [ "$value" = null ] || words+=("--${option%:*}" "$value")
  done
  "$tools/neuron-export" --instance "$instance" "${words[@]}" "$model" "$bundle" >&2
}

if [ "$bundle" = null ]; then
  say "no bundle is named: worker.rollout.model_path=FOLDER"
  exit 2
elif [ -e "$bundle" ]; then
  say "$bundle is there; whether it is what the run wants is checked before the first step"
elif [ ${#dry[@]} -gt 0 ]; then
  check_run
  make_bundle
  exit 0
else
  # Its output is repeated when training begins.
  said=$(check_run 2>&1) || { code=$?; echo "$said" >&2; exit "$code"; }
  say "$bundle is not there and is made first, which may take hours"
  make_bundle
fi
if [ -n "$bundle_only" ]; then
  say "nothing is trained: --bundle-only"
  exit 0
fi
exec "${train[@]}" "${dry[@]}"
