#!/usr/bin/env bash
# The small detector and the small segmenter learn what they should, and others say so: on 500 pictures of a seed that
# neither training nor evaluations have, pycocotools finds an AP50 of at least 0.90 and an AP of 0.55, and numpy a mean
# intersection over union of 0.90; and both find what `tilth eval` says. About ten minutes each on two cores.
# A name as an argument (detection or segmentation): this one alone. TILTH_STEPS asks for shorter trainings, whose numbers
# may be anything.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

build_release
build_venv
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
records=$folder/shapes-00000-of-00001.tfrecord
build/tilth data shapes --out="$folder/shapes" --count=500 --seed=3 --masks
build/tilth data annotations "$records" --out="$folder/truths.json" --masks

# learn EXPERIMENT : trains it.
learn()
{
    local words=()
    [[ ! ${TILTH_STEPS:-} ]] || words=("trainer.train_steps=$TILTH_STEPS" "trainer.validation_interval=$TILTH_STEPS")
    build/tilth train --experiment="$1" --mode=train_and_eval --model_dir="$folder/run" --progress=lines "${words[@]}" \
        >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; die "vision: the training of $1 ended with a failure"; }
}

# evaluate FLAG... : the run with the pictures of the records; gives its numbers as JSON.
evaluate()
{
    build/tilth eval --model_dir="$folder/run" --json task.validation_data.file_type=tfrecord \
        "task.validation_data.input_path=$records" "$@"
}

# check NAME LEAST OURS THEIRS : the number that others have found is at least LEAST, and it is ours.
check()
{
    local ours theirs
    ours=$(sed -n "s/.*\"$1\": \([0-9.e-]*\).*/\1/p" <<<"$3")
    theirs=$(sed -n "s/^$1 //p" <<<"$4")
    echo "   $1 $theirs (at least $2); tilth eval: $ours"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { exit !(a != "" && b != "" && a - b < 1e-5 && b - a < 1e-5) }' \
        || die "vision: $1 is another number for others"
    [[ ${TILTH_STEPS:-} ]] || awk -v a="$theirs" -v least="$2" 'BEGIN { exit !(a >= least) }' \
        || die "vision: $1 is below $2"
}

if [[ ${1:-detection} == detection ]]; then
    begun=$SECONDS
    learn detection/local
    echo "== detection/local, $((SECONDS - begun)) s; 500 pictures, by pycocotools"
    ours=$(evaluate --detections="$folder/found.json")
    theirs=$(.venv/bin/python tests/soak/vision_peer.py boxes "$folder/truths.json" "$folder/found.json")
    check AP50 0.90 "$ours" "$theirs"
    check AP 0.55 "$ours" "$theirs"
    rm -r "$folder/run"
fi
if [[ ${1:-segmentation} == segmentation ]]; then
    begun=$SECONDS
    learn segmentation/local
    echo "== segmentation/local, $((SECONDS - begun)) s; 500 pictures, by numpy"
    ours=$(evaluate)
    build/tilth predict --model_dir="$folder/run" --pictures="$folder/maps" "$records" >/dev/null
    theirs=$(.venv/bin/python tests/soak/vision_peer.py pixels "$folder/truths.json" "$folder/maps")
    check mean_iou 0.90 "$ours" "$theirs"
fi
