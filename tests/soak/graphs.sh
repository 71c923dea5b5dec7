#!/usr/bin/env bash
# Random programs of 5 to 60 ops, with gradients, against eager execution on the reference backend:
# 100,000 interpreted, 3,000 of them compiled as well, which takes most of the time (half an hour on two
# cores). TILTH_GRAPHS and TILTH_COMPILED_GRAPHS ask for other numbers, TILTH_GRAPH_SEED begins
# elsewhere.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
compile build/test -DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON
export TILTH_GRAPHS=${TILTH_GRAPHS:-100000} TILTH_COMPILED_GRAPHS=${TILTH_COMPILED_GRAPHS:-3000}
TILTH_CACHE_DIR=$(mktemp -d)
export TILTH_CACHE_DIR
trap 'rm -rf "$TILTH_CACHE_DIR"' EXIT
build/test/tests/graph_random_graphs 2>&1 | tee build/test/graphs.txt | tail -3
grep -q 'OK.*random_graphs_are_as_eager' build/test/graphs.txt || die "graphs: a program differs from eager execution"
echo "graphs: no difference, in $SECONDS s"
