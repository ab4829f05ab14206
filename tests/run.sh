#!/usr/bin/env bash
# Builds everything and runs every test. On a bare Debian 12 or Ubuntu 22.04 it installs what is
# missing first. ctest's own summary comes last, and its exit code is the exit code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
source tools/packages.sh

usage() {
  cat <<'TEXT'
usage: bash tests/run.sh [--asan | --tsan] [--fast | --inject] [CTEST_ARGUMENT...]
  --asan   under the address and undefined behaviour sanitizers (build/run-asan)
  --tsan   under the thread sanitizer (build/run-tsan)
  --fast   without the tests against the real torch and safetensors (label interop) and without
           full sweeps (label slow)
  --inject only the whole sweep of failing calls: each call to the system fails in five ways. It
           takes long; every other run has a sample of it
Other arguments go to ctest, for instance: -R frame
It builds in build/run, the files of a folder as one: the fastest way from nothing to the end. Whoever
changes files is better served by the preset dev, which compiles each on its own.
TEXT
}

kind=run
options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DNXDKIT_WERROR=ON -DNXDKIT_UNITY=ON)
labels=(-LE 'inject|families')
ctest_arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --asan) kind=run-asan; options+=("-DNXDKIT_SANITIZE=address,undefined" -DNXDKIT_BENCH=OFF) ;;
    --tsan) kind=run-tsan; options+=(-DNXDKIT_SANITIZE=thread -DNXDKIT_BENCH=OFF) ;;
    --fast) labels=(-LE 'interop|slow|inject|families') ;;
    --inject) labels=(-L inject) ;;
    -h | --help) usage; exit 0 ;;
    *) ctest_arguments+=("$1") ;;
  esac
  shift
done

install_packages "${build_packages[@]}" "${test_packages[@]}"
jobs=$(nproc)
cmake -S . -B "build/$kind" -G Ninja "${options[@]}"
cmake --build "build/$kind" -j "$jobs"
# One more: the tests of clusters and launchers mostly wait.
exec ctest --test-dir "build/$kind" --output-on-failure --no-tests=error -j "$((jobs + 1))" \
  "${labels[@]}" ${ctest_arguments[@]+"${ctest_arguments[@]}"}
