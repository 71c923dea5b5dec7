#!/usr/bin/env bash
# Every function of nest/inner/formula.h at all 2^32 floats, on this CPU's best instruction set, against the
# C library's doubles; the other instruction sets must give the same bits. Prints the largest error
# of each in units in the last place. TILTH_FLOATS names one function; without it all are swept,
# which takes long. TILTH_FLOATS_EVERY=61 sweeps one part in 61.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
compile build/test -DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON
export TILTH_FLOATS=${TILTH_FLOATS:-all}
echo "floats: largest errors, in units in the last place"
if ! build/test/tests/cpu_math >build/test/floats.txt 2>&1; then
    cat build/test/floats.txt
    die "floats: a function is not exact enough"
fi
grep ' units, at ' build/test/floats.txt
echo "floats: all within their bounds, in $SECONDS s"
