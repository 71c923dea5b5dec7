#!/usr/bin/env bash
# All tests with every case: the test command tries a part of those that differ in a type, a size or a compiler alone,
# and take long. tests/soak/sanitizers.sh does the same under the sanitizers.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
export TILTH_ALL_CASES=1
compile_and_test build/test "${TEST_OPTIONS[@]}"
echo "cases: every case, in $SECONDS s"
