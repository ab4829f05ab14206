#!/usr/bin/env bash
# The main job from end to end, with the commands of a wheel: makes a model with the shapes of
# Qwen3-0.6B, shards it as NxD TP8, converts the shards to a rollout bundle, inspects and verifies
# it, and prints what each step took. Without a wheel it builds one first, which needs packages.
set -euo pipefail
started_in=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
source tools/packages.sh

usage() {
  cat <<'TEXT'
usage: bash tools/quickstart.sh [--wheel FILE] [--small] [--keep]
  --wheel FILE  use this wheel (default: ./nxdkit-*.whl, else the newest built here, else build one)
  --small       use a tiny model instead of one of 1.2 GB
  --keep        keep the model, the shards and the bundle in build/quickstart
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

# "1:05" of seconds.
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# ninja_share LOG: ", 45%" of the last "[28/62]" in it, or nothing.
ninja_share() {
  tail -c 4000 "$1" | tr '\r' '\n' | sed -n 's/^\[\([0-9]*\)\/\([0-9]*\)\].*/\1 \2/p' | tail -n 1 |
    awk '$2 > 0 {printf ", %d%%", 100 * $1 / $2}'
}

# logged WHAT USUAL COMMAND...: runs the command with its output in the log, and shows how long it
# has run beside the time that it usually takes. Its end is shown where it fails.
logged() {
  local what=$1 usual=$2 begin=$SECONDS pid status=0
  shift 2
  "$@" >>"$log" 2>&1 &
  pid=$!
  if [ -t 2 ]; then
    while kill -0 "$pid" 2>/dev/null; do
      printf '\r\033[K%s: %s of about %s%s' "$what" "$(clock $((SECONDS - begin)))" "$usual" \
        "$(ninja_share "$log")" >&2
      sleep 1
    done
    printf '\r\033[K' >&2
  else
    echo "$what: about $usual, output in $log" >&2
  fi
  wait "$pid" || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 20 "$log" >&2
    refuse "$what failed with exit code $status; all of its output is in $log" "$status"
  fi
  echo "$what: done in $(clock $((SECONDS - begin)))" >&2
}

compile_wheel() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DNXDKIT_TESTS=OFF -DNXDKIT_BENCH=OFF -DNXDKIT_UNITY=ON &&
    cmake --build "$build" -j "$(nproc)" --target wheel
}

build_wheel() {
  echo "no wheel is at hand (--wheel FILE names one): building one in $build, about 6 minutes" >&2
  log=build/quickstart.log
  mkdir -p build
  : >"$log"
  # sudo asks for a password before its output goes into the log.
  [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null || sudo -v
  logged "packages" 1:30 install_packages "${build_packages[@]}" "${wheel_packages[@]}"
  logged "compiling" 4:30 compile_wheel
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
  echo "unpacked $(basename "$wheel") into $place, as python3 has no venv and pip"
}

check_space() {
  local free_mib
  free_mib=$(df -Pm "$work" | awk 'NR == 2 {print $4}')
  [ "$free_mib" -ge "$needed_mib" ] ||
    refuse "$free_mib MiB are free in $work, $needed_mib are needed; try --small" 5
}

clean_up() { [ "$keep" = yes ] || rm -rf "$work"; }

# bytes_of FOLDER...: the size of all files in them.
bytes_of() { du -sb --apparent-size "$@" | awk '{sum += $1} END {print sum}'; }

# GNU time measures the peak memory of a command; bash has a keyword of the same name.
gnu_time=$(type -P time || true)
{ [ -n "$gnu_time" ] && "$gnu_time" -f %M true >/dev/null 2>&1; } || gnu_time=

# step WHAT DATA COMMAND...: runs the command and records its time and peak memory. DATA lists the
# folders that the command writes (or, when it writes none, reads); "-" for none.
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
  printf 'GB are written, or read where nothing is written'
  [ -n "$gnu_time" ] && printf '.\n' || printf '; peak memory needs GNU time.\n'
}

# The man pages of a wheel, in an environment or unpacked.
man_folder() {
  local found
  for found in "$place"/share/man "$place"/nxdkit-*.data/data/share/man; do
    [ -d "$found" ] && echo "$PWD/$found" && return
  done
}

print_next() {
  local seconds
  seconds=$(printf '%s\n' "${steps[@]}" | awk -F'|' '{sum += $2} END {printf "%.2f", sum / 1e6}')
  printf '\ngood: the bundle holds the weights of the model, element by element (%s s in all)\n' "$seconds"
  # shellcheck disable=SC2016  # to be typed so
  printf '\nNext:\n  export PATH="%s:$PATH"\n' "$PWD/$bin"
  [ -z "$(man_folder)" ] || printf '  export MANPATH="%s:"      # man nxdkit-errors\n' "$(man_folder)"
  printf '  nxdkit --help                # the commands\n'
  if [ -x "$place/bin/python" ]; then
    printf "  %s -c 'import nxdkit; print(nxdkit.__version__)'\n" "$PWD/$place/bin/python"
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
[ -n "$wheel" ] || refuse "the build made no wheel; its output is in build/quickstart.log" 70
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
