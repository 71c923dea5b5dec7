#!/usr/bin/env bash
# run.sh [BUILD]: what a GPU must show, on a machine that has one; BUILD (build/test) holds the tests, built. Where NVIDIA's
# libraries are not where the loader looks, TILTH_CUDA_PATH says where. Prints each part with its time; fails if one does.
#   ops       rows of ops in every type against the reference, goldens, second derivatives; each family in parts, side by side
#   tests     all else that computes: programs, golden models, optimizers, trainers, tasks
#   graphs    random programs against eager execution on the reference (TILTH_GRAPHS, 5000)
#   repeat    50 steps twice, and with a kill between, behind which choices come from the checkpoint: the same bytes
#   travel    CPU -> GPU -> CPU: each goes on from the other's checkpoint, and comes to what the CPU alone comes to
#   commands  explain, train_net, and programs of examples/
#   learn     experiments reach on the GPU what they reach on the CPU
# PARTS chooses among them; ROWS, a regular expression, among the programs of `ops`. LOGS names a folder in which all that
# was said stays; what hangs is ended.
#
# DRY=1 tries the script itself, `repeat`, `travel` and `commands` of it, where no GPU is: by the libraries that are none, in
# BUILD/tests/fake_cuda*. As these compute nothing, no number is looked at then; what the other parts show, they cannot.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=$(realpath "${1:-build/test}")
tilth=$build/tilth
all='ops tests graphs repeat travel commands learn'
parts=${PARTS:-$all}
any=() # words for a training whose losses mean nothing
if [[ -n ${DRY:-} ]]; then
    parts=${PARTS:-repeat travel commands}
    any=(trainer.recovery_max_trials=-1)
    export TILTH_CUDA_PATH=$build/tests/fake_cuda:$build/tests/fake_cuda_more FAKE_CUDA=memory=150000000000
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/tilth-gpu-XXXXXX")
failed=
skipped=

leave()
{
    [[ -z ${LOGS:-} ]] || { mkdir -p "$LOGS" && find "$work" -maxdepth 1 -type f -exec cp {} "$LOGS" \;; }
    rm -rf "$work"
}
trap leave EXIT
export TILTH_CACHE_DIR=${TILTH_CACHE_DIR:-$work/compiled} # of what is started here; CTest gives its tests that of the build
mkdir -p -m 700 "$TILTH_CACHE_DIR"

# These compare bits, counts or sizes with the host's, look at guards of its memory, want forms of its kernels, are processes that
# share it, or start programs that know no GPU; random programs are a part of their own.
host='ops_(funnel|op_cases|adding)|nn_optimizer_share|data_pipeline_files|train_(default_trainer|memory_plan)'
host+='|graph_(bits|beside|collectives|early|logits|need|passes|plan|random_graphs|recompute|show|slopes|weight_copies)'
host="^($host)\$"

# look : without all that a GPU needs the CPU would compute in its place, and all would be well.
look()
{
    local name lacks=
    "$tilth" devices | tee "$work/devices.txt"
    grep -q '^cuda:0 ' "$work/devices.txt" || lacks+=' cuda:0'
    for name in driver nvrtc cublaslt cudnn; do
        grep -qE "^ +$name +[0-9]" "$work/devices.txt" || lacks+=" $name"
    done
    [[ -z $lacks ]] || { echo "this machine lacks:$lacks"; exit 1; }
    for name in $parts; do
        [[ " $all " == *" $name "* ]] || { echo "PARTS: there is no '$name'; there are: $all"; exit 1; }
    done
}

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

# has_all FILE... : there are some, and what wrote them ended well.
has_all()
{
    [[ -e $1 ]] || { echo '   nothing was run'; return 1; }
    ! grep -qa ' ends with ' "$@"
}

