#!/usr/bin/env bash
# nxd-convert in parts on Kubernetes with Volcano, through TorchX.
#
# usage: bash torchx_convert.sh IMAGE CLAIM -- OPTION... INPUT OUTPUT
# CLAIM is a volume claim of a file system that all pods share; they see it as /data. QUEUE names Volcano's queue
# (default), PARTS how many pods work (8). TORCHX_ARGUMENTS goes to torchx run: --dryrun shows the job.
set -euo pipefail
if [ $# -lt 4 ] || [ "$3" != -- ]; then
  sed -n '4p' "${BASH_SOURCE[0]}" | sed 's/^# //' >&2
  exit 2
fi
image=$1 claim=$2
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
read -ra more <<<"${TORCHX_ARGUMENTS:-}"
# No workspace: the image has the commands, and needs nothing from this folder.
exec torchx run ${more[@]+"${more[@]}"} --workspace="" -s kubernetes -cfg "queue=${QUEUE:-default}" \
  "$here/torchx_component.py:convert" --image "$image" --parts "${PARTS:-8}" \
  --mounts "type=volume,src=$claim,dst=/data" -- "$@"
