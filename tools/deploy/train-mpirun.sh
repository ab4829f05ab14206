#!/usr/bin/env bash
# grpo-train on several machines by mpirun, one process on each. Started again after a failure it resumes from the
# last checkpoint.
#
# usage: train-mpirun.sh RUN MACHINES --config FILE [KEY=VALUE...]
# RUN is the folder of the run, on a file system that all see. The machines are those of MPI_HOST (Volcano), of Open
# MPI's default hostfile (MPI operator), or of MPIRUN_ARGUMENTS: --hostfile FILE. LIMIT (23h) is the longest that
# mpirun may take. Exit codes: 0 when the run is done, 75 when it should go on, else the trainer's.
set -uo pipefail
if [ $# -lt 3 ] || [[ $1 == -* ]]; then
  sed -n '5p' "${BASH_SOURCE[0]}" | sed 's/^# //' >&2
  exit 2
fi
run=$1 machines=$2
shift 2
command=(grpo-train "$@" trainer.save_checkpoint_path="$run" trainer.nnodes="$machines")
# Checks the options before mpirun starts.
"${command[@]}" --dry-run || exit

read -ra more <<<"${MPIRUN_ARGUMENTS:-}"
[ -z "${MPI_HOST:-}" ] || more+=(--host "$MPI_HOST")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-self,tcp}
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
# Open MPI's own connections: a lost machine is noticed after 8 s, not after 8 minutes. The time has to be shorter
# than trainer.peer_timeout, or else mpirun hangs when the processes have ended; so it also gets a limit.
export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_oob_tcp_keepalive_intvl=1 OMPI_MCA_oob_tcp_keepalive_probes=3
rm -f "$run/DONE"  # from an earlier, shorter run: this one writes it again when it is done
timeout -k 60 "${LIMIT:-23h}" mpirun ${more[@]+"${more[@]}"} --map-by ppr:1:node --bind-to none "${command[@]}"
code=$?
if [ "$code" -eq 0 ]; then
  [ ! -e "$run/DONE" ] || exit 0
  code=75
fi
# 124: the limit; 128 and more: a signal, or mpirun's own code for a lost machine.
[ "$code" -lt 124 ] || code=75
exit "$code"
