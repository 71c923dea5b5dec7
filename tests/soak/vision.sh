#!/usr/bin/env bash
# The small detector and the small segmenter learn what they should: on 500 pictures that they have not seen, AP50 of at
# least 0.90 and AP of 0.55, and a mean intersection over union of 0.90. About ten minutes each on two cores.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}"
compile build -DCMAKE_C_COMPILER=gcc
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# learn EXPERIMENT : trains it; gives the last number of each metric of its evaluations.
learn()
{
    local model_dir=$folder/${1%/*}
    build/tilth train --experiment="$1" --mode=train_and_eval --model_dir="$model_dir" --progress=lines > "$model_dir.log" 2>&1
    build/tilth eval --model_dir="$model_dir" --json
}

# at_least NAME LEAST JSON
at_least()
{
    local value
    value=$(sed -n "s/.*\"$1\": \([0-9.e-]*\).*/\1/p" <<< "$3" | tail -n 1)
    echo "   $1 $value (at least $2)"
    awk -v value="${value:-0}" -v least="$2" 'BEGIN { exit !(value >= least) }' || die "$1 is too low"
}

begun=$SECONDS
found=$(learn detection/local)
echo "== detection/local, $((SECONDS - begun)) s"
at_least AP50 0.90 "$found"
at_least AP 0.55 "$found"
begun=$SECONDS
found=$(learn segmentation/local)
echo "== segmentation/local, $((SECONDS - begun)) s"
at_least mean_iou 0.90 "$found"
