#!/usr/bin/env bash
# All tests that compute, on the fake device (tests/fake/fake_device.h): as late as can be, and once waiting after each
# call. Tests that look at when a failure shows, which differs there, run in the second way alone.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
compile build/test -DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON
layers='^(core|ops|check|graph|nn|data|train|zoo)_'
# These count allocations, look at guards of memory or names of backends, or start the program, which knows
# no fake device.
host='^(data_pipeline_files|ops_funnel|ops_op_cases|train_default_trainer)$'
at_once='^nn_metric$'
export TILTH_DEVICE=fake
echo "device: late"
ctest --test-dir build/test -j "$(nproc)" -R "$layers" -E "$host|$at_once" --output-on-failure
for seed in 7 23; do
    echo "device: late, in the order of seed $seed"
    TILTH_FAKE_SEED=$seed ctest --test-dir build/test -j "$(nproc)" -R '^(core|graph)_' -E "$host" --output-on-failure
done
echo "device: waiting after each call"
TILTH_DEVICE_SYNC=1 ctest --test-dir build/test -j "$(nproc)" -R "$layers" -E "$host" --output-on-failure
# Kernels of a GPU as plain C, on the host; what only NVIDIA's libraries compute is not among them.
echo "device: kernels of a GPU, on the host"
TILTH_DEVICE=shim ctest --test-dir build/test -j "$(nproc)" --output-on-failure \
    -R '^ops_(activation|create|elementwise|index|loss|norm|pool|random|reduce|resize|softmax|sort|unary|update|view)$'
TILTH_DEVICE=shim build/test/tests/ops_compiled
TILTH_DEVICE=shim TILTH_GRAPHS=300 TILTH_COMPILED_GRAPHS=300 build/test/tests/graph_random_graphs
echo "device: what a GPU must show, by libraries that compute nothing"
env -u TILTH_DEVICE DRY=1 tests/gpu/run.sh build/test
echo "device: all green, in $SECONDS s"
