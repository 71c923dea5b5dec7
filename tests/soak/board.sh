#!/usr/bin/env bash
# The page for long: clients that misbehave by the thousand, runs that are killed, files that are cut, replaced and removed, and the
# folder itself, while it is asked all the time. tests/soak/board_clients.py says what must hold. SOAK_SECONDS: how long (600).
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" python3
build_release
python3 tests/soak/board_clients.py build/tilth "${SOAK_SECONDS:-600}"
