#!/usr/bin/env bash
# All tests under the sanitizers with every case: the test command tries a part of those that differ in a type, an
# instruction set, a number of threads or a size alone.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
export TILTH_ALL_CASES=1
for kind in address thread; do
    folder=build/asan
    [[ $kind == address ]] || folder=build/tsan
    compile_and_test "$folder" "${TEST_OPTIONS[@]}" "-DTILTH_SANITIZE=$kind"
    echo "sanitizers: $kind, every case, in $SECONDS s"
done
