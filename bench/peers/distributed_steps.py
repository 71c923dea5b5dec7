"""The peer of bench_distributed: training steps of DistributedDataParallel over gloo, processes of one thread.

    python bench/peers/distributed_steps.py RANKS     # reads names, answers with seconds a step

Names begin with those of bench/peers/step.py; their batches are divided among the ranks, as far as they can be. Eager and
compiled steps are both tried, and the faster way is measured. TILTH_BENCH_CPU=1: seconds of processors, as in
bench/lane_steps.h.
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from step_cases import CASES, data
from torch_models import torch_model

RATE, DECAY, SAMPLE, SLOW = 1e-3, 0.01, 0.1, 1
clock = time.process_time if os.environ.get('TILTH_BENCH_CPU') else time.perf_counter


def make(name, size, compiled):
    kind, settings, shape, labels, classes = CASES[name]
    rows = max(1, shape[0] // size)
    x, y = (torch.from_numpy(a) for a in data(kind, (rows, *shape[1:]), labels // shape[0] * rows, classes))
    torch._dynamo.reset()
    model = torch_model(kind, settings)
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        model = model.to(memory_format=torch.channels_last)
    # Statistics of batch norms are each rank's own, as ours are while a step is computed.
    forward = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=True)
    forward = torch.compile(forward) if compiled else forward

    def step():
        F.cross_entropy(forward(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return step


def take(step, count):
    """Mean over the ranks of the seconds of a step."""
    dist.barrier()
    begin = clock()
    for _ in range(count):
        step()
    took = torch.tensor([clock() - begin])
    dist.all_reduce(took)
    return took.item() / dist.get_world_size() / count


def sample(step):
    one = take(step, 1)  # the same on all ranks
    return one if one >= SAMPLE else take(step, int(SAMPLE / one))


def warm(step):
    take(step, 1)
    if take(step, 1) < SLOW:
        take(step, 1)
    return step


def fastest(name, rank, size):
    took, step = {}, None
    for compiled in (False, True):
        step = None  # frees the one before: two may be too large
        step = warm(make(name, size, compiled))
        took[compiled] = sample(step)
        if rank == 0:
            way = ' compiled' if compiled else ''
            print(f'  {name}: DDP{way} {took[compiled] * 1e3:.3f} ms', file=sys.stderr, flush=True)
    if took[True] < took[False]:
        return step
    step = None
    return warm(make(name, size, False))


def answer(rank, size, lines):
    """`lines` gives names until it has none; None is told to all."""
    step = last = None
    while True:
        told = [next(lines, None) if rank == 0 else None]
        dist.broadcast_object_list(told, 0)
        if told[0] is None:
            return
        name = next((n for n in CASES if told[0].startswith(n)), None)
        if name and name != last:
            step = None  # frees the case before
            step, last = fastest(name, rank, size), name
        took = sample(step) if name else None
        if rank == 0:
            print(took if name else 'no such case', flush=True)


def run(rank, size, meet, lines):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group('gloo', init_method='file://' + meet, rank=rank, world_size=size)
    answer(rank, size, lines)
    dist.destroy_process_group()


def main():
    size = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        peers = [mp.get_context('spawn').Process(target=run, args=(r, size, folder + '/meet', None), daemon=True)
                 for r in range(1, size)]
        for p in peers:
            p.start()
        run(0, size, folder + '/meet', (line.strip() for line in sys.stdin))
        for p in peers:
            p.join()


if __name__ == '__main__':
    main()
