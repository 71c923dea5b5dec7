#!/usr/bin/env bash
# Trainings of several processes end with the bytes of one process: each kind on each number of processes, over shared
# memory and MPI.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
[[ -n ${TILTH:-} ]] || compile build/test "${TEST_OPTIONS[@]}"
program=$(realpath "${TILTH:-build/test/tilth}")
export TILTH_CACHE_DIR=${TILTH_CACHE_DIR:-$PWD/build/compiled} TILTH_NUM_THREADS=1 HWLOC_COMPONENTS=-gl

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

short=(tilth.seed=7 tilth.lanes=8 trainer.train_steps=6 trainer.steps_per_loop=3 trainer.summary_interval=3
       trainer.checkpoint_interval=3 trainer.validation_interval=3 trainer.validation_steps=3)
vision=(--experiment=vision/local task.train_data.aug_rand_hflip=true task.train_data.drop_remainder=false
        task.train_data.synthetic_examples=100 task.validation_data.global_batch_size=200
        'task.model.backbone.cnn.units=[256,64]')
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

# train FOLDER KIND HOW... : the words behind start the program, and may be followed by "launch -n N" and by words that
# begin with "tilth.".
train()
{
    local folder=$1 kind=$2 words
    shift 2
    read -ra words <<<"$(xargs <<<"${kinds[$kind]}")"
    local how=("$@")
    while [[ ${how[-1]} == tilth.* ]]; do
        words+=("${how[-1]}")
        unset 'how[-1]'
    done
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

# merged FOLDER KIND HOW... : trains with divided checkpoints, and compares them when they are merged
merged()
{
    local index
    kinds[divided]="${kinds[$2]} tilth.checkpoint_shards=4"
    train "$1" divided "${@:3}"
    unset 'kinds[divided]'
    for index in "$1"/ckpt-*.index.json; do
        quietly "$1.txt" "$program" ckpt merge "$index" -o "${index%.index.json}"
    done
    same "$2-1" "$1"
}

mpirun=(mpirun --allow-run-as-root --oversubscribe --bind-to none)
parts=(25 0.0625 0.1) # no bit depends on what travels at a time
compared=0
for kind in "${!kinds[@]}"; do
    train "$kind-1" "$kind" "$program"
    for n in 2 3 4 5 7 8; do
        train "$kind-$n" "$kind" "$program" launch -n "$n" "tilth.bucket_mb=${parts[n % 3]}"
        same "$kind-1" "$kind-$n"
        compared=$((compared + 1))
    done
    TILTH_COMM=mpi train "$kind-mpi" "$kind" "${mpirun[@]}" -n 3 "$program" tilth.bucket_mb=0.0625
    same "$kind-1" "$kind-mpi"
    compared=$((compared + 1))
    for zero in 1 2 3; do
        for n in 2 3 5 8; do
            train "$kind-z$zero-$n" "$kind" "$program" launch -n "$n" tilth.zero=$zero "tilth.bucket_mb=${parts[n % 3]}"
            same "$kind-1" "$kind-z$zero-$n"
            TILTH_COMM=mpi train "$kind-m$zero-$n" "$kind" "${mpirun[@]}" -n "$n" "$program" tilth.zero=$zero \
                "tilth.bucket_mb=${parts[n % 3]}"
            same "$kind-1" "$kind-m$zero-$n"
            compared=$((compared + 1))
        done
        compared=$((compared + 4))
    done
    # divided into files, which each writes some of
    merged "$kind-d" "$kind" "$program" launch -n 3 tilth.zero=2
    TILTH_COMM=mpi merged "$kind-e" "$kind" "${mpirun[@]}" -n 2 "$program" tilth.zero=1
    compared=$((compared + 2))
    rm -rf "$kind"-*
done
echo "processes: $compared trainings with the bytes of one process"
