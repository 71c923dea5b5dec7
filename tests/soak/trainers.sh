#!/usr/bin/env bash
# Kills trainings of several tasks, in stages, of weights that thaw and of a pre-training's checkpoints, at random moments,
# and goes on with them: each ends with the bytes of one that was never killed. TILTH_KILLS says how often, in all.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
[[ -n ${TILTH:-} ]] || compile build/test "${TEST_OPTIONS[@]}"
program=$(realpath "${TILTH:-build/test/tilth}")
kills=${TILTH_KILLS:-200}
export TILTH_CACHE_DIR=${TILTH_CACHE_DIR:-$PWD/build/compiled}

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

short=(tilth.seed=7 tilth.threads=1 trainer.steps_per_loop=5 trainer.summary_interval=5
       trainer.checkpoint_interval=5 trainer.validation_interval=20 trainer.validation_steps=2
       trainer.best_checkpoint_export_subdir=best)

# What each leaves at its end, but for times and what is told of them.
leaves()
{
    local folder=$1
    (cd "$folder" && find . -name '*.safetensors' -o -name 'info.json' -o -name 'metrics-*.json' | sort | xargs sha256sum)
}

# run FOLDER NAME: one of the trainings.
run()
{
    local folder=$1 thaw
    thaw="tilth.unfreeze=[{step: 0, patterns: ['^head/']}, {step: 31, patterns: ['dense']}, {step: 63, patterns: ['.']}]"
    case $2 in
    stages)
        exec "$program" train --experiment=progressive/local --mode=train_and_eval "--model_dir=$folder" "${short[@]}" \
            trainer.train_steps=120 trainer.best_checkpoint_eval_metric=accuracy \
            'trainer.progressive.stages=[{num_steps: 60}, {num_steps: 60}]'
        ;;
    interleaving | joint)
        exec "$program" train --experiment=multitask/local --mode=train_and_eval "--model_dir=$folder" "${short[@]}" \
            "trainer.trainer_type=$2" trainer.train_steps=150 'trainer.best_checkpoint_eval_metric=steepness|accuracy'
        ;;
    thaw)
        exec "$program" train --experiment=vision/local --mode=train_and_eval "--model_dir=$folder" "${short[@]}" \
            trainer.train_steps=150 trainer.best_checkpoint_eval_metric=accuracy "$thaw" \
            ++trainer.optimizer_config.ema.average_decay=0.99
        ;;
    continuous)
        exec "$program" train --experiment=vision/local --mode=continuous_train_and_eval "--model_dir=$folder" \
            "${short[@]}" trainer.train_steps=150 trainer.best_checkpoint_eval_metric=accuracy \
            task.init_checkpoint=pretraining --pretrain_steps=10
        ;;
    esac
}

# Starts it again and again, and kills it before it is through; then it may end.
torment()
{
    local name=$1 wanted=$2 killed=0 began seconds child code
    for _ in compiling whole; do # the second finds the code of its loops compiled, as those that are killed do
        rm -rf "$name.whole"
        began=$(date +%s%N)
        (run "$name.whole" "$name") > "$name.log" 2>&1 || { cat "$name.log"; die "$name: the run failed"; }
    done
    seconds=$((($(date +%s%N) - began) / 1000000))
    while ((killed < wanted)); do
        (run "$name.cut" "$name") > "$name.log" 2>&1 &
        child=$!
        sleep "$(awk -v ms="$seconds" -v r="$RANDOM" 'BEGIN { printf "%.3f", ms / 1000 * (0.05 + 0.9 * r / 32768) }')"
        kill -9 "$child" 2>/dev/null || true
        code=0
        wait "$child" 2>/dev/null || code=$?
        if ((code == 137)); then
            ((++killed))
        elif ((code != 0)); then
            cat "$name.log"
            die "$name: exit code $code after $killed kills"
        else # it was through before: from the start again
            compare "$name"
            rm -rf "$name.cut"
        fi
    done
    (run "$name.cut" "$name") > "$name.log" 2>&1 || { cat "$name.log"; die "$name: the run failed"; }
    compare "$name"
    echo "$name: the same bytes after $killed kills, $(leaves "$name.whole" | wc -l) files"
}

compare()
{
    diff <(leaves "$1.whole") <(leaves "$1.cut") || die "$1: killed runs end otherwise"
}

"$program" train --experiment=vision/local --mode=train --model_dir=pretraining "${short[@]}" trainer.train_steps=10 \
    > pretraining.log 2>&1
names=(stages interleaving joint thaw continuous)
for name in "${names[@]}"; do torment "$name" $(((kills + ${#names[@]} - 1) / ${#names[@]})); done
