#!/usr/bin/env bash
# Ten million executions (SOAK_RUNS, where it is set), shared out over all fuzz targets: one worker a
# core, at the lowest priority, so that it can run beside other work. What each said is in
# build/fuzz/soak/; an input that fails is in build/fuzz/found/.
# shellcheck source-path=SCRIPTDIR/../.. source=build.sh
source "$(dirname "$0")/../../build.sh"

logs=build/fuzz/soak
# Short stacks and a small quarantine: twice as many executions, and a finding is run again anyway.
export ASAN_OPTIONS=malloc_context_size=2:quarantine_size_mb=16
workers=$(nproc)

# work NUMBER RUNS TARGET... : each target in turn; workers begin at different ones.
work()
{
    local number=$1 runs=$2 i name
    shift 2
    for ((i = 0; i < $#; i++)); do
        name=${*:(number + i) % $# + 1:1}
        if fuzz_one "$name" "-runs=$runs" -print_final_stats=1 >"$logs/$name.$number" 2>&1; then
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
    local runs=${SOAK_RUNS:-10000000} targets share i pids=() failed=0
    build_fuzzers
    mapfile -t targets < <(fuzz_targets)
    [[ ${#targets[@]} -gt 0 ]] || die "there are no fuzz targets"
    share=$(((runs + workers * ${#targets[@]} - 1) / (workers * ${#targets[@]})))
    rm -rf "$logs"
    mkdir -p "$logs"
    echo "fuzz: ${#targets[@]} targets, $workers workers, $share executions each"
    renice -n 19 -p $$ >/dev/null
    for ((i = 0; i < workers; i++)); do
        work "$i" "$share" "${targets[@]}" &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || failed=1; done
    for i in "${targets[@]}"; do echo "   $i: $(executions "$logs/$i".*) executions"; done
    echo "fuzz: $(executions "$logs"/*) executions in $SECONDS s"
    return "$failed"
}

soak
