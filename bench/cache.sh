#!/usr/bin/env bash
# neuron-cache compile -n and check over 10,000 entries, against find, which looks at every file,
# and against reading the flags and graphs that they need. Interleaved, from the page cache. See
# README.md.
#   bench/cache.sh [--rounds N] [--entries N] [--keep] [--work FOLDER] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
usage=bench/cache.sh
own_options="entries"
. bench/common.sh

rounds=5 entries=10000 work=build/bench
parse_options "$@"
prepare_build neuron-cache
prepare_work

# done: entries with results; waiting: the same without; flags: the same graphs with other flags;
# other: graphs that done does not have.
[ -d "$work/cache" ] || python3 - "$work/cache" "$entries" <<'PY'
import hashlib, os, sys
root, count = sys.argv[1], int(sys.argv[2])
FLAGS = ['["--auto-cast=none", "--target=trn1"]', '["--auto-cast=all", "--target=trn1"]']
def graph(name):  # HloModuleProto: a long name, and a computation; all of one size
    text = name.encode().ljust(4000, b".")
    return b"\x0a" + bytes([len(text) & 127 | 128, len(text) >> 7]) + text + b"\x1a\x00"
def entry(tree, key, flags, done):
    folder = f"{root}/{tree}/neuronxcc-2.21.1/MODULE_{key}+{hashlib.md5(flags.encode()).hexdigest()[:8]}"
    os.makedirs(folder)
    files = {"compile_flags.json": flags.encode(), "model.hlo_module.pb": graph(key)}
    if done:
        files |= {"model.neff": b"a result", "model.done": b""}
    for name, data in files.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)
for i in range(count):
    key, other = (hashlib.sha256(f"{what}{i}".encode()).hexdigest()[:20] for what in ("", "other"))
    entry("done", key, FLAGS[0], True)
    entry("waiting", key, FLAGS[0], False)
    entry("flags", key, FLAGS[1], False)
    entry("other", other, FLAGS[0], False)
PY

tool="$build/tools/neuron-cache"
look() { find "$@" -type f -printf '%s %p\n'; }
# The files to read: flags and graphs.
read_all() { find "$@" -type f \( -name '*.json' -o -name '*.pb' \) -print0 | xargs -0 cat; }
names=(find-1 find-2 read-1 compile-done compile-waiting check-there check-flags check-other)
cache=$work/cache
declare -A command=(
  [find-1]="look $cache/waiting"
  [find-2]="look $cache/done $cache/waiting"
  [read-1]="read_all $cache/waiting"
  [compile-done]="$tool compile -n --cache-dir $cache/done"
  [compile-waiting]="$tool compile -n --cache-dir $cache/waiting"
  [check-there]="$tool check --cache-dir $cache/done $cache/waiting"
  [check-flags]="$tool check --cache-dir $cache/done $cache/flags"
  [check-other]="$tool check --cache-dir $cache/done $cache/other"
)
# Prints the seconds of a command; exit code 1 means findings and is not a failure.
seconds() {
  local start=$EPOCHREALTIME code=0
  "$@" > /dev/null || code=$?
  [ $code -le 1 ] || { echo "exit code $code: $*" >&2; return 1; }
  since "$start"
  echo
}
look "$cache" > /dev/null  # into the page cache
declare -A times
for ((round = 0; round < rounds; ++round)); do
  for name in "${names[@]}"; do
    # shellcheck disable=SC2086  # words on purpose
    times[$name]+="$(seconds ${command[$name]})"$'\n'
  done
done
declare -A median
for name in "${names[@]}"; do median[$name]=$(printf '%s' "${times[$name]}" | median); done
row() { awk -v n="$1" -v t="${median[$1]}" -v f="${median[$2]}" 'BEGIN { printf "%-16s %7.3f s  %5.1f times find\n", n, t, t / f }'; }
echo "$entries entries; find: ${median[find-1]} s over one tree, ${median[find-2]} s over two"
for name in read-1 compile-done compile-waiting; do row "$name" find-1; done
for name in check-there check-flags check-other; do row "$name" find-2; done
