#!/usr/bin/env bash
# The quick start in a tree of its own, with an existing wheel: without apt and cmake, with and
# without pip, and without any program that unpacks.
#   tests/packaging/quickstart.sh WHEEL
set -euo pipefail
wheel=$(realpath "${1:?a wheel}")
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../tools" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

mkdir -p "$work/tree/tools" "$work/bin" "$work/elsewhere"
cp "$tools/quickstart.sh" "$tools/packages.sh" "$work/tree/tools"
place=$work/tree/build/nxdkit

# stand_in NAME: from here on NAME notes that it was called, and fails.
stand_in() {
  # shellcheck disable=SC2016  # for the script that is written
  printf '#!/bin/sh\necho "$0 $*" >>"%s/called"\nexit 9\n' "$work" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
for name in apt-get sudo cmake ninja c++; do stand_in "$name"; done

# quick [ARGUMENT...]: runs it; its output is in $work/out, its exit code in `status`.
quick() {
  status=0
  (cd "$work/elsewhere" && PATH="${path:-$work/bin:$PATH}" bash "$work/tree/tools/quickstart.sh" --small "$@") \
    >"$work/out" 2>&1 || status=$?
}
expect_done() {
  [ "$status" = 0 ] || { cat "$work/out"; fail "$1: exit code $status"; }
  [ ! -e "$work/called" ] || fail "$1 called $(cat "$work/called")"
  grep -q '^build/quickstart/rollout: good$' "$work/out" || fail "$1: no verdict"
  grep -q '^good: the bundle holds the weights of the model' "$work/out" || fail "$1: no last word"
  grep -q '^verify the bundle against the model  *[0-9.]* ' "$work/out" || fail "$1: no summary"
  grep -qF "$2" "$work/out" || { cat "$work/out"; fail "$1: does not say $2"; }
  [ ! -e "$work/tree/build/quickstart" ] || fail "$1 leaves its model"
}

quick --wheel "$wheel"
expect_done "with a wheel" "into the virtual environment build/nxdkit"
# The last lines of its output can be typed as they are.
sed -n '/^Next:$/,$p' "$work/out" | tail -n +2 >"$work/next"
(cd / && bash -e "$work/next") >"$work/next.out" 2>&1 || { cat "$work/next.out"; fail "the next commands"; }

# Python without venv, as in Debian, and the wheel in its usual place.
python=$(command -v python3)
cp "$wheel" "$work/elsewhere"
cat >"$work/bin/python3" <<TEXT
#!/bin/sh
[ "\$1 \$2" = "-m zipfile" ] || exit 1
exec "$python" "\$@"
TEXT
chmod +x "$work/bin/python3"
quick
expect_done "without pip" "unpacked $(basename "$wheel") into build/nxdkit"
"$(echo "$place"/nxdkit-*.data/scripts)/nxdkit" --version >/dev/null || fail "unpacked programs do not run"

# No Python, and no GNU time: unzip; without that, an error names the missing program.
mkdir "$work/few"
for name in bash sh dirname basename mkdir rm chmod df awk du cat env unzip; do
  ln -s "$(type -P "$name")" "$work/few/$name"
done
path=$work/few quick
expect_done "without Python" "; peak memory needs GNU time."
rm "$work/few/unzip"
path=$work/few quick
[ "$status" = 3 ] || fail "nothing unpacks: exit code $status"
grep -q 'there is no python3, unzip or bsdtar to unpack it$' "$work/out" || fail "$(cat "$work/out")"

quick --wheel none.whl
[ "$status" = 3 ] || fail "a wheel that is not there: exit code $status"
grep -q '^quickstart.sh: .*/elsewhere/none.whl: no such file$' "$work/out" || fail "$(cat "$work/out")"

# Without a wheel it announces the steps before it takes them.
rm "$work/elsewhere"/*.whl
quick
[ "$status" = 9 ] || fail "without a wheel: exit code $status"
grep -q "^no wheel is at hand .* about 6 minutes$" "$work/out" || fail "$(cat "$work/out")"
grep -qE '/(apt-get|sudo|cmake) ' "$work/called" || fail "without a wheel nothing was built"
echo "quickstart: good"
