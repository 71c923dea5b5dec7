#!/usr/bin/env bash
# What was learned of some shapes helps with others: a ResNet that was trained here on circles, squares, triangles, crosses
# and rings learns stars, crescents, halves, arrows and corners from 50 pictures, and tells 600 others apart at least 5
# points better than one that begins with nothing, on average over three seeds (TILTH_SEEDS asks for another number). All
# of it by `--experiment=images`, which chooses what is not said. The one that begins with nothing is trained as `images`
# trains without weights, and once more with all the settings of the other; the better one counts.
# Some minutes on two cores.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

build_release
seeds=${TILTH_SEEDS:-3}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
resnet=(task.model.backbone.type=resnet task.model.backbone.resnet.model_id=10
    task.model.backbone.resnet.depth_multiplier=0.5)

shapes()
{
    build/tilth data shapes --folders --out="$folder/$1" --count="$2" --seed="$3" "${@:4}"
}

# train RUN FOLDER MODE WORD...
train()
{
    build/tilth train --experiment=images --model_dir="$folder/$1" "task.train_data.input_path=$folder/$2" --mode="$3" \
        --progress=lines "${@:4}" >"$folder/log" 2>&1 \
        || { tail -n 20 "$folder/log" >&2; die "transfer: the training of $1 ended with a failure"; }
}

# accuracy RUN FOLDER : of all pictures of the folder.
accuracy()
{
    build/tilth eval --model_dir="$folder/$1" --json "task.validation_data.input_path=$folder/$2" \
        task.validation_data.holdout=0 2>>"$folder/log" | sed -n 's/.*"accuracy": \([0-9.e-]*\).*/\1/p'
}

# setting RUN KEY : what `images` has chosen for a run.
setting()
{
    sed -n "s/^ *$2: //p" "$folder/$1/params.yaml" | head -n 1
}

others=(--kinds=star,crescent,half,arrow,corner)
shapes first 3000 11
shapes test 600 100 "${others[@]}"
begun=$SECONDS
train pretrained first train_and_eval "${resnet[@]}"
echo "transfer: pretrained in $((SECONDS - begun)) s: accuracy $(accuracy pretrained first) of its own kinds"
for ((seed = 1; seed <= seeds; seed++)); do
    shapes "few$seed" 50 "$seed" "${others[@]}"
    fixed=(task.train_data.holdout=0 "tilth.seed=$seed")
    train "tuned$seed" "few$seed" train "${fixed[@]}" "task.init_checkpoint=$folder/pretrained"
    train "usual$seed" "few$seed" train "${fixed[@]}" "${resnet[@]}"
    train "alike$seed" "few$seed" train "${fixed[@]}" "${resnet[@]}" \
        "task.train_data.global_batch_size=$(sed -n '/^  train_data:/,/^  validation_data:/s/^ *global_batch_size: //p' \
            "$folder/tuned$seed/params.yaml")" \
        "trainer.train_steps=$(setting "tuned$seed" train_steps)" \
        "trainer.optimizer_config.learning_rate.cosine.initial_learning_rate=$(setting "tuned$seed" initial_learning_rate)"
    for how in tuned usual alike; do accuracy "$how$seed" test >>"$folder/$how.txt"; done
    echo "transfer: seed $seed: $(tail -n 1 "$folder/tuned.txt"), from nothing $(tail -n 1 "$folder/usual.txt")," \
        "with the same settings $(tail -n 1 "$folder/alike.txt")"
done
paste "$folder"/{tuned,usual,alike}.txt | awk '
    { a += $1; b += $2; c += $3 }
    END { a /= NR; b /= NR; c /= NR; best = b > c ? b : c
          printf "transfer: %.4f on average, from nothing %.4f: %.1f points\n", a, best, 100 * (a - best)
          exit !(NF == 3 && a - best >= 0.05) }' || die "transfer: less than 5 points better than from nothing"
echo "transfer: in $SECONDS s"
