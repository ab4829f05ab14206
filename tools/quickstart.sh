#!/usr/bin/env bash
# The main job from end to end, with the commands of a wheel: makes a model with the shapes of
# Qwen3-0.6B, shards it as NxD TP8, converts the shards to a rollout bundle, inspects and verifies
# it, and prints the time and memory of each step. Without a wheel it builds one, which needs
# packages.
set -euo pipefail
started_in=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
source tools/packages.sh

usage() {
  cat <<'TEXT'
usage: bash tools/quickstart.sh [--wheel FILE] [--small] [--keep]
  --wheel FILE  this wheel; else ./nxdkit-*.whl, else the newest that was built here, else one is built
  --small       a tiny model instead of one of 1.2 GB
  --keep        leave the model, the shards and the bundle in build/quickstart
TEXT
}

refuse() { echo "quickstart.sh: $1" >&2; exit "$2"; }

size=0.6b
keep=no
needed_mib=6000
wheel=
while [ $# -gt 0 ]; do
  case $1 in
    --small) size=tiny; needed_mib=100 ;;
    --keep) keep=yes ;;
    --wheel)
      [ $# -gt 1 ] || { echo "quickstart.sh: --wheel needs a file" >&2; usage >&2; exit 2; }
      shift
      wheel=$1
      [[ $wheel == /* ]] || wheel=$started_in/$wheel
      [ -f "$wheel" ] || refuse "$wheel: no such file" 3 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "quickstart.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

build=build/release
work=build/quickstart
place=build/nxdkit  # folder for the commands
steps=()            # lines of the summary

# find_wheel: prints the path of an existing wheel, or nothing.
find_wheel() {
  local found newest=
  for found in "$started_in"/nxdkit-[0-9]*.whl nxdkit-[0-9]*.whl build/*/wheel/nxdkit-[0-9]*.whl; do
    [ -f "$found" ] || continue
    [[ $found == build/* ]] || { echo "$found"; return; }
    { [ -z "$newest" ] || [ "$found" -nt "$newest" ]; } && newest=$found
  done
  echo "$newest"
}

build_wheel() {
  cat >&2 <<TEXT
No wheel is at hand (--wheel FILE names one), so one is built in $build.
  packages:  about 1.5 minutes, as root or with sudo, for those that are missing of
             ${build_packages[*]} ${wheel_packages[*]}
  compiling: about 4.5 minutes on two cores
TEXT
  install_packages "${build_packages[@]}" "${wheel_packages[@]}"
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DNXDKIT_TESTS=OFF -DNXDKIT_BENCH=OFF -DNXDKIT_UNITY=ON
  cmake --build "$build" -j "$(nproc)" --target wheel
}

# Debian's python3 may lack the module that puts pip into an environment.
make_environment() {
  command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null || return 1
  python3 -m venv "$place" &&
    "$place/bin/python" -m pip install --no-index --disable-pip-version-check -q "$wheel"
}

# A wheel is a zip archive.
unpack() {
  if command -v python3 >/dev/null && python3 -m zipfile -e "$wheel" "$place" 2>/dev/null; then return; fi
  if command -v unzip >/dev/null; then unzip -q -o "$wheel" -d "$place"; return; fi
  if command -v bsdtar >/dev/null; then bsdtar -xf "$wheel" -C "$place"; return; fi
  refuse "$wheel is a zip archive, and there is no python3, unzip or bsdtar to unpack it" 3
}

# Sets `bin`, the folder with the commands.
install_wheel() {
  rm -rf "$place"
  mkdir -p "$place"
  if make_environment; then
    bin=$place/bin
    echo "installed $(basename "$wheel") into the virtual environment $place"
    return
  fi
  rm -rf "$place"
  mkdir -p "$place"
  unpack
  bin=$(echo "$place"/nxdkit-*.data/scripts)
  chmod +x "$bin"/*
  echo "unpacked $(basename "$wheel") into $place: no python3 with venv and pip was found"
}

check_space() {
  local free_mib
  free_mib=$(df -Pm "$work" | awk 'NR == 2 {print $4}')
  [ "$free_mib" -ge "$needed_mib" ] ||
    refuse "$free_mib MiB are free in $work, $needed_mib are needed; try --small" 5
}

clean_up() { [ "$keep" = yes ] || rm -rf "$work"; }

# bytes_of FOLDER...: the bytes of all files below.
bytes_of() { du -sb --apparent-size "$@" | awk '{sum += $1} END {print sum}'; }

# GNU time reports the peak memory of a command; bash has a keyword of the same name.
gnu_time=$(type -P time || true)
{ [ -n "$gnu_time" ] && "$gnu_time" -f %M true >/dev/null 2>&1; } || gnu_time=

# step TEXT DATA COMMAND...: runs the command and notes its time and peak memory. DATA lists the
# folders whose bytes the command has written (or, when it only reads, read); "-" for none.
step() {
  local what=$1 data=$2
  shift 2
  printf '\n$ %s\n' "$*"
  local begin=${EPOCHREALTIME//[.,]/} kib=- bytes=0
  if [ -n "$gnu_time" ]; then
    "$gnu_time" -f %M -o "$work/peak" -- "$@"
    kib=$(cat "$work/peak")
  else
    "$@"
  fi
  local microseconds=$((${EPOCHREALTIME//[.,]/} - begin))
  # shellcheck disable=SC2086  # a list of folders of ours, without spaces
  [ "$data" = - ] || bytes=$(bytes_of $data)
  steps+=("$what|$microseconds|$bytes|$kib")
}

print_summary() {
  printf '\n%-44s %9s %9s %7s %9s\n' "step" "seconds" "GB" "GB/s" "peak MiB"
  printf '%s\n' "${steps[@]}" | awk -F'|' '{
    seconds = $2 / 1e6
    gb = $3 / 1e9
    rate = $3 > 0 && seconds > 0 ? sprintf("%.2f", gb / seconds) : "-"
    data = $3 > 0 ? sprintf("%.3f", gb) : "-"
    peak = $4 == "-" ? "-" : sprintf("%.0f", $4 / 1024)
    printf "%-44s %9.2f %9s %7s %9s\n", $1, seconds, data, rate, peak
  }'
  printf 'GB: bytes written, or read where nothing is written. Peak MiB: the most memory held'
  [ -n "$gnu_time" ] && printf '.\n' || printf ' (- without GNU time).\n'
}

print_next() {
  # shellcheck disable=SC2016  # to be typed so
  printf '\nNext:\n  export PATH="%s:$PATH"\n  nxdkit --help\n' "$PWD/$bin"
  if [ -x "$place/bin/python" ]; then
    printf "  python -c 'import nxdkit; print(nxdkit.__version__)'\n"
  elif command -v python3 >/dev/null; then
    printf "  PYTHONPATH=%q python3 -c 'import nxdkit; print(nxdkit.__version__)'\n" "$PWD/$place"
  fi
}

rm -rf "$work"
mkdir -p "$work"
trap clean_up EXIT
check_space
[ -n "$wheel" ] || wheel=$(find_wheel)
[ -n "$wheel" ] || { build_wheel; wheel=$(find_wheel); }
[ -n "$wheel" ] || refuse "the build made no wheel: see cmake's output above" 70
install_wheel

step "make a qwen3 model ($size)" "$work/hf" \
  "$bin/nxdkit-make-model" --family qwen3 --size "$size" --out "$work/hf"
step "hf to nxd, TP8" "$work/nxd" \
  "$bin/nxd-convert" --from hf --to nxd --tp 8 --qkv linear --hw trn2 "$work/hf" "$work/nxd"
step "nxd to rollout bundle, TP8" "$work/rollout" \
  "$bin/nxd-convert" --from nxd --to rollout --tp 8 --bs 64 --seq 4096 "$work/nxd" "$work/rollout"
step "inspect the bundle" - \
  "$bin/ckpt-inspect" --top 5 "$work/rollout"
step "verify the bundle against the model" "$work/hf $work/rollout" \
  "$bin/ckpt-verify" "$work/rollout" --against "$work/hf"
print_summary
print_next
