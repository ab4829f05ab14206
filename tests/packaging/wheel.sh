#!/usr/bin/env bash
# Makes the wheel, installs it into a virtual environment without network, and works with it. The
# programs must run where glibc is 2.34, so they may ask for no newer symbol.
#   NXDKIT_BUILD=build/dev tests/packaging/wheel.sh
set -euo pipefail
build=${NXDKIT_BUILD:?the build folder}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { [ "$1" = "$2" ] || fail "$3: found '$1', expected '$2'"; }

make() { cmake --build "$build" --target wheel >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }; }
make
wheel=$(echo "$build"/wheel/nxdkit-*.whl)
[[ $wheel == *-py3-none-manylinux_2_34_x86_64.whl ]] || fail "needs more than glibc 2.34: $wheel"
sum=$(sha256sum <"$wheel")
make
expect "$(sha256sum <"$wheel")" "$sum" "the same wheel, made again"
# The quick start builds single commands: their names must lead to them, not to the wheel's programs.
expect "$(ninja -C "$build" -t query nxd-convert | sed -n '3s/ //gp')" tools/nxd-convert "what is built as nxd-convert"

for file in "$build"/portable/programs/*; do
  newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
  [[ $(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -1) == GLIBC_2.34 ]] || fail "$file needs $newest"
  ! objdump -p "$file" | grep -E 'NEEDED.*(fmt|archive|zstd|crypto|stdc\+\+|yaml|pcre|utf8proc)' || fail "$file"
done

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --no-index --disable-pip-version-check -q "$wheel"
cd "$work"  # so that nothing is found where it was built
bin=$work/venv/bin
for tool in "$build"/tools/*; do
  { [ -f "$tool" ] && [ -x "$tool" ]; } || continue
  name=$(basename "$tool")
  expect "$("$bin/$name" --version)" "$("$tool" --version)" "$name --version"
done
# Not the system's, where the wheel brings its own.
! ldd "$bin/grpo-train" | grep -E 'isal|dnnl|gomp|OpenCL' | grep -v "$work/venv/" || fail "a library of the system"
"$bin/nxdkit-make-model" -q --size tiny --out model
"$bin/nxd-convert" -q --from hf --to rollout --tp 2 model bundle
"$bin/python" -m nxdkit ckpt-verify -q --against model bundle
status=0
"$bin/python" -m nxdkit no-such-command 2>error || status=$?
expect "$status" 2 "a command that is not there"
grep -q 'nxdkit: error: no command no-such-command in ' error || fail "$(cat error)"
[ -s "$work/venv/share/man/man1/nxd-convert.1" ] || fail "no man pages"
[ -s "$work/venv/share/nxdkit/schemas/common.json" ] || fail "no schemas"
"$bin/pip" install -q --no-index --disable-pip-version-check --target "$work/target" "$wheel"
PYTHONPATH=$work/target python3 -c 'import nxdkit, sys; sys.exit(nxdkit.__file__ != sys.argv[1])' "$work/target/nxdkit/__init__.py" || fail "--target"
! ldd "$work/target/bin/grpo-train" | grep -E 'isal|dnnl|gomp|OpenCL' | grep -v "$work/target/" || fail "--target: a library of the system"
PYTHONPATH=$work/target python3 -m nxdkit grpo-train --version >version
expect "$(cat version)" "$("$bin/grpo-train" --version)" "a command of --target"
"$bin/pip" show -f nxdkit >files
grep -q 'licenses/libarchive-dev.txt' files || fail "no licenses"
"$bin/pip" uninstall -q -y nxdkit
[ -z "$(find "$work/venv" -name 'nxd-convert*' -o -name 'libisal*')" ] || fail "something is left"
echo "wheel: good"
