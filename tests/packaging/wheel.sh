#!/usr/bin/env bash
# Makes the two wheels, installs them into a virtual environment without network, and uses them. The
# programs must run with glibc 2.34, so they may not need a newer symbol.
#   NXDKIT_BUILD=build/dev tests/packaging/wheel.sh
set -euo pipefail
build=$(cd "${NXDKIT_BUILD:?the build folder}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=tests/packaging/common.sh
source common.sh
here=$PWD

make() {
  cmake --build "$build" --target wheel train-wheel >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
}
make
wheel=$(echo "$build"/wheel/nxdkit-*.whl)
train=$(echo "$build"/wheel/nxdkit_train-*.whl)
sums=$(cat "$wheel" "$train" | sha256sum)
make
expect "$(cat "$wheel" "$train" | sha256sum)" "$sums" "the same wheels, made again"
for file in "$wheel" "$train"; do
  [[ $file == *-py3-none-manylinux_2_34_x86_64.whl ]] || fail "needs more than glibc 2.34: $file"
done
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le 12000000 ] || fail "the wheel has $bytes bytes, and may have 12 MB"
# Programs are linked again for wheels: a target named after the command must not lead to these.
expect "$(ninja -C "$build" -t query grpo-train | sed -n '3s/ //gp')" tools/grpo-train "what is built as grpo-train"

library=$build/portable/library/libnxdkit.so.1
expect_exports "$library"
for file in "$library" "$build"/portable/wheel-launcher "$build"/portable/grpo-train-portable; do
  newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
  [[ $(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -1) == GLIBC_2.34 ]] || fail "$file needs $newest"
  ! objdump -p "$file" | grep -E 'NEEDED.*(fmt|archive|zstd|crypto|stdc\+\+|yaml|pcre|utf8proc|python)' || fail "$file"
done

# expect_own FILE FOLDER: the library is the wheel's own, not the system's.
expect_own() {
  ! ldd "$1" | grep -E 'isal|dnnl|gomp|OpenCL' | grep -vF "$2/" || fail "$1: a library of the system"
  ! ldd "$1" | grep 'not found' || fail "$1: a library is missing"
}
install() { "$bin/pip" install --no-index --disable-pip-version-check -q "$@"; }

cd "$work"  # so that nothing is found where it was built
python3 -m venv venv
bin=$work/venv/bin
install "$wheel"
for name in nxdkit "${commands[@]}"; do
  expect "$("$bin/$name" --version)" "$("$build/tools/$name" --version)" "$name --version"
done
expect_words "$bin/nxdkit"
for name in "${commands[@]}"; do
  expect "$("$bin/python" -m nxdkit "$name" --version)" "$("$bin/$name" --version)" "python -m nxdkit $name"
done
expect_own "$(echo "$work"/venv/lib/python3*/site-packages/nxdkit/libnxdkit.so.1)" "$work/venv"
"$bin/nxdkit-make-model" -q --size tiny --out model
"$bin/nxd-convert" -q --from hf --to rollout --tp 2 model bundle
"$bin/python" -m nxdkit ckpt-verify -q --against model bundle
expect "$("$bin/python" -c 'import nxdkit; print(nxdkit.open("model").digest() == nxdkit.digest("bundle"))')" True "the package"
status=0
"$bin/python" -m nxdkit no-such-command 2>error || status=$?
expect "$status" 2 "a command that is not there"
grep -q 'there is no command "no-such-command"' error || fail "$(cat error)"
[ -s venv/share/man/man1/nxd-convert.1 ] || fail "no man pages"
[ -s venv/share/nxdkit/schemas/common.json ] || fail "no schemas"
[ -s venv/share/doc/nxdkit/troubleshooting.md ] || ! command -v mandoc >/dev/null || fail "no page of errors"
# man finds them by PATH: from a folder bin it looks into share/man next to it.
if man --version 2>/dev/null | grep -q '^man [0-9]'; then  # not the stand-in of a minimal image
  expect "$(PATH=$bin:$PATH man -w nxdkit-errors)" "$work/venv/share/man/man7/nxdkit-errors.7" "the page that man finds"
fi
"$bin/pip" show -f nxdkit >files
grep -q 'licenses/libarchive-dev.txt' files || fail "no licenses"
! grep -q 'grpo-train' files || fail "something of the trainer is in the wheel"

# The trainer is a wheel of its own.
status=0
PATH=$bin:/usr/bin:/bin "$bin/nxdkit" train --version 2>error || status=$?
expect "$status" 3 "nxdkit train without its wheel"
grep -q 'the program grpo-train is not installed' error || fail "$(cat error)"
grep -q 'it comes with the package nxdkit-train' error || fail "$(cat error)"
install "$train"
expect "$("$bin/nxdkit" train --version)" "$("$build/tools/grpo-train" --version)" "nxdkit train"
expect_own "$bin/grpo-train" "$work/venv"
[ -s venv/share/man/man1/grpo-train.1 ] || fail "no man page of the trainer"
plugin=$build/lib/nxdkit/nxdkit-mpi.so
[ ! -e "$plugin" ] || cmp "$plugin" venv/lib/nxdkit/nxdkit-mpi.so || fail "the plugin of MPI"

install --target target "$wheel" "$train"
for name in nxdkit grpo-train; do
  expect "$(target/bin/$name --version)" "$("$build/tools/$name" --version)" "$name of --target"
done
expect_own "$work/target/bin/grpo-train" "$work/target"
PYTHONPATH=$work/target python3 -c 'import nxdkit, sys; sys.exit(nxdkit.__file__ != sys.argv[1])' "$work/target/nxdkit/__init__.py" || fail "--target"
PYTHONPATH=$work/target python3 -m nxdkit grpo-train --version >version
expect "$(cat version)" "$("$bin/grpo-train" --version)" "a command of --target"

python3 -m zipfile -e "$wheel" unzipped
chmod +x unzipped/*.data/scripts/*
expect "$("$(echo unzipped/*.data/scripts)/ckpt-verify" --version)" "$("$bin/ckpt-verify" --version)" "a wheel that was unzipped"

"$bin/pip" uninstall -q -y nxdkit nxdkit-train
left=$(find venv \( -iname '*nxd*' -o -name 'ckpt-*' -o -name 'neuron-*' -o -name 'grpo*' -o -name 'libisal*' -o -name 'libdnnl*' \) \
  -not -type d)
[ -z "$left" ] || fail "something is left: $left"

bash "$here/quickstart.sh" "$wheel"
echo "wheel: good"
