#!/usr/bin/env bash
# All tests that compute, under the checking backend: every call is looked at before and behind it (tests/engine.h).
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
compile build/test -DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON
TILTH_CHECK=1 ctest --test-dir build/test -j "$(nproc)" -R '^(core|ops|check|cpu|nest|graph|nn|data|train|zoo|builtin)_' \
    --output-on-failure
echo "check: all green, in $SECONDS s"
