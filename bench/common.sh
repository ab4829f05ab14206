# shellcheck shell=bash
# Shared by the benchmark scripts, which source it with their own name in `usage`.
#
# Options of all: --rounds N, --keep (leave the files), --work FOLDER (for the files), --build FOLDER
# (a build folder, whose tools/ and bench/ are run; without it, build/release is made). A script adds
# its own to `own_options`: names of variables that an option of the same name sets.

own_options=${own_options:-}
keep=0 build=

# shellcheck disable=SC2154  # usage is the script's
usage_and_exit() {
  local own=
  for name in $own_options; do own+=" [--$name N]"; done
  echo "usage: $usage [--rounds N]$own [--keep] [--work FOLDER] [--build FOLDER]" >&2
  exit 2
}

# shellcheck disable=SC2034  # read by the scripts
parse_options() {
  while [ $# -gt 0 ]; do
    local name=${1#--}
    if [ "$1" = --keep ]; then
      keep=1
      shift
      continue
    fi
    [ $# -ge 2 ] || usage_and_exit
    case " rounds work build $own_options " in
      *" $name "*) [ "$1" = "--$name" ] || usage_and_exit ;;
      *) usage_and_exit ;;
    esac
    printf -v "$name" '%s' "$2"
    shift 2
  done
}

# Sets `build`, and builds the given targets if no folder was named.
prepare_build() {
  if [ -z "$build" ]; then
    build=build/release
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DNXDKIT_TESTS=OFF -DNXDKIT_BENCH=ON >/dev/null
    ninja -C "$build" "$@" >/dev/null
  fi
}

# Makes the folder for the files, which is removed at the end unless --keep was given.
# shellcheck disable=SC2154  # work is the script's
prepare_work() {
  mkdir -p "$work"
  trap '[ $keep = 1 ] || rm -rf "$work"' EXIT
}

# The shapes of Qwen3-4B with fewer layers and an lm_head of its own, so that every layout has the
# same bytes. $1: layers, $2: vocabulary.
write_config() {
  cat > "$work/config.json" <<JSON
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728,
 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": $1,
 "vocab_size": $2, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON
}

since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }'; }
# Prints the seconds that a command takes.
timed() {
  local start=$EPOCHREALTIME
  "$@"
  since "$start"
}
# Pages that the host of a virtual machine has taken back are slow on the first write: this gives
# each run warm ones. $1: bytes.
warm_memory() {
  head -c "$1" /dev/zero > "$work/warm"
  rm "$work/warm"
}
bytes_of() { du -sbL --apparent-size "$1" | cut -f1; }
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
median_of() { printf '%s\n' "$@" | median; }
