#!/usr/bin/env bash
# run.sh [BUILD]: what a GPU must show, on a machine that has one; BUILD (build/test) holds the tests, built. Where NVIDIA's
# libraries are not where the loader looks, TILTH_CUDA_PATH says where. Prints each part with its time; fails if one does.
#   ops       rows of ops in every type against the reference, goldens, second derivatives; each family in parts, side by side
#   tests     all else that computes: programs, golden models, optimizers, trainers, tasks
#   graphs    random programs against eager execution on the reference (TILTH_GRAPHS, 5000)
#   repeat    50 steps twice, and with a kill between: the same bytes
#   travel    CPU -> GPU -> CPU: each goes on from the other's checkpoint
#   learn     experiments reach on the GPU what they reach on the CPU
# PARTS chooses among them; ROWS, a regular expression, among the programs of `ops`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=$(realpath "${1:-build/test}")
tilth=$build/tilth
parts=${PARTS:-ops tests graphs repeat travel learn}
work=$(mktemp -d "${TMPDIR:-/tmp}/tilth-gpu-XXXXXX")
failed=
trap 'rm -rf "$work"' EXIT
export TILTH_CACHE_DIR=${TILTH_CACHE_DIR:-$work/compiled} # one for all: what one has compiled the others find
mkdir -p -m 700 "$TILTH_CACHE_DIR"

# These compare bits, counts or sizes with the host's, look at guards of its memory, want forms of its kernels, are processes that
# share it, or start programs that know no GPU; random programs are a part of their own.
host='ops_(funnel|op_cases|adding)|nn_optimizer_share|data_pipeline_files|train_(default_trainer|memory_plan)'
host+='|graph_(bits|beside|collectives|early|logits|need|passes|plan|random_graphs|recompute|show|slopes|weight_copies)'
host="^($host)\$"

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

# Programs with a table of cases, which can run some of its rows.
families()
{
    grep -l 'op_cases_main(argc, argv, "' tests/ops/test_*.c | sed 's|.*/test_|ops_|; s|\.c$||' \
        | grep -vE "$host" | grep -E "${1:-.}"
}

# run_rows PROGRAM NUMBER/COUNT : what it says goes to a file of its own.
run_rows()
{
    local to=$work/$1.${2%/*}.rows status=0
    TILTH_DEVICE=cuda timeout 240 "$build/tests/$1" --part "$2" >"$to" 2>&1 || status=$?
    [[ $status == 0 ]] || echo "$1 --part $2 ends with $status" >>"$to"
}
export -f run_rows
export build work

part_ops()
{
    local name part
    (cd "$build/tests" && for name in $(cd - >/dev/null && families "${ROWS:-}"); do
        for part in {1..8}; do printf '%s %s/8\n' "$name" "$part"; done
    done | xargs -P "$(nproc)" -L 1 bash -c 'run_rows "$@"' rows)
    cat "$work"/*.rows | grep -aE ' rows, .* checks, ' \
        | awk '{rows += $2; checks += $4; failures += $6} END {print "   " rows " rows, " checks " checks, " failures " failures"}'
    cat "$work"/*.rows | grep -aE '^FAIL|ERROR|LINE|ssertion| ends with ' | cut -c1-300 | head -150
    ! grep -qaE ' ends with ' "$work"/*.rows
}

part_tests()
{
    local rows
    rows=$(families | paste -sd'|')
    TILTH_DEVICE=cuda ctest --test-dir "$build" --parallel "$(nproc)" --timeout 240 --output-on-failure \
        -R '^((core|ops|graph|nn|train|zoo)_|cuda_(forms|maps|whole)$)' -E "$host|^($rows)\$" >"$work/ctest.txt" 2>&1 \
        && tail -3 "$work/ctest.txt" && return
    grep -E '\*\*\*|ERROR|LINE|tests failed|different|must' "$work/ctest.txt" | cut -c1-300 | head -150
    return 1
}

# run_graphs FIRST COUNT : those with these seeds.
run_graphs()
{
    local to=$work/graphs.$1.txt status=0
    TILTH_DEVICE=cuda TILTH_NUM_THREADS=2 TILTH_GRAPH_SEED=$1 TILTH_GRAPHS=$2 TILTH_COMPILED_GRAPHS=$2 \
        timeout 400 "$build/tests/graph_random_graphs" >"$to" 2>&1 || status=$?
    [[ $status == 0 ]] || echo "graphs from $1: ends with $status" >>"$to"
}
export -f run_graphs

part_graphs()
{
    local all=${TILTH_GRAPHS:-5000} first piece=50 # each loads its code alone: more of them than processors
    for ((first = 1; first <= all; first += piece)); do
        echo "$first $((first + piece > all ? all - first + 1 : piece))"
    done | xargs -P $((3 * $(nproc) / 2)) -L 1 bash -c 'run_graphs "$@"' graphs
    cat "$work"/graphs.*.txt | grep -aE 'ERROR|LINE|seed|ssertion| ends with ' | cut -c1-300 | head -60
    ! grep -qa ' ends with ' "$work"/graphs.*.txt
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

# learn_on DEVICE EXPERIMENT WORD... : trains and evaluates; what came of it is in a file.
lesson=0
learn_on()
{
    local device=$1 experiment=$2 to=$work/learn-$lesson-$1
    shift 2
    TILTH_DEVICE=$device "$tilth" train --experiment="$experiment" --mode=train_and_eval --model_dir="$to" \
        tilth.seed=5 "$@" >"$to.txt" 2>&1 || { tail -5 "$to.txt"; return 1; }
}

# learn METRIC LEAST LESS EXPERIMENT WORD... : the metric on the GPU reaches LEAST, and at most LESS below that on the CPU.
learn()
{
    local metric=$1 least=$2 less=$3 home away device
    shift 3
    lesson=$((lesson + 1))
    learn_on cpu "$@" &
    local other=$! bad=0
    learn_on cuda "$@" || bad=1
    wait "$other" || bad=1
    for device in cpu cuda; do
        away=$(awk -v name="$metric" '$1 == name {print $2}' "$work/learn-$lesson-$device.txt" | tail -1)
        [[ $device == cuda ]] || home=$away
    done
    printf '   %s: %s is %s on the CPU and %s on the GPU\n' "$*" "$metric" "${home:-nothing}" "${away:-nothing}"
    [[ $bad == 0 ]] && awk -v a="${away:-nan}" -v h="${home:-nan}" -v least="$least" -v less="$less" \
        'BEGIN {exit !(a + 0 == a && a >= least && a >= h - less)}'
}

part_learn()
{
    local bad=0
    learn accuracy 0.75 0.05 vision/local || bad=1
    learn next_sentence_accuracy 1 0 bert/local || bad=1
    learn AP 0.2 0.08 detection/local trainer.train_steps=600 trainer.validation_interval=600 || bad=1
    learn accuracy 0.6 0.08 vision/local task.model.backbone.type=resnet task.model.backbone.resnet.model_id=18 || bad=1
    if [[ -d /usr/share/datasets/fashion-mnist ]]; then
        learn accuracy 0.9 0.01 fashion_mnist/cnn || bad=1
    else
        echo "   fashion_mnist/cnn: its files are not here; Debian's package dataset-fashion-mnist has them"
    fi
    return $bad
}

"$tilth" devices
for name in ops tests graphs repeat travel learn; do part "$name"; done
[[ -z $failed ]] || { printf 'FAILED:%s, in %d s\n' "$failed" "$SECONDS"; exit 1; }
printf 'gpu: all good, in %d s\n' "$SECONDS"
