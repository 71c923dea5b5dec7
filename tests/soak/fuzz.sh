#!/usr/bin/env bash
# Ten million executions (SOAK_RUNS, where it is set) of each fuzz target that reads training data from files
# of others (tfrecord, example, idx), and a tenth of that of every other one; images are slow. One worker a core,
# at the lowest priority, so that it can run beside other work. Names of targets as arguments: these alone. What
# each said is in build/fuzz/soak/; an input that fails is in build/fuzz/found/.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

logs=build/fuzz/soak
# Short stacks and a small quarantine: twice as many executions, and a finding is run again anyway.
export ASAN_OPTIONS=malloc_context_size=2:quarantine_size_mb=16
workers=$(nproc)

runs=${SOAK_RUNS:-10000000}

# share_of TARGET : executions of one worker.
share_of()
{
    local all=$runs
    case $1 in
    tfrecord | example | idx) ;;
    *) all=$(((runs + 9) / 10)) ;;
    esac
    echo $(((all + workers - 1) / workers))
}

# work NUMBER TARGET... : each target in turn; workers begin at different ones.
work()
{
    local number=$1 i name
    shift
    for ((i = 0; i < $#; i++)); do
        name=${*:(number + i) % $# + 1:1}
        if fuzz_one "$name" "-runs=$(share_of "$name")" -print_final_stats=1 >"$logs/$name.$number" 2>&1; then
            echo "   $name, worker $number: done"
        else
            echo "   $name, worker $number: FAILED, see $logs/$name.$number"
            return 1
        fi
    done
}

executions()
{
    cat "$@" | awk '/^stat::number_of_executed_units/ { total += $2 } END { print total + 0 }'
}

soak()
{
    local targets=("$@") i pids=() failed=0
    build_fuzzers
    [[ $# -gt 0 ]] || mapfile -t targets < <(fuzz_targets)
    [[ ${#targets[@]} -gt 0 ]] || die "there are no fuzz targets"
    rm -rf "$logs"
    mkdir -p "$logs"
    echo "fuzz: ${#targets[@]} targets, $workers workers, up to $runs executions each"
    renice -n 19 -p $$ >/dev/null
    for ((i = 0; i < workers; i++)); do
        work "$i" "${targets[@]}" &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || failed=1; done
    for i in "${targets[@]}"; do echo "   $i: $(executions "$logs/$i".*) executions"; done
    echo "fuzz: $(executions "$logs"/*) executions in $SECONDS s"
    return "$failed"
}

soak "$@"
