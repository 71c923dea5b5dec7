#!/usr/bin/env bash
# mpi.sh MPIRUN RANKS TILTH: every collective over MPI on some numbers of ranks, and processes of mpirun that meet in
# shared memory, over MPI, and where there is no plug-in.
set -euo pipefail
mpirun=$1 ranks=$2 tilth=$3
export HWLOC_COMPONENTS=-gl # or it asks every display for its card
export TILTH_NUM_THREADS=1

options=()
if grep -q 'Open MPI\|OpenRTE' <<<"$("$mpirun" --version 2>&1)"; then
    options=(--allow-run-as-root --oversubscribe --bind-to none)
fi
run()
{
    local count=$1
    shift
    timeout 300 "$mpirun" "${options[@]}" -n "$count" "$@"
}
wanted()
{
    grep -q "$1" <<<"$2" || { printf 'expected "%s" in:\n%s\n' "$1" "$2"; exit 1; }
}

for count in 1 2 3 5; do
    run "$count" "$ranks" || { echo "$count ranks: they differ from the reference"; exit 1; }
done
wanted 'over shm' "$(run 2 "$tilth" launch --check)"
wanted 'over mpi' "$(TILTH_COMM=mpi run 2 "$tilth" launch --check)"
wanted 'no libtilth_mpi.so: install libopenmpi-dev' "$(TILTH_MPI=/nowhere TILTH_COMM=mpi run 2 "$tilth" launch --check 2>&1 || true)"
wanted 'cannot do `train` together yet' "$(run 2 "$tilth" train --experiment=vision/local --model_dir=/nowhere 2>&1 || true)"
echo "   MPI: as the reference"
