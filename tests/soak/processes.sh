#!/usr/bin/env bash
# Trainings of several processes end with the bytes of one process: each kind on each number of processes, over shared
# memory and MPI; then one training that is killed, stopped and asked to end at random moments, and gone on with by
# another number of processes each time. TILTH_KILLS says how often.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
[[ -n ${TILTH:-} ]] || compile build/test "${TEST_OPTIONS[@]}"
program=$(realpath "${TILTH:-build/test/tilth}")
kills=${TILTH_KILLS:-200}
export TILTH_CACHE_DIR=${TILTH_CACHE_DIR:-$PWD/build/compiled} TILTH_NUM_THREADS=1 HWLOC_COMPONENTS=-gl

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

short=(tilth.seed=7 tilth.lanes=8 trainer.train_steps=6 trainer.steps_per_loop=3 trainer.summary_interval=3
       trainer.checkpoint_interval=3 trainer.validation_interval=3 trainer.validation_steps=3)
vision=(--experiment=vision/local task.train_data.aug_rand_hflip=true task.train_data.drop_remainder=false
        task.train_data.synthetic_examples=100 task.validation_data.global_batch_size=200)
sizes=(task.train_data.global_batch_size=16 task.validation_data.global_batch_size=16)
declare -A kinds=(
    [plain]="${vision[*]} trainer.validation_steps=-1"
    [norms]="${vision[*]} task.model.backbone.type=resnet task.model.backbone.resnet.model_id=10
             task.model.backbone.resnet.depth_multiplier=0.25 task.model.dropout_rate=0.3 tilth.gradient_accumulation=2"
    [halves]="${vision[*]} task.model.backbone.cnn.batch_norm=true runtime.mixed_precision_dtype=mixed_bfloat16"
    [scaled]="${vision[*]} runtime.mixed_precision_dtype=mixed_float16"
    [averaged]="${vision[*]} +trainer.optimizer_config.ema.average_decay=0.9"
    [eager]="${vision[*]} runtime.run_eagerly=true"
    [bert]="--experiment=bert/local"
    [sentence]="--experiment=sentence/local"
    [tasks]="--experiment=multitask/local"
    [stages]="--experiment=progressive/local"
    [boxes]="--experiment=detection/local ${sizes[*]}"
    [pixels]="--experiment=segmentation/local ${sizes[*]}"
    [pairs]="--experiment=simclr/local"
)

# train FOLDER KIND HOW... : the words behind start the program, and may be followed by "launch -n N" and by a
# "tilth.zero=N".
train()
{
    local folder=$1 kind=$2 words
    shift 2
    read -ra words <<<"$(xargs <<<"${kinds[$kind]}")"
    local how=("$@")
    if [[ ${how[-1]} == tilth.zero=* ]]; then
        words+=("${how[-1]}")
        unset 'how[-1]'
    fi
    quietly "$folder.txt" "${how[@]}" train --mode=train_and_eval "--model_dir=$folder" "${short[@]}" "${words[@]}" \
        || die "$kind in $folder failed"
}

same()
{
    local file
    for file in "$1"/*.safetensors "$1"/best/*.safetensors; do
        [[ ! -f $file ]] || cmp "$file" "$2/${file#"$1"/}" || die "$2: other bytes than those of one process"
    done
}

mpirun=(mpirun --allow-run-as-root --oversubscribe --bind-to none)
compared=0
for kind in "${!kinds[@]}"; do
    train "$kind-1" "$kind" "$program"
    for n in 2 3 4 5 7 8; do
        train "$kind-$n" "$kind" "$program" launch -n "$n"
        same "$kind-1" "$kind-$n"
        compared=$((compared + 1))
    done
    TILTH_COMM=mpi train "$kind-mpi" "$kind" "${mpirun[@]}" -n 3 "$program"
    same "$kind-1" "$kind-mpi"
    compared=$((compared + 1))
    for zero in 1 2 3; do
        for n in 2 3 5 8; do
            train "$kind-z$zero-$n" "$kind" "$program" launch -n "$n" tilth.zero=$zero
            same "$kind-1" "$kind-z$zero-$n"
            [[ $zero != 3 ]] || continue # over MPI each has all weights
            TILTH_COMM=mpi train "$kind-m$zero-$n" "$kind" "${mpirun[@]}" -n "$n" "$program" tilth.zero=$zero
            same "$kind-1" "$kind-m$zero-$n"
            compared=$((compared + 1))
        done
        compared=$((compared + 4))
    done
    rm -rf "$kind"-*
done
echo "processes: $compared trainings with the bytes of one process"

# --- killed -------------------------------------------------------------------------------------------

long=(train --experiment=vision/local --mode=train_and_eval tilth.seed=7 tilth.lanes=8 trainer.train_steps=400000
      trainer.steps_per_loop=20 trainer.summary_interval=20 trainer.checkpoint_interval=20 trainer.validation_interval=60
      trainer.validation_steps=2)
RANDOM=${SEED:-7}

# hit N SIGNAL: starts so many, sends one of them the signal after a while, and looks at how all end.
hit()
{
    local n=$1 signal=$2 launcher children code=0 wanted=4 begin
    "$program" launch -n "$n" "${long[@]}" --model_dir=hit >hit.txt 2>&1 &
    launcher=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 900 + 100))"
    read -ra children <"/proc/$launcher/task/$launcher/children" || true # it has no end of line
    begin=$SECONDS
    [[ ${#children[@]} == "$n" ]] || die "$(cat hit.txt)"
    [[ $signal != TERM ]] || wanted=3
    kill "-$signal" "${children[RANDOM % n]}"
    wait "$launcher" || code=$?
    # one that comes before the training heeds signals ends the process as it ends others
    [[ $code == "$wanted" || $signal == TERM ]] || die "$signal: exit code $code, not $wanted: $(cat hit.txt)"
    [[ $((SECONDS - begin)) -le 40 ]] || die "$signal: all took $((SECONDS - begin)) s to end"
    [[ $signal != KILL ]] || grep -q 'was ended by signal 9' hit.txt || die "no message: $(cat hit.txt)"
    [[ $signal != STOP ]] || grep -q 'has not been heard of for' hit.txt || die "no message: $(cat hit.txt)"
}

for ((i = 0; i < kills; i++)); do
    case $((i % 20)) in
    7) hit $((RANDOM % 3 + 2)) STOP ;;
    3 | 9 | 13 | 18) hit $((RANDOM % 7 + 2)) TERM ;;
    *) hit $((RANDOM % 7 + 2)) KILL ;;
    esac
done
last=$(find hit -name 'ckpt-*.safetensors' | sed 's/.*-\([0-9]*\)\..*/\1/' | sort -n | tail -1)
last=$((last / 20 * 20 + 40))
"$program" launch -n 3 "${long[@]}" --model_dir=hit trainer.train_steps=$last >hit.txt 2>&1 || die "$(cat hit.txt)"
"$program" "${long[@]}" --model_dir=whole trainer.train_steps=$last >whole.txt 2>&1 || die "$(cat whole.txt)"
cmp "hit/ckpt-$last.safetensors" "whole/ckpt-$last.safetensors"
echo "processes: the same bytes at step $last after $kills of them were killed, stopped or asked to end"
