#!/usr/bin/env bash
# Own images in one command, with no setting but the folder: 600 photos of 3 classes in all sizes and colours, some of
# them broken or turned, and 60000 pictures of clothes as PNG and JPEG of 28 to 200 pixels. Accuracies must be above 0.95
# and at least 0.90; times are printed: on two cores they should be below 2 and 10 minutes.
# A name as an argument (photos or clothes): this one alone.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

build_release
need_packages "${DEMO_PACKAGES[@]}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
data=/usr/share/datasets/fashion-mnist
cc -O2 -std=gnu17 -Wall -Wextra -Iinclude tests/soak/images.c -o "$folder/make" -Lbuild -ltilth "-Wl,-rpath,$PWD/build" -lm

# trial NAME WANTED : trains on $folder/NAME; the accuracy must be above WANTED.
trial()
{
    local accuracy status=0 TIMEFORMAT='%R %U'
    { time build/tilth train --experiment=images --mode=train_and_eval "--model_dir=$folder/run-$1" \
        "task.train_data.input_path=$folder/$1" >"$folder/$1.txt" 2>"$folder/$1.log"; } 2>"$folder/time" || status=$?
    if [[ $status != 0 ]]; then
        tail -n 20 "$folder/$1.log" >&2
        die "images: the training on $1 ended with $status"
    fi
    sed -n '/^done/,/^files/p' "$folder/$1.txt" | sed '$d'
    accuracy=$(awk '/^done/ { done = 1 } done && $1 == "accuracy" { print $2 }' "$folder/$1.txt")
    read -r real user <"$folder/time"
    echo "images: $1: accuracy $accuracy in $real s, $user s of processor time"
    awk -v a="$accuracy" -v w="$2" 'BEGIN { exit !(a > w) }' || die "images: $1: the accuracy is not above $2"
}

if [[ ${1:-photos} == photos ]]; then
    "$folder/make" photos "$folder/photos"
    trial photos 0.95
    for bad in cut.jpg empty.png text.jpg; do
        grep -q "left out: .*$bad" "$folder/photos.log" || die "images: $bad is not told to be left out"
    done
    grep -q 'gif' "$folder/photos.log" || die "images: the GIF is not told to be passed over"
fi
if [[ ${1:-clothes} == clothes ]]; then
    "$folder/make" clothes $data/train-images-idx3-ubyte.gz $data/train-labels-idx1-ubyte.gz "$folder/clothes"
    trial clothes 0.8999
fi
