# shellcheck shell=bash
# Sourced by the tests of packages: a work folder, and the checks shared by all packages.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { [ "$1" = "$2" ] || fail "$3: found '$1', expected '$2'"; }

# The commands that the program nxdkit is, and the words of all.
# shellcheck disable=SC2034  # used by those who source this
commands=(nxd-convert nxd-reshard neuron-export ckpt-inspect ckpt-verify ckpt-diff ckpt-digest ckpt-pack neuron-cache
  nxdkit-make-model nxdkit-env)
words=(convert reshard export inspect verify diff digest pack cache make-model env)

# expect_words NXDKIT: every word runs the command at the same place in the list.
expect_words() {
  local i
  for i in "${!words[@]}"; do
    expect "$("$1" "${words[$i]}" --version | awk '{print $1}')" "${commands[$i]}" "nxdkit ${words[$i]} --version"
  done
}

# expect_exports LIBRARY: exports the functions of nxdkit.h, and nothing else.
expect_exports() {
  local header found
  header=$(dirname "${BASH_SOURCE[0]}")/../../tools/library/nxdkit.h
  found=$(nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | LC_ALL=C sort)
  expect "$found" "$(sed -n 's/^NXDKIT_API .*\(nxdkit_[a-z_]*\)(.*/\1/p' "$header" | LC_ALL=C sort)" "what $1 exports"
}
