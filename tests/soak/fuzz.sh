#!/usr/bin/env bash
# Fuzzes every target towards its goal, 10^8 executions (10^7 for those that open files: run_folder, board_request), over as many runs
# as that takes: tests/soak/fuzz_counts.txt says how far each has come, and each run adds to it. A run adds ten million
# executions (SOAK_RUNS, where it is set) of each target that reads training data from files of others (tfrecord, example,
# idx), and a tenth of that of every other one; those that have reached their goal are left out. Names of targets as
# arguments: these alone, goal or not. A tenth of them is made with the address sanitizer and looks for new inputs; the rest
# changes what was found, with guarded memory (tests/fuzz/guarded_memory.c); what they add is run with the address sanitizer
# at last. One worker a core (SOAK_WORKERS, where it is set), at the lowest priority, so that it
# can run beside other work; ended by Ctrl-C or TERM, it counts what it has done.
# What each said is in build/fuzz/soak/; an input that fails is in build/fuzz/found/. Whoever changes a parser much sets its
# count back to 0.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

logs=build/fuzz/soak
table=tests/soak/fuzz_counts.txt
# Short stacks (with fewer than two frames no leak is found), and a quarantine that is just larger than what one execution
# frees: that is faster, and a finding is run again anyway.
export ASAN_OPTIONS=malloc_context_size=2:quarantine_size_mb=2
workers=${SOAK_WORKERS:-$(nproc)}

runs=${SOAK_RUNS:-10000000}
goal=100000000
folder_goal=10000000
interrupted=72 # libFuzzer's exit code after Ctrl-C

# --- what was done in other runs ------------------------------------------------------------------

goal_of()
{
    case $1 in
    run_folder | board_request) echo "$folder_goal" ;;
    *) echo "$goal" ;;
    esac
}

# count_of TARGET : executions in all runs before.
count_of()
{
    [[ ! -f $table ]] || awk -v target="$1" '$1 == target { count = $2 } END { print count + 0 }' "$table"
    [[ -f $table ]] || echo 0
}

# executions LOG... : what libFuzzer says at its end, or, of one that was ended, the last number that it told.
executions()
{
    local log
    for log in "$@"; do
        [[ ! -f $log ]] || awk '/^#[0-9]+/ { last = substr($1, 2) }
            /^stat::number_of_executed_units/ { last = $2 } END { print last + 0 }' "$log"
    done | awk '{ total += $1 } END { print total + 0 }'
}

# Adds what this run has done.
record()
{
    local name
    {
        [[ ! -f $table ]] || grep '^#' "$table" || true
        for name in $(fuzz_targets); do
            printf '%-16s %10d %10d\n' "$name" \
                $(($(count_of "$name") + $(executions "$logs/$name".*))) "$(goal_of "$name")"
        done
    } >"$table.new"
    mv "$table.new" "$table"
}

# --- this run -------------------------------------------------------------------------------------

# share_of TARGET : executions of one worker. One that was named has no end before the run's.
share_of()
{
    local all=$runs left
    case $1 in
    tfrecord | example | idx) ;;
    *) all=$(((runs + 9) / 10)) ;;
    esac
    left=$(($(goal_of "$1") - $(count_of "$1")))
    ((left <= 0 || left > all)) || all=$left
    echo $(((all + workers - 1) / workers))
}

# fuzz_in_turn NAME LOG : the share of one worker. Inputs that are found are kept, whatever they cover in the target itself,
# which alone is instrumented in the fast build.
fuzz_in_turn()
{
    local share
    share=$(share_of "$1")
    fuzz_one "$1" "-runs=$(((share + 9) / 10))" -print_final_stats=1 >"$2.checked" 2>&1 \
        && FUZZERS=build/fuzz-fast fuzz_one "$1" "-runs=$((share - (share + 9) / 10))" -keep_seed=1 -entropic=0 -detect_leaks=0 \
            -print_final_stats=1 >"$2.fast" 2>&1 \
        && fuzz_one "$1" -runs=0 >"$2.again" 2>&1
}

# work NUMBER TARGET... : each target in turn; workers begin at different ones.
work()
{
    local number=$1 i name status
    shift
    for ((i = 0; i < $#; i++)); do
        name=${*:(number + i) % $# + 1:1}
        status=0
        fuzz_in_turn "$name" "$logs/$name.$number" || status=$?
        case $status in
        0) echo "   $name, worker $number: done" ;;
        "$interrupted") echo "   $name, worker $number: ended early"; return ;;
        *) echo "   $name, worker $number: FAILED, see $logs/$name.$number.*"; return 1 ;;
        esac
    done
}

# When somebody ends the run: the workers tell how far they have come, and that counts too.
pids=()
targets=()
end_early()
{
    local pid
    trap - EXIT
    for pid in "${pids[@]}"; do kill -INT -- "-$pid" 2>/dev/null || true; done
    wait
    record
    tell
    echo "fuzz: ended early, after $SECONDS s; what was done is counted in $table"
    exit 1
}

tell()
{
    local name
    for name in "${targets[@]}"; do
        echo "   $name: $(executions "$logs/$name".*) executions, $(count_of "$name") of $(goal_of "$name") in all runs"
    done
}

unfinished_targets()
{
    local name
    for name in $(fuzz_targets); do (($(count_of "$name") >= $(goal_of "$name"))) || echo "$name"; done
}

soak()
{
    local i failed=0
    targets=("$@")
    build_fuzzers
    build_fast_fuzzers
    [[ $(fuzz_targets) ]] || die "there are no fuzz targets"
    [[ $# -gt 0 ]] || mapfile -t targets < <(unfinished_targets)
    if [[ ${#targets[@]} == 0 ]]; then
        echo "fuzz: every target has reached its goal ($table)"
        return
    fi
    rm -rf "$logs"
    mkdir -p "$logs"
    echo "fuzz: ${#targets[@]} targets, $workers workers, up to $runs executions each"
    renice -n 19 -p $$ >/dev/null
    trap end_early EXIT
    trap 'exit 1' INT TERM
    set -m # each worker is a group of its own, which can be ended as a whole
    for ((i = 0; i < workers; i++)); do
        work "$i" "${targets[@]}" &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || failed=1; done
    trap - EXIT
    record
    tell
    echo "fuzz: $(executions "$logs"/*) executions in $SECONDS s"
    return "$failed"
}

soak "$@"
