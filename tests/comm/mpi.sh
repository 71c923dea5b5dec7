#!/usr/bin/env bash
# mpi.sh MPIRUN RANKS TILTH: every collective over MPI on some numbers of ranks, processes of mpirun that meet in shared
# memory, over MPI, and where there is no plug-in, and a training of three of them.
set -euo pipefail
mpirun=$1 ranks=$2 tilth=$3
export HWLOC_COMPONENTS=-gl # or it asks every display for its card
export TILTH_NUM_THREADS=1

options=()
if grep -q 'Open MPI\|OpenRTE' <<<"$("$mpirun" --version 2>&1)"; then
    options=(--allow-run-as-root --oversubscribe --bind-to none)
fi
run()
{
    local count=$1
    shift
    timeout 300 "$mpirun" "${options[@]}" -n "$count" "$@"
}
wanted()
{
    grep -q "$1" <<<"$2" || { printf 'expected "%s" in:\n%s\n' "$1" "$2"; exit 1; }
}

for count in 1 2 3 4 5; do
    run "$count" "$ranks" || { echo "$count ranks: they differ from the reference"; exit 1; }
done
# Of MPICH's mpirun they have nothing in common but MPI.
meets=mpi package=libmpich-dev
[[ ${#options[@]} == 0 ]] || meets=shm package=libopenmpi-dev
wanted "over $meets" "$(run 2 "$tilth" launch --check)"
# Over MPI each has a connection to the chief: with a token that was made for the run, or with one that all have.
export TILTH_COMM=mpi
watched()
{
    local said
    said=$(run 2 "$tilth" launch --check 2>&1)
    wanted 'over mpi' "$said"
    ! grep 'will not be noticed' <<<"$said"
}
watched
TILTH_TOKEN=$(printf '%064d' 7) watched
wanted 'TILTH_TOKEN: expected 64 hexadecimal digits, found 3' "$(TILTH_TOKEN=abc run 2 "$tilth" launch --check 2>&1 || true)"
unset TILTH_COMM
wanted "TILTH_MPI: '/nowhere': No such file" "$(TILTH_MPI=/nowhere TILTH_COMM=mpi run 2 "$tilth" launch --check 2>&1 || true)"
wanted 'cannot do `find_lr` together yet' "$(run 2 "$tilth" find_lr --experiment=mock 2>&1 || true)"

# Three processes of MPI train what one does.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib" # a library without the plug-in beside it
cp -L "$(dirname "$tilth")"/libtilth.so.? "$folder/lib/"
said=$(LD_LIBRARY_PATH=$folder/lib TILTH_MPI='' TILTH_COMM=mpi run 2 "$tilth" launch --check 2>&1 || true)
wanted "no libtilth_mpi.so: install $package" "$said"
words=(train --experiment=vision/local --mode=train_and_eval tilth.seed=7 tilth.lanes=4 trainer.train_steps=6
    trainer.steps_per_loop=3 trainer.summary_interval=3 trainer.validation_steps=2)
said=$("$tilth" "${words[@]}" --model_dir="$folder/one" 2>&1) || { echo "$said"; exit 1; }
said=$(TILTH_COMM=mpi run 3 "$tilth" "${words[@]}" --model_dir="$folder/three" 2>&1) || { echo "$said"; exit 1; }
cmp "$folder/one/ckpt-6.safetensors" "$folder/three/ckpt-6.safetensors"

# So they do when each has a part of what the optimizer keeps, and of the weights, also where the run is gone on with. Two
# processes carry as many lanes, and three do not.
words+=('task.model.backbone.cnn.units=[128,64]' +trainer.optimizer_config.ema.average_decay=0.9 trainer.checkpoint_interval=2
    trainer.validation_interval=3 trainer.best_checkpoint_export_subdir=best trainer.best_checkpoint_eval_metric=accuracy)
said=$("$tilth" "${words[@]}" --model_dir="$folder/whole" 2>&1) || { echo "$said"; exit 1; }
for how in "3 parts tilth.zero=1 trainer.train_steps=3" "3 parts tilth.zero=2" "2 apart tilth.zero=3 trainer.train_steps=3" \
    "3 apart tilth.zero=3"; do
    read -ra how <<<"$how"
    said=$(TILTH_COMM=mpi run "${how[0]}" "$tilth" "${words[@]}" --model_dir="$folder/${how[1]}" "${how[@]:2}" 2>&1) \
        || { echo "$said"; exit 1; }
done
for run in parts apart; do
    for file in ckpt-2 ckpt-4 ckpt-6; do
        cmp "$folder/whole/$file.safetensors" "$folder/$run/$file.safetensors"
    done
    diff -rx checkpoint "$folder/whole/best" "$folder/$run/best"
done
# Each writes its files of a divided checkpoint, with its parts of slots; others go on from it.
for how in "3 tilth.zero=1 trainer.train_steps=3" "2 tilth.zero=3"; do
    read -ra how <<<"$how"
    said=$(TILTH_COMM=mpi run "${how[0]}" "$tilth" "${words[@]}" --model_dir="$folder/files" tilth.checkpoint_shards=2 "${how[@]:1}" 2>&1) \
        || { echo "$said"; exit 1; }
done
for file in ckpt-2 ckpt-4 ckpt-6; do
    "$tilth" ckpt merge "$folder/files/$file" -o "$folder/$file.safetensors" >/dev/null 2>&1
    cmp "$folder/whole/$file.safetensors" "$folder/$file.safetensors"
done
ls "$folder/files/ckpt-2.00003-of-00003.safetensors" "$folder/files/ckpt-6.00002-of-00002.safetensors" >/dev/null
grep -q '"pieces":{$' "$folder/files/ckpt-6.safetensors.index.json"
# Two machines of two processes add what each has, and then what both have.
# shellcheck disable=SC2016
said=$(TILTH_COMM=mpi run 4 sh -c 'TILTH_MACHINE=$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} / 2)) exec "$@"' sh "$tilth" "${words[@]}" \
    --model_dir="$folder/levels" runtime.all_reduce_alg=hierarchical_copy 2>&1) || { echo "$said"; exit 1; }
! grep 'adds at one level' <<<"$said"
cmp "$folder/whole/ckpt-6.safetensors" "$folder/levels/ckpt-6.safetensors"

# LiBai's trainer saves in the middle of its one loop: the chief what all bring, or each its files.
cat >"$folder/net.yaml" <<NET
model: {_target_: image_classification, num_classes: 4, input_size: [16, 16, 1],
        backbone: {type: cnn, cnn: {filters: [4], units: [64, 300]}}}
dataloader:
  train: &data {file_type: synthetic, synthetic_examples: 66, aug_crop: false, mean: [128], stddev: [64]}
  test: [*data]
train: {train_iter: 6, train_micro_batch_size: 4, test_micro_batch_size: 5, log_period: 2, checkpointer: {period: 2},
        evaluation: {eval_period: 3, eval_metric: accuracy}}
tilth: {threads: 1, lanes: 2}
NET
net=(train_net --config-file="$folder/net.yaml")
said=$("$tilth" "${net[@]}" train.output_dir="$folder/net" 2>&1) || { echo "$said"; exit 1; }
for stage in 1 3; do
    for files in 1 2; do
        said=$(TILTH_COMM=mpi run 2 "$tilth" "${net[@]}" train.output_dir="$folder/net-$stage-$files" \
            train.zero_optimization.enabled=true train.zero_optimization.stage=$stage tilth.checkpoint_shards=$files 2>&1) \
            || { echo "$said"; exit 1; }
        for file in ckpt-2 ckpt-3 ckpt-4 ckpt-6; do
            if [[ $files == 2 ]]; then
                grep -q '"pieces":{$' "$folder/net-$stage-$files/$file.safetensors.index.json"
                "$tilth" ckpt merge "$folder/net-$stage-$files/$file" -o "$folder/net-$stage-$files/$file.safetensors" >/dev/null 2>&1
            fi
            cmp "$folder/net/$file.safetensors" "$folder/net-$stage-$files/$file.safetensors"
        done
        for file in model_best.safetensors model_best.json model_final.safetensors last_checkpoint; do
            cmp "$folder/net/$file" "$folder/net-$stage-$files/$file"
        done
    done
done
echo "   MPI: as the reference"
