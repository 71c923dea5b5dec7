#!/usr/bin/env bash
# SimCLR on Fashion-MNIST: features that were learned without labels, then tuned with 1 % of them, tell the test pictures
# apart at least 3 points better than the same network that is trained with these labels alone, on average over five sets
# of 600 labels, and within 1 point of the same recipe in PyTorch. Ours takes some five minutes on two cores, PyTorch longer.
# TILTH_SEEDS asks for another number of sets, TILTH_STEPS for a shorter pre-training, TILTH_PEER=0 leaves PyTorch out.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

seeds=${TILTH_SEEDS:-5} steps=${TILTH_STEPS:-2000} peer=${TILTH_PEER:-1} tuning=300
build_release
need_packages "${DEMO_PACKAGES[@]}"
build_venv .venv-torch bench/peers/requirements.txt
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# train EXPERIMENT RUN STEPS WORD... : the accuracy at the end.
train()
{
    build/tilth train --experiment="simclr/$1" --mode=train_and_eval "--model_dir=$folder/$2" --verbosity=-1 \
        --progress=lines "trainer.train_steps=$3" "trainer.validation_interval=$3" \
        "trainer.optimizer_config.learning_rate.cosine.decay_steps=$3" "${@:4}" \
        | awk '/^done/ { done = 1 } done && $1 == "accuracy" { print $2 }'
}

theirs()
{
    .venv-torch/bin/python tests/soak/simclr_peer.py "$@"
}

begun=$SECONDS
a=$(train fashion_mnist features "$steps" tilth.seed=1)
echo "simclr: pre-trained in $((SECONDS - begun)) s: a head that looks on has an accuracy of $a"
if [[ $peer == 1 ]]; then
    begun=$SECONDS
    a=$(theirs pretrain 1 "$steps" "$folder/features.pt")
    echo "simclr: PyTorch: in $((SECONDS - begun)) s, $a"
fi
for ((seed = 1; seed <= seeds; seed++)); do
    few=$folder/few$seed
    mkdir "$few"
    theirs subset "$seed" 60 "$few"
    words=("tilth.seed=$seed" task.train_data.holdout=0
        "task.train_data.input_path=$few/train-images-idx3-ubyte,$few/train-labels-idx1-ubyte")
    a=$(train fashion_mnist_finetuning "tuned$seed" "$tuning" "${words[@]}" "task.init_checkpoint=$folder/features")
    b=$(train fashion_mnist_finetuning "alone$seed" "$tuning" "${words[@]}")
    c=$a d=$b
    if [[ $peer == 1 ]]; then
        c=$(theirs finetune "$seed" "$tuning" "$few" "$folder/features.pt")
        d=$(theirs finetune "$seed" "$tuning" "$few")
    fi
    echo "simclr: labels $seed: $a, alone $b; PyTorch $c, alone $d"
    echo "$a $b $c" >>"$folder/all"
done
awk -v wanted="$([[ $steps -lt 2000 ]] && echo 0 || echo 0.03)" '
    { a += $1; b += $2; c += $3 }
    END { a /= NR; b /= NR; c /= NR
          printf "simclr: %.4f on average, %.1f points above labels alone; PyTorch %.4f\n", a, 100 * (a - b), c
          exit !(NF == 3 && a - b >= wanted && a - c <= 0.01 && c - a <= 0.01) }' "$folder/all" \
    || die "simclr: less than 3 points above labels alone, or more than 1 point from PyTorch"
