#!/usr/bin/env bash
# Installs the build into a fresh folder, builds external projects with it, in C++ and in C, uses its
# Python package, and makes the Debian packages.
#   NXDKIT_BUILD=build/dev tests/packaging/run.sh
set -euo pipefail
build=$(cd "${NXDKIT_BUILD:?the build folder}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=tests/packaging/common.sh
source common.sh

DESTDIR='' cmake --install "$build" --prefix "$work/usr" >"$work/install.log"
for name in nxdkit grpo-train "${commands[@]}"; do
  [ -x "$work/usr/bin/$name" ] || fail "bin/$name was not installed"
  for file in bin/$name share/man/man1/$name.1 share/nxdkit/schemas/$name.json share/bash-completion/completions/$name \
    share/zsh/vendor-completions/_$name share/fish/vendor_completions.d/$name.fish; do
    [ -s "$work/usr/$file" ] || fail "$file was not installed"
  done
done
for file in share/man/man7/nxdkit-errors.7 share/nxdkit/schemas/common.json; do
  [ -s "$work/usr/$file" ] || fail "$file was not installed"
done
if command -v mandoc >/dev/null; then
  page=$work/usr/share/doc/nxdkit/troubleshooting.md
  grep -q '^"Got a cached failed neff"$' "$page" || fail "$page is not the page of errors"
fi
for name in "${commands[@]}"; do
  expect "$(readlink "$work/usr/bin/$name")" nxdkit "what bin/$name leads to"
done
expect_words "$work/usr/bin/nxdkit"
expect "$("$work/usr/bin/nxdkit" train --version)" "$("$work/usr/bin/grpo-train" --version)" "nxdkit train"
library=$(echo "$work"/usr/lib*/libnxdkit.so.1 "$work"/usr/lib/*/libnxdkit.so.1 | tr ' ' '\n' | grep -v '[*]')
[ -s "$library" ] || fail "libnxdkit.so.1 was not installed"
# Through a chain of "..": $ORIGIN/../lib.
loaded=$(ldd "$work/usr/bin/nxdkit" | sed -n 's/.*libnxdkit.so.1 => \(.*\) (.*/\1/p')
expect "$(realpath "$loaded")" "$(realpath "$library")" "the library that the programs load"
[ -n "${NXDKIT_SANITIZE:-}" ] || expect_exports "$library"
bash -n "$work"/usr/share/bash-completion/completions/*
[ ! -e "$work/usr/include/nxdkit/lib/json/json.h" ] || fail "a PRIVATE header was installed"
installed=$(cd "$work/usr/include/nxdkit" && find . -name '*.h' | sed 's|^\./||' | LC_ALL=C sort)
listed=$(sed -n 's/^  //p' ../../cmake/PublicHeaders.cmake | LC_ALL=C sort)
expect "$installed" "$listed" "the installed headers"

# The three examples of C++, as tools/library/README.md shows them.
page=../../tools/library/README.md
expect "$(sed -n '/^...cmake$/,/^...$/p' "$page" | sed '1d;$d')" "$(grep -v '^#' ../../tools/library/examples/CMakeLists.txt)" \
  "the project that $page shows"
cmake -S ../../tools/library/examples -B "$work/examples" -DCMAKE_PREFIX_PATH="$work/usr" \
  ${NXDKIT_SANITIZE:+-DCMAKE_CXX_FLAGS=-fsanitize=$NXDKIT_SANITIZE} >"$work/examples.log"
cmake --build "$work/examples" -j 2 >>"$work/examples.log" || { cat "$work/examples.log"; exit 1; }
"$work/usr/bin/nxdkit-make-model" -q --size tiny --out "$work/model" >/dev/null
tensors=$("$work/usr/bin/ckpt-inspect" --json "$work/model" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["tensor_count"])')
"$work/examples/open" "$work/model" >"$work/open.out" || fail "the example open"
expect "$(tail -2 "$work/open.out")" "hf: $tensors tensors
model.embed_tokens.weight: 65536 bytes are read" "the example open"
expect "$("$work/examples/convert" "$work/model" "$work/step_0")" "254656 parameters in 84 tensors, 2 files" \
  "the example convert"
"$work/examples/verify" "$work/step_0" "$work/model" >"$work/verify.out" || fail "$(cat "$work/verify.out")"
grep -q "^ok: every element equals $work/model$" "$work/verify.out" || fail "$(cat "$work/verify.out")"
"$work/usr/bin/nxdkit-make-model" -q --size tiny --seed 2 --out "$work/other" >/dev/null
status=0
"$work/examples/verify" "$work/step_0" "$work/other" >"$work/verify.out" || status=$?
expect "$status" 1 "the example verify, of other weights"
grep -q '^wrong: ' "$work/verify.out" || fail "$(cat "$work/verify.out")"
status=0
"$work/examples/open" "$work/nowhere" 2>/dev/null || status=$?
expect "$status" 3 "the example open, without a model"

# C, as in the example.
export PKG_CONFIG_PATH=${library%/*}/pkgconfig
if command -v pkg-config >/dev/null; then
  expect "$(pkg-config --modversion nxdkit)" "$("$work/usr/bin/nxdkit" --version | awk '{print $NF}')" "pkg-config's version"
  # shellcheck disable=SC2046  # several words
  cc -std=c99 -pedantic -Wall -Werror ${NXDKIT_SANITIZE:+-fsanitize=$NXDKIT_SANITIZE} ../../tools/library/example.c \
    $(pkg-config --cflags --libs nxdkit) -Wl,-rpath,"${library%/*}" -o "$work/example"
  "$work/example" "$work/model" >"$work/example.out" || fail "the example of C"
  grep -q '^65536 bytes of the first tensor are read$' "$work/example.out" || fail "$(cat "$work/example.out")"
  status=0
  "$work/example" "$work/nowhere" 2>"$work/error" || status=$?
  expect "$status" 3 "the example of C, without a model"
  grep -q '"code":"not_found"' "$work/error" || fail "$(cat "$work/error")"
fi

# The Python package, with the library of this tree.
if [ -z "${NXDKIT_SANITIZE:-}" ]; then
  found=$(cd "$work" && env -u NXDKIT_LIBRARY PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$work/usr/lib/python3/dist-packages" \
    python3 -c 'import nxdkit; run = nxdkit.open("model"); print(run.format, len(run), nxdkit.__file__)')
  expect "$found" "hf $tensors $work/usr/lib/python3/dist-packages/nxdkit/__init__.py" "the package of Python"
fi

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
  for file in bin/nxdkit bin/grpo-train 'bin/nxd-convert -> nxdkit' 'lib/.*libnxdkit.so.1' lib/python3/dist-packages/nxdkit/__init__.py; do
    grep -q " ./usr/$file\$" "$work/tools.list" || fail "$file is not in the package nxdkit"
  done
  dpkg-deb -c "$work"/deb/nxdkit-dev_*.deb >"$work/dev.list"
  for file in include/nxdkit.h 'lib/.*pkgconfig/nxdkit.pc' 'lib/.*libnxdkit.so -> libnxdkit.so.1'; do
    grep -q " ./usr/$file\$" "$work/dev.list" || fail "$file is not in the package nxdkit-dev"
  done
  dpkg-deb -f "$work"/deb/nxdkit_*.deb Depends | grep -q libarchive || fail "no dependencies"
fi
echo "packaging: good"
