#!/usr/bin/env bash
# Installs the build into a fresh folder, builds a project of somebody else against it, and makes
# the Debian packages.   NXDKIT_BUILD=build/dev tests/packaging/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
build=${NXDKIT_BUILD:?the build folder}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { [ "$1" = "$2" ] || fail "$3: found '$1', expected '$2'"; }

DESTDIR='' cmake --install "$build" --prefix "$work/usr" >"$work/install.log"
for tool in "$build"/tools/*; do
  { [ -f "$tool" ] && [ -x "$tool" ]; } || continue
  name=$(basename "$tool")
  for file in bin/$name share/man/man1/$name.1 share/nxdkit/schemas/$name.json share/bash-completion/completions/$name \
    share/zsh/vendor-completions/_$name share/fish/vendor_completions.d/$name.fish; do
    [ -s "$work/usr/$file" ] || fail "$file was not installed"
  done
done
for file in share/man/man7/nxdkit-errors.7 share/nxdkit/schemas/common.json; do
  [ -s "$work/usr/$file" ] || fail "$file was not installed"
done
bash -n "$work"/usr/share/bash-completion/completions/*
[ ! -e "$work/usr/include/nxdkit/lib/json/json.h" ] || fail "a PRIVATE header was installed"
installed=$(cd "$work/usr/include/nxdkit" && find . -name '*.h' | sed 's|^\./||' | LC_ALL=C sort)
listed=$(sed -n 's/^  //p' ../../cmake/PublicHeaders.cmake | LC_ALL=C sort)
expect "$installed" "$listed" "the installed headers"

cmake -S consumer -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/usr" \
  ${NXDKIT_SANITIZE:+-DCMAKE_CXX_FLAGS=-fsanitize=$NXDKIT_SANITIZE} >"$work/consumer.log"
cmake --build "$work/consumer" >>"$work/consumer.log" || { cat "$work/consumer.log"; exit 1; }
"$work/usr/bin/nxdkit-make-model" -q --size tiny --out "$work/model" >/dev/null
tensors=$("$work/usr/bin/ckpt-inspect" --json "$work/model" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["tensor_count"])')
expect "$("$work/consumer/consumer" "$work/model")" "hf $tensors" "the consumer"

if command -v dpkg-deb >/dev/null && [ -z "${NXDKIT_SANITIZE:-}" ]; then
  (cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/deb" >"$work/cpack.log") ||
    { cat "$work/cpack.log"; exit 1; }
  packages=(nxdkit nxdkit-dev)
  [ ! -e "$build/lib/nxdkit/nxdkit-mpi.so" ] || packages+=(nxdkit-mpi)
  for package in "${packages[@]}"; do
    deb=$(echo "$work"/deb/"${package}"_*.deb)
    [ -s "$deb" ] || fail "$package was not made"
    expect "$(dpkg-deb -f "$deb" Package)" "$package" "the name of $deb"
  done
  dpkg-deb -c "$work"/deb/nxdkit_*.deb >"$work/tools.list"
  grep -q ' ./usr/bin/nxd-convert$' "$work/tools.list" || fail "nxd-convert is not in the package"
  dpkg-deb -f "$work"/deb/nxdkit_*.deb Depends | grep -q libarchive || fail "no dependencies"
fi
echo "packaging: good"
