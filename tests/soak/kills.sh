#!/usr/bin/env bash
# Kills a process that replaces a file, hundreds of times, while another reads it: each time the file is
# the old one or the new one. TILTH_KILLS says how often.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
compile build/test -DCMAKE_C_COMPILER=gcc -DTILTH_TESTS=ON -DTILTH_WERROR=ON
export TILTH_KILLS=${TILTH_KILLS:-400}
(cd build/test/tests && quietly kills.txt ./base_file)
echo "kills: $TILTH_KILLS, no half-written file"
