#!/usr/bin/env bash
# The main job from end to end: builds the commands, makes a model with the shapes of Qwen3-0.6B,
# shards it as NxD TP8, converts the shards to a rollout bundle, inspects and verifies it, and
# prints what each step took. On a bare Debian 12 or Ubuntu 22.04 it installs what is missing first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
source tools/packages.sh

usage() {
  cat <<'TEXT'
usage: bash tools/quickstart.sh [--small] [--keep]
  --small  a tiny model instead of one of 1.2 GB
  --keep   leave the model, the shards and the bundle in build/quickstart
TEXT
}

size=0.6b
keep=no
needed_mib=6000
for argument in "$@"; do
  case $argument in
    --small) size=tiny; needed_mib=100 ;;
    --keep) keep=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "quickstart.sh: unknown option $argument" >&2; usage >&2; exit 2 ;;
  esac
done

build=build/release
work=build/quickstart
steps=()  # lines of the summary

# The commands of the main job alone; `cmake --build build/release` makes the others and the trainer.
build_commands() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DNXDKIT_TESTS=OFF -DNXDKIT_BENCH=OFF -DNXDKIT_UNITY=ON
  cmake --build "$build" -j "$(nproc)" --target nxdkit-make-model nxd-convert ckpt-inspect ckpt-verify
}

check_space() {
  local free_mib
  free_mib=$(df -Pm "$work" | awk 'NR == 2 {print $4}')
  [ "$free_mib" -ge "$needed_mib" ] && return
  echo "quickstart.sh: $free_mib MiB are free in $work, $needed_mib are needed; try --small" >&2
  exit 5
}

clean_up() { [ "$keep" = yes ] || rm -rf "$work"; }

# bytes_of FOLDER...: of all files below.
bytes_of() { du -sb --apparent-size "$@" | awk '{sum += $1} END {print sum}'; }

# step WHAT DATA COMMAND...: runs the command and notes its time and peak memory. DATA lists the
# folders whose bytes the command has written (or, when it only reads, read); "-" for none.
step() {
  local what=$1 data=$2
  shift 2
  printf '\n$ %s\n' "$*"
  /usr/bin/time -f '%e %M' -o "$work/time" -- "$@"
  local seconds kib bytes=0
  read -r seconds kib <"$work/time"
  # shellcheck disable=SC2086  # a list of folders of ours, without spaces
  [ "$data" = - ] || bytes=$(bytes_of $data)
  steps+=("$what|$seconds|$bytes|$kib")
}

print_summary() {
  printf '\n%-44s %9s %9s %7s %9s\n' "step" "seconds" "GB" "GB/s" "peak MiB"
  printf '%s\n' "${steps[@]}" | awk -F'|' '{
    gb = $3 / 1e9
    rate = $3 > 0 && $2 > 0 ? sprintf("%.2f", gb / $2) : "-"
    data = $3 > 0 ? sprintf("%.3f", gb) : "-"
    printf "%-44s %9.2f %9s %7s %9.0f\n", $1, $2, data, rate, $4 / 1024
  }'
  printf 'GB: bytes written, or read where nothing is written. Peak MiB: the most memory held.\n'
}

install_packages "${build_packages[@]}" "${quickstart_packages[@]}"
build_commands
rm -rf "$work"
mkdir -p "$work"
trap clean_up EXIT
check_space

tools=$build/tools
step "make a qwen3 model ($size)" "$work/hf" \
  "$tools/nxdkit-make-model" --family qwen3 --size "$size" --out "$work/hf"
step "hf to nxd, TP8" "$work/nxd" \
  "$tools/nxd-convert" --from hf --to nxd --tp 8 --qkv linear --hw trn2 "$work/hf" "$work/nxd"
step "nxd to rollout bundle, TP8" "$work/rollout" \
  "$tools/nxd-convert" --from nxd --to rollout --tp 8 --bs 64 --seq 4096 "$work/nxd" "$work/rollout"
step "inspect the bundle" - \
  "$tools/ckpt-inspect" --top 5 "$work/rollout"
step "verify the bundle against the model" "$work/hf $work/rollout" \
  "$tools/ckpt-verify" "$work/rollout" --against "$work/hf"
print_summary
