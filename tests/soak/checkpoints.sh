#!/usr/bin/env bash
# Changes bytes of checkpoints at random, thousands of times, and kills processes that save, hundreds of times: each
# change is noticed, and each time the latest checkpoint is whole. TILTH_FLIPS and TILTH_KILLS say how often.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
compile build/test -DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON
export TILTH_FLIPS=${TILTH_FLIPS:-10000} TILTH_KILLS=${TILTH_KILLS:-400}
(cd build/test/tests && quietly flips.txt ./io_checkpoint && quietly kills.txt ./io_checkpoint_manager)
echo "checkpoints: $TILTH_FLIPS changes noticed, $TILTH_KILLS kills survived"
