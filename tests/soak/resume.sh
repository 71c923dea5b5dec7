#!/usr/bin/env bash
# Kills a training at random moments, hundreds of times, in steps, saves and evaluations, and goes on with it: it ends
# with the bytes of one that was never killed. TILTH_KILLS says how often.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
compile build/test -DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON
export TILTH_KILLS=${TILTH_KILLS:-200}
(cd build/test/tests && TILTH_CACHE_DIR=$PWD/../compiled quietly resume.txt ./tool_resume)
echo "resume: the same bytes after $TILTH_KILLS kills"
