#!/usr/bin/env bash
# Every character and a million lines of text, beside the four programs whose numbers `tilth tokenize` gives
# (tests/interop/check_tokenizers.py). TILTH_LINES asks for another number of lines, TILTH_RULES for some of the rules. About
# an hour on two cores.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

build_release
build_venv
build_original
read -ra rules <<<"${TILTH_RULES:-}"
TILTH=$PWD/build/tilth .venv/bin/python tests/interop/check_tokenizers.py "${TILTH_LINES:-1000000}" "${rules[@]}"