part_ops()
{
    local name part
    (cd "$build/tests" && for name in $(cd - >/dev/null && families "${ROWS:-}"); do
        for part in {1..8}; do printf '%s %s/8\n' "$name" "$part"; done
    done | xargs -P "$(nproc)" -L 1 bash -c 'run_rows "$@"' rows)
    cat "$work"/*.rows | grep -aE ' rows, .* checks, ' \
        | awk '{rows += $2; checks += $4; failures += $6} END {print "   " rows " rows, " checks " checks, " failures " failures"}'
    cat "$work"/*.rows | grep -aE '^FAIL|ERROR|LINE|ssertion| ends with ' | cut -c1-300 | head -150
    has_all "$work"/*.rows
}

part_tests()
{
    local rows
    rows=$(families | paste -sd'|')
    TILTH_DEVICE=cuda timeout 300 ctest --test-dir "$build" --parallel "$(nproc)" --output-on-failure \
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
    has_all "$work"/graphs.*.txt
}

# train DEVICE FOLDER STEPS WORD... : the last checkpoint is that of these steps. `before` is what starts the program.
train()
{
    local device=$1 folder=$2 steps=$3
    shift 3
    TILTH_DEVICE=$device ${before-timeout 120} "$tilth" train --experiment="${experiment:-vision/local}" --mode=train \
        --model_dir="$work/$folder" "trainer.train_steps=$steps" trainer.checkpoint_interval=10 tilth.seed=3 "${any[@]}" "$@" \
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

has_saved()
{
    compgen -G "$work/$1/ckpt-$2*" >/dev/null
}

# kill_once FOLDER WORD... : fails where the training was over before it could be killed.
kill_once()
{
    local folder=$1 last=$((SECONDS + 120))
    shift
    rm -rf "${work:?}/$folder"
    before=exec train cuda "$folder" 50 "$@" & # so that it is itself what is killed
    local training=$!
    while ! has_saved "$folder" 20 && kill -0 "$training" 2>/dev/null && ((SECONDS < last)); do :; done # sleeping takes longer
    kill -KILL "$training" 2>/dev/null || true
    wait "$training" 2>/dev/null || true
    has_saved "$folder" 20 && ! has_saved "$folder" 50
}

# kill_training FOLDER WORD... : between its steps 20 and 50.
kill_training()
{
    local try
    for try in {1..20}; do
        kill_once "$@" >/dev/null 2>&1 && return
    done
    echo "   $1: $try times none was killed between its steps 20 and 50; the last one said:"
    tail -3 "$work/$1.txt"
    return 1
}

# goes_on WORD... : killed and gone on with, it comes to what it came to without. It goes on with an empty cache: so what was
# chosen among plans comes from the checkpoint.
goes_on()
{
    rm -rf "$work"/{killed,empty}
    kill_training killed "$@" || return 1
    mkdir -m 700 "$work/empty"
    TILTH_CACHE_DIR=$work/empty train cuda killed 50 "$@" || return 1
    grep -q "restored model from $work/killed/ckpt-" "$work/killed.txt" || { echo "   it began anew"; return 1; }
    [[ -n $(find "$work/empty" -type f | head -1) ]] || { echo "   it did not use the empty cache"; return 1; }
    same once killed 50
}

repeat_one()
{
    rm -rf "$work"/{once,twice}
    train cuda once 50 "$@" && train cuda twice 50 "$@" && same once twice 50 && goes_on "$@"
}

# Calls that are large enough to be measured: which plans were chosen is in the checkpoint.
repeat_choices()
{
    local words=(runtime.mixed_precision_dtype=bfloat16 task.train_data.global_batch_size=4096)
    rm -rf "$work/once"
    train cuda once 50 "${words[@]}" || return 1
    if [[ -z ${DRY:-} ]] && ! grep -aq 'measured on' "$work"/once/ckpt-50*; then
        echo "   its checkpoint has no choices"
        return 1
    fi
    goes_on "${words[@]}"
}

part_repeat()
{
    local experiment
    for experiment in vision/local bert/local; do
        repeat_one || return 1
        repeat_one runtime.mixed_precision_dtype=bfloat16 || return 1
        echo "   $experiment: 50 steps twice and killed, float32 and bfloat16: the same bytes"
    done
    experiment=vision/local
    repeat_choices || return 1
    echo "   $experiment, large batches, killed: the same choices among plans, and the same bytes"
}

# restored FOLDER STEP : the last training there went on from it.
restored()
{
    grep -q "restored model from $work/$1/ckpt-$2" "$work/$1.txt" && return
    echo "   $1 did not go on from step $2"
    return 1
}

# metric NAME DEVICE FOLDER : of an evaluation there.
metric()
{
    TILTH_DEVICE=$2 timeout 120 "$tilth" eval --model_dir="$work/$3" 2>/dev/null | awk -v name="$1" '$1 == name {print $2}'
}

# within LESS NUMBER NUMBER : they differ by no more.
within()
{
    awk -v most="$1" -v a="${2:-nan}" -v b="${3:-nan}" \
        'BEGIN {exit !(a + 0 == a && b + 0 == b && a - b <= most && b - a <= most)}'
}

# 20 of 60 steps on the GPU leave a training where the CPU alone has it, but for rounding.
part_travel()
{
    local experiment=vision/local home away there
    train cpu home 60 && train cpu away 20 && train cuda away 40 && restored away 20 || return 1
    train cpu away 60 && restored away 40 || return 1
    "$tilth" ckpt diff "$work"/home/ckpt-60.safetensors "$work"/away/ckpt-60.safetensors 2>&1 | tail -4
    home=$(metric validation_loss cpu home)
    away=$(metric validation_loss cpu away)
    there=$(metric validation_loss cuda away)
    echo "   validation_loss: $home at home, $away away, $there as the GPU evaluates that"
    [[ -z ${DRY:-} ]] || return 0
    within 0.001 "$home" "$away" && within 0.0001 "$away" "$there"
}

# ends_well WANTED COMMAND... : it ends with 0 and says something that fits the regular expression.
ends_well()
{
    local wanted=$1 code=0
    shift
    timeout 120 "$@" >"$work/said.txt" 2>&1 || code=$?
    [[ $code == 0 ]] && grep -qE -- "$wanted" "$work/said.txt" && return
    printf '   %s: ends with %s, or does not say: %s\n' "${*##*/}" "$code" "$wanted"
    tail -3 "$work/said.txt"
    return 1
}

