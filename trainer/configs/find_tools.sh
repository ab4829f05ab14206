# shellcheck shell=bash
# Sourced by the scripts of this folder: finds the commands of nxdkit.

# find_tools [BUILD]: prints the folder of the commands: in BUILD, else in build/release or build/dev,
# the first that exists, else where grpo-train is installed.
find_tools() {
  local root place
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  local places=("$root/build/release" "$root/build/dev")
  [ $# -gt 0 ] && places=("$1")
  for place in "${places[@]}"; do
    [ -x "$place/tools/grpo-train" ] || continue
    echo "$place/tools"
    return
  done
  if [ $# -eq 0 ] && place=$(command -v grpo-train); then
    dirname "$place"
    return
  fi
  echo "no grpo-train in ${places[*]/%//tools}; build it first:" \
    "cmake --preset release && cmake --build build/release" >&2
  return 3
}
