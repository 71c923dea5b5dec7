"""What peers have in common: they read the names of cases, and answer each with seconds a call (bench.h)."""
import sys
import time


def seconds(call, budget, wait=None):
    """Of one call, over as many as fill the budget; `wait` is for calls that return before they are done."""
    count, begin = 0, time.perf_counter()
    while count == 0 or time.perf_counter() - begin < budget:
        call()
        count += 1
    if wait:
        wait()
    return (time.perf_counter() - begin) / count


def warm(call):
    """The call, after it has been made once; None stays None."""
    if call:
        call()
    return call


def answer(make, measure):
    """`make` gives what a name stands for, or None, and `measure` its seconds. One case is kept at a time."""
    ready, last = None, None
    for line in sys.stdin:
        name = line.strip()
        if name != last:
            ready, last = None, name  # frees the case before
            ready = make(name)
        print(measure(ready) if ready else 'no such case', flush=True)


def status_mb(key):
    with open('/proc/self/status') as lines:
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def grown_mb(run):
    """MB by which the process grows at its peak."""
    with open('/proc/self/clear_refs', 'w') as refs:
        refs.write('5')  # the peak starts again from here
    before = status_mb('VmRSS')
    run()
    return status_mb('VmHWM') - before