part_commands()
{
    local name bad=0 here=$PWD example=$build/examples/example
    mkdir "$work/commands"
    cd "$work/commands" || return 1
    export TILTH_DEVICE=cuda
    for name in vision/local bert/local; do
        ends_well ' GFLOP/s in float32, .* GB/s from memory' "$tilth" explain --experiment="$name" --trace=trace.json || bad=1
        ! grep -q '(on the host)' "$work/said.txt" || { echo "   $name: the CPU computes a part of it"; bad=1; }
    done
    ends_well 'copypaste: ' "$tilth" train_net --config-file="$here/tests/gpu/net.yaml" train.output_dir=net || bad=1
    ends_well 'copypaste: ' "$tilth" train_net --config-file="$here/tests/gpu/net.yaml" train.output_dir=net --resume \
        train.train_iter=400 || bad=1
    local low='validation_loss +0\.00' good="'best_accuracy': (0\.9|1)" well="step:   1000 .*'accuracy': (0\.9|1\.0)"
    [[ -z ${DRY:-} ]] || low=validation_loss good='' well='step:   1000 '
    ends_well "$low" "${example}_first_task" train --experiment=curve --mode=train_and_eval --model_dir=first "${any[@]}" || bad=1
    ends_well "$well" "${example}_custom_steps" train --experiment=example/custom_steps --mode=train_and_eval \
        --model_dir=steps "${any[@]}" || bad=1
    ends_well "$good" "${example}_custom_trainer" custom || bad=1
    unset TILTH_DEVICE
    cd "$here" || return 1
    return $bad
}

# learn_on DEVICE EXPERIMENT WORD... : trains and evaluates; what came of it is in a file.
lesson=0
learn_on()
{
    local device=$1 experiment=$2 to=$work/learn-$lesson-$1
    shift 2
    TILTH_DEVICE=$device timeout 300 "$tilth" train --experiment="$experiment" --mode=train_and_eval --model_dir="$to" \
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
    learn next_sentence_accuracy 0.95 0.05 bert/local || bad=1
    learn AP 0.2 0.08 detection/local trainer.train_steps=600 trainer.validation_interval=600 || bad=1
    learn accuracy 0.6 0.08 vision/local task.model.backbone.type=resnet task.model.backbone.resnet.model_id=18 || bad=1
    if [[ -d /usr/share/datasets/fashion-mnist ]]; then
        learn accuracy 0.9 0.01 fashion_mnist/cnn || bad=1
    else
        echo "   fashion_mnist/cnn: skipped: its files are not here; Debian's package dataset-fashion-mnist has them"
        skipped+=" fashion_mnist/cnn"
    fi
    return $bad
}

look
for name in $all; do part "$name"; done
for name in $all; do wanted "$name" || skipped+=" $name"; done
[[ -z $skipped ]] || printf 'skipped:%s\n' "$skipped"
[[ -z $failed ]] || { printf 'FAILED:%s, in %d s\n' "$failed" "$SECONDS"; exit 1; }
printf 'gpu: all good%s%s, in %d s\n' "${skipped:+ that was not skipped}" "${DRY:+ (but nothing was computed)}" "$SECONDS"
