#!/usr/bin/env bash
# run.sh [BUILD]: what a GPU must show, on a machine that has one; BUILD (build/test) holds the tests, built. Where NVIDIA's
# libraries are not where the loader looks, TILTH_CUDA_PATH says where. Prints each part with its time; fails if one does.
#   tests     all that compute, on the GPU: rows of ops in every type against the reference, goldens, second derivatives,
#             programs, trainers, tasks
#   graphs    random programs against eager execution on the reference (TILTH_GRAPHS, 5000)
#   repeat    50 steps twice, and with a kill between: the same bytes
#   travel    CPU -> GPU -> CPU: each goes on from the other's checkpoint
#   learn     experiments reach on the GPU what they reach on the CPU
# PARTS chooses among them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=$(realpath "${1:-build/test}")
tilth=$build/tilth
parts=${PARTS:-tests graphs repeat travel learn}
work=$(mktemp -d "${TMPDIR:-/tmp}/tilth-gpu-XXXXXX")
failed=
trap 'rm -rf "$work"' EXIT

# These compare bits or counts with the host's, look at guards of its memory, or start programs that know no GPU.
host='^(ops_funnel|ops_op_cases|ops_adding|graph_(bits|beside|passes|recompute|show|weight_copies)|nn_(metric|optimizer)_golden|data_pipeline_files|train_default_trainer)$'

wanted()
{
    [[ " $parts " == *" $1 "* ]]
}

# part NAME : runs part_NAME, tells how it ended.
part()
{
    local from=$SECONDS
    wanted "$1" || return 0
    printf '== %s\n' "$1"
    if "part_$1"; then
        printf '   %s: good, %d s\n' "$1" $((SECONDS - from))
    else
        printf '   %s: FAILED, %d s\n' "$1" $((SECONDS - from))
        failed+=" $1"
    fi
}

part_tests()
{
    TILTH_DEVICE=cuda ctest --test-dir "$build" --parallel "$(nproc)" --timeout 240 --output-on-failure \
        -R '^(core|ops|graph|nn|train|zoo)_' -E "$host" >"$work/ctest.txt" 2>&1 && tail -3 "$work/ctest.txt" && return
    grep -E '\*\*\*|ERROR|LINE|tests failed|different|must' "$work/ctest.txt" | cut -c1-300 | head -150
    return 1
}

part_graphs()
{
    TILTH_DEVICE=cuda TILTH_GRAPHS=${TILTH_GRAPHS:-5000} TILTH_COMPILED_GRAPHS=${TILTH_GRAPHS:-5000} \
        "$build/tests/graph_random_graphs" >"$work/graphs.txt" 2>&1 && return
    tail -20 "$work/graphs.txt"
    return 1
}

# train DEVICE FOLDER STEPS WORD... : the last checkpoint is that of these steps.
train()
{
    local device=$1 folder=$2 steps=$3
    shift 3
    TILTH_DEVICE=$device "$tilth" train --experiment="${experiment:-vision/local}" --mode=train \
        --model_dir="$work/$folder" "trainer.train_steps=$steps" trainer.checkpoint_interval=10 tilth.seed=3 "$@" \
        >"$work/$folder.txt" 2>&1 && return
    tail -5 "$work/$folder.txt"
    return 1
}

same()
{
    local name
    for name in "$work/$1"/ckpt-"$3"*; do
        cmp "$name" "$work/$2/$(basename "$name")" || return 1
    done
}

repeat_one()
{
    rm -rf "$work"/{once,twice,killed}
    train cuda once 50 "$@" && train cuda twice 50 "$@" && same once twice 50 || return 1
    train cuda killed 50 "$@" &
    local training=$!
    for _ in $(seq 400); do
        ! compgen -G "$work/killed/ckpt-20*" >/dev/null || break
        sleep 0.01
    done
    pkill -KILL -P "$training" || true
    wait "$training" 2>/dev/null || true
    train cuda killed 50 "$@" && same once killed 50
}

part_repeat()
{
    local experiment
    for experiment in vision/local bert/local; do
        repeat_one || return 1
        repeat_one runtime.mixed_precision_dtype=bfloat16 || return 1
        echo "   $experiment: 50 steps twice and killed, float32 and bfloat16: the same bytes"
    done
}

part_travel()
{
    local experiment=vision/local
    train cpu home 60 && train cpu away 20 && train cuda away 40 && train cpu away 60 || return 1
    "$tilth" ckpt diff "$work"/home/ckpt-60.safetensors "$work"/away/ckpt-60.safetensors 2>&1 | tail -4
    TILTH_DEVICE=cpu "$tilth" eval --model_dir="$work/away" 2>/dev/null | tail -3
    TILTH_DEVICE=cuda "$tilth" eval --model_dir="$work/away" 2>/dev/null | tail -3
}

learn_one()
{
    local experiment=$1 device
    for device in cuda cpu; do
        printf '   %s on %s: ' "$experiment" "$device"
        TILTH_DEVICE=$device "$tilth" train --experiment="$experiment" --mode=train_and_eval \
            --model_dir="$work/learn-$device-${experiment//\//-}" tilth.seed=5 "${@:2}" 2>&1 \
            | grep -E '^(done|  (accuracy|validation_loss|AP|masked_lm_accuracy|mean_iou|lm_)[^ ]* )' | xargs || return 1
    done
}

part_learn()
{
    learn_one vision/local
    learn_one bert/local
    [[ ! -d /usr/share/datasets/fashion-mnist ]] || learn_one fashion_mnist/cnn
}

"$tilth" devices
for name in tests graphs repeat travel learn; do part "$name"; done
[[ -z $failed ]] || { printf 'FAILED:%s, in %d s\n' "$failed" "$SECONDS"; exit 1; }
printf 'gpu: all good, in %d s\n' "$SECONDS"
