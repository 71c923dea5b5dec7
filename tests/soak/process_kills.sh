#!/usr/bin/env bash
# A training of several processes, one of which is killed, stopped or asked to end at random moments, and which is gone on
# with by another number of processes each time: every end comes in its time, with its message and code, and the bytes are
# those of one process that nobody hit. TILTH_KILLS says how often, SEED which moments, TILTH_WORKERS how many trainings
# are hit side by side, TILTH_SLACK_S how many seconds more than promised an end may take on a machine that is busy.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

if [[ -z ${TILTH:-} ]]; then
    need_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    compile build/test "${TEST_OPTIONS[@]}"
fi
program=$(realpath "${TILTH:-build/test/tilth}")
kills=${TILTH_KILLS:-200} seed=${SEED:-7} workers=${TILTH_WORKERS:-$(($(nproc) / 2 > 0 ? $(nproc) / 2 : 1))}
slack=${TILTH_SLACK_S:-8}
export TILTH_CACHE_DIR=${TILTH_CACHE_DIR:-$PWD/build/compiled} TILTH_NUM_THREADS=1

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

training=(train --experiment=vision/local --mode=train_and_eval tilth.seed=7 tilth.lanes=8 trainer.steps_per_loop=20
          task.train_data.global_batch_size=8 task.validation_data.global_batch_size=8 task.train_data.aug_rand_hflip=true
          trainer.summary_interval=20 trainer.checkpoint_interval=20 trainer.validation_interval=60
          trainer.validation_steps=2 trainer.train_steps=4000000)

milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# said PATTERN WHAT FILE: the message that must be there.
said()
{
    grep -q "$1" "$3" || die "$2: no message like '$1': $(cat "$3")"
}

# in_time SECONDS WHAT MILLISECONDS
in_time()
{
    [[ $3 -le $((($1 + slack) * 1000)) ]] || die "$2: all took $3 ms to end, and $1 s are promised"
}

# hit FOLDER N SIGNAL: starts so many, sends one of them the signal after a while, and looks at how all end.
hit()
{
    local folder=$1 n=$2 signal=$3 launcher children=() code=0 begin took what
    "$program" launch -n "$n" "${training[@]}" "--model_dir=$folder" >"$folder.txt" 2>&1 &
    launcher=$!
    sleep "0.$((RANDOM % 900 + 100))"
    for ((try = 0; ${#children[@]} < n && try < 100; try++)); do
        read -ra children <"/proc/$launcher/task/$launcher/children" || true # it has no end of line
        [[ ${#children[@]} == "$n" ]] || sleep 0.05
    done
    [[ ${#children[@]} == "$n" ]] || die "$folder: $(cat "$folder.txt")"
    what="$signal of one of $n in $folder"
    begin=$(milliseconds)
    kill "-$signal" "${children[RANDOM % n]}"
    wait "$launcher" || code=$?
    took=$(($(milliseconds) - begin))
    # what comes before the training heeds signals ends the process as it ends others
    [[ $signal != TERM || $code != 4 ]] || signal=EARLY
    case $signal in
    KILL) said 'was ended by signal 9' "$what" "$folder.txt"; in_time 2 "$what" "$took" ;;
    EARLY) said 'was ended by signal 15' "$what" "$folder.txt"; in_time 2 "$what" "$took" ;;
    STOP) said 'has not been heard of for' "$what" "$folder.txt"; in_time 25 "$what" "$took" ;;
    TERM) [[ $code == 3 ]] || die "$what: exit code $code, not 3: $(cat "$folder.txt")"; in_time 5 "$what" "$took" ;;
    esac
    [[ $signal == TERM || $code == 4 ]] || die "$what: exit code $code, not 4: $(cat "$folder.txt")"
    echo "$signal $n $took" >>"$folder.hits"
}

last_step()
{
    find "$1" -maxdepth 1 -name 'ckpt-*.safetensors' | sed 's/.*-\([0-9]*\)\..*/\1/' | sort -n | tail -1
}

# worker NUMBER: has its part of the hits, and goes on to a step that the one that nobody hits comes to as well.
worker()
{
    local folder=worker-$1 last
    RANDOM=$((seed * 1000 + $1))
    for ((i = kills * $1 / workers; i < kills * ($1 + 1) / workers; i++)); do
        case $((i % 20)) in
        7) hit "$folder" $((RANDOM % 3 + 2)) STOP ;;
        3 | 9 | 13 | 18) hit "$folder" $((RANDOM % 7 + 2)) TERM ;;
        *) hit "$folder" $((RANDOM % 7 + 2)) KILL ;;
        esac
    done
    last=$(last_step "$folder")
    last=$((${last:-0} / 60 * 60 + 120))
    quietly "$folder.txt" "$program" launch -n $((RANDOM % 7 + 2)) "${training[@]}" "--model_dir=$folder" \
        trainer.train_steps=$last || die "$folder cannot be gone on with to step $last"
    echo $((last - 20)) >"$folder.last" # at the last one itself it has been evaluated, when it is saved
}

"$program" "${training[@]}" --model_dir=whole trainer.max_to_keep=1000000 >whole.txt 2>&1 &
whole=$!
pids=()
for ((w = 0; w < workers; w++)); do
    worker "$w" &
    pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
for ((w = 0; w < workers && !failed; w++)); do
    last=$(<"worker-$w.last")
    while [[ ! -f whole/ckpt-$last.safetensors ]] && kill -0 "$whole" 2>/dev/null; do sleep 0.2; done
    cmp "worker-$w/ckpt-$last.safetensors" "whole/ckpt-$last.safetensors" || failed=1
done
kill "$whole" 2>/dev/null || true
wait "$whole" || true
[[ $failed == 0 ]] || die "not all of $kills hits ended as they should"
cat worker-*.hits | sort | awk '{ count[$1]++; if ($3 > most[$1]) most[$1] = $3 }
    END { for (s in count) printf "process kills: %4d x %-5s ended within %d ms\n", count[s], s, most[s] }' | sort
echo "process kills: the same bytes after $kills of them, up to step $(sort -n worker-*.last | tail -1)"
