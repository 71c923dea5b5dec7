"""The peer of bench_epoch: the network of fashion_mnist/cnn in PyTorch.

    python bench/peers/epoch.py THREADS          # reads names, answers with seconds
    python bench/peers/epoch.py THREADS --first  # one step, and a word when it is done

Every way of training is tried for some steps; the fastest is the peer, and its whole epochs are
measured from then on. The case in bf16 may be answered in f32, if that is faster here. How each way
did goes to the standard error.
"""
import gzip
import math
import os
import subprocess
import sys
import time

THREADS, FIRST = int(sys.argv[1]), sys.argv[2:] == ['--first']
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(THREADS)
FOLDER = '/usr/share/datasets/fashion-mnist/'
BATCH, PEAK, TOTAL, WARMUP = 128, 0.003, 1200, 50
TRIAL_STEPS, TRIAL_SECONDS = 60, 4


def read(name, offset):
    with gzip.open(FOLDER + name) as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


def load():
    """Images as bytes, and labels."""
    images = torch.from_numpy(read('train-images-idx3-ubyte.gz', 16).copy()).view(-1, 1, 28, 28)
    labels = torch.from_numpy(read('train-labels-idx1-ubyte.gz', 8).astype(np.int64))
    return images, labels


def normalised(images):
    return (images.float() - 72.9404) / 90.0212


def network():
    def stage(i, o):
        return [nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stage(1, 32), *stage(32, 64), nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(),
                         nn.Linear(128, 10))


def rate(step):
    if step < WARMUP:
        return PEAK * step / WARMUP
    return PEAK * 0.5 * (1 + math.cos(math.pi * min(step, TOTAL) / TOTAL))


class Training:
    def __init__(self, half=False, compiled=False, last=True):
        self.model = network()
        self.half, self.last = half, last
        if last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.adam = torch.optim.Adam(self.model.parameters(), eps=1e-7, fused=True)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.done = 0

    def step(self, x, y):
        if self.last:
            x = x.to(memory_format=torch.channels_last)
        self.adam.param_groups[0]['lr'] = rate(self.done)
        with torch.autocast('cpu', torch.bfloat16, enabled=self.half):
            loss = F.cross_entropy(self.forward(x).float(), y)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()
        self.done += 1


if FIRST:
    images, labels = load()
    ids = torch.randperm(len(images))[:BATCH]
    Training().step(normalised(images[ids]), labels[ids])  # of the batch alone
    print('done', flush=True)
    os._exit(0)


# --- epochs --------------------------------------------------------------------------------------------

def from_tensors():
    """All in memory, normalised; a batch is gathered by its numbers."""
    order = torch.randperm(len(images))
    for at in range(0, len(images) - BATCH + 1, BATCH):
        ids = order[at:at + BATCH]
        yield images[ids], labels[ids]


def from_loader(workers):
    data = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, drop_last=True, num_workers=workers,
                                         persistent_workers=workers > 0)
    return lambda: iter(loader)


def epoch(training, batches):
    begin = time.perf_counter()
    for x, y in batches():
        training.step(x, y)
    return time.perf_counter() - begin


def trial(training, batches):
    """Seconds a step, after two that warm it up."""
    begin, steps = 0, -2
    for x, y in batches():
        if steps == 0:
            begin = time.perf_counter()
        training.step(x, y)
        steps += 1
        if steps == TRIAL_STEPS or steps > 0 and time.perf_counter() - begin > TRIAL_SECONDS:
            break
    return (time.perf_counter() - begin) / steps


def ways(half):
    for precision in ([False, True] if half else [False]):
        for compiled in (False, True):
            for last in (False, True):
                name = f"{'bf16' if precision else 'f32'}{' compiled' * compiled}{' channels_last' * last}"
                yield name, dict(half=precision, compiled=compiled, last=last)


def fastest(half):
    best = None
    for name, settings in ways(half):
        torch._dynamo.reset()
        try:
            took = trial(Training(**settings), from_tensors)
        except Exception as error:
            print(f'  {name} failed: {str(error)[:120]}', file=sys.stderr, flush=True)
            continue
        print(f'  {name}: {took * 1e3:.1f} ms a step', file=sys.stderr, flush=True)
        if best is None or took < best[0]:
            best = took, settings
    torch._dynamo.reset()
    training = Training(**best[1])
    inputs = [('tensors', from_tensors), ('DataLoader', from_loader(0)),
              (f'DataLoader, {THREADS} workers', from_loader(THREADS))]
    best = None
    for name, batches in inputs:
        took = trial(training, batches)
        print(f'  {name}: {took * 1e3:.1f} ms a step', file=sys.stderr, flush=True)
        if best is None or took < best[0]:
            best = took, batches
    return training, best[1]


# --- the start -----------------------------------------------------------------------------------------

def first():
    begin = time.perf_counter()
    command = [sys.executable, __file__, str(THREADS), '--first']
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        word = child.stdout.readline()
        took = time.perf_counter() - begin
    assert word == b'done\n'
    return took


images, labels = load()
images = normalised(images)
ready, last = None, None
for line in sys.stdin:
    case = line.strip()
    if case == 'first step':
        print(first(), flush=True)
    elif case in ('epoch f32', 'epoch mixed_bfloat16'):
        if case != last:
            ready, last = None, case
            ready = fastest(case != 'epoch f32')
        print(epoch(*ready), flush=True)
    else:
        print('no such case', flush=True)
