"""The peer of bench_step: the same training steps in PyTorch (eager and compiled) and in JAX.

    python bench/peers/step.py THREADS      # reads names, answers with seconds a step
    python bench/peers/step.py --memory NAME  # MB by which PyTorch's process grows at its peak

Every way of running a case is tried once; the fastest is the peer and is measured from then on. A
case in bf16 may be answered by a peer that computes in f32, if that is faster here. How each way did,
and the peak of memory, goes to the standard error.
"""
import os
import platform
import resource
import sys

memory_of = sys.argv[2] if sys.argv[1] == '--memory' else None
threads = len(os.sched_getaffinity(0)) if memory_of else int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import torch
import torch.nn.functional as F

import jax_models
from answer import answer, grown_mb, seconds
from step_cases import CASES, data
from torch_models import torch_model

torch.set_num_threads(threads)
torch.manual_seed(0)
RATE, DECAY = jax_models.RATE, jax_models.DECAY
GIVEN_UP = 10  # a way that is this many times slower than another is not tried further

# --- PyTorch -------------------------------------------------------------------------------------------

def torch_step(kind, settings, shape, labels, classes, half, compiled):
    torch._dynamo.reset()
    model = torch_model(kind, settings)
    x, y = (torch.from_numpy(a) for a in data(kind, shape, labels, classes))
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=True)
    forward = torch.compile(model) if compiled else model

    def step():
        with torch.autocast('cpu', torch.bfloat16, enabled=half):
            loss = F.cross_entropy(forward(x).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, lambda: None


# --- JAX -----------------------------------------------------------------------------------------------

def jax_step(kind, settings, shape, labels, classes, half, compiled):
    return jax_models.jax_step(kind, settings, *data(kind, shape, labels, classes), half)


# --- answers -------------------------------------------------------------------------------------------

def slow_half(case):
    """bf16 convolutions of PyTorch take minutes on CPUs without their own kernels for it."""
    return case[0] in ('lenet', 'resnet') and platform.machine() == 'aarch64'


def ways(case, half):
    """All ways that are not known to be hopeless, the quick ones first."""
    for precision in ([False, True] if half else [False]):
        name = 'bf16' if precision else 'f32'
        if not (precision and slow_half(case)):
            yield f'PyTorch {name}', torch_step, precision, False
            yield f'PyTorch compiled {name}', torch_step, precision, True
        yield f'JAX {name}', jax_step, precision, True


def fastest(name):
    case, half = CASES.get(name.rpartition(' ')[0]), name.endswith(' bf16')
    best, hopeless = None, set()
    for way, make, precision, compiled in ways(case, half) if case else []:
        if (make, precision) in hopeless:
            continue  # the compiler calls the same products
        try:
            step, wait = make(*case, precision, compiled)
            step()
            took = seconds(step, 0, wait)
            if best is None or took < GIVEN_UP * best[2]:
                took = seconds(step, 0.3, wait)
            else:
                hopeless.add((make, precision))
        except Exception as error:
            print(f'  {name}: {way} failed: {str(error)[:120]}', file=sys.stderr, flush=True)
            continue
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f'  {name}: {way} {took * 1e3:.3f} ms (peak so far {memory:.0f} MB)', file=sys.stderr, flush=True)
        if best is None or took < best[2]:
            best = step, wait, took
    return best


def memory(name):
    """Eager PyTorch, which takes less than its compiler does; grown after everything is imported."""
    case = CASES[name.rpartition(' ')[0]]
    half = name.endswith(' bf16') and not slow_half(case)
    warm, _ = torch_step(*CASES['tiny mlp 16-32-32-2 B32'], half, False)
    warm()  # all that PyTorch loads when it is first used

    def run():
        step, wait = torch_step(*case, half, False)
        for _ in range(3):
            step()
        wait()
    return grown_mb(run)


if memory_of:
    print(f'{memory(memory_of):.1f}')
    sys.exit()

answer(fastest, lambda ready: seconds(ready[0], 0.1, ready[1]))
