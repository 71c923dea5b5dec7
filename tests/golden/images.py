#!/usr/bin/env python3
"""Writes images.bin: 100 steps of the small network of fashion_mnist/cnn, as PyTorch takes them.

    python tests/golden/images.py            # with torch 2.10.0 from PyPI; writes beside itself

The network is that of the experiment with fewer filters, on 12 x 12 images; Adam, a cosine of the learning rate, label
smoothing and weight decay as losses.l2_weight_decay has it. Batches follow from a formula that the reader,
tests/zoo/test_golden_images.c, has too. In the file, rows of {name, type, shape, values}: the weights before the
first step, the losses of a run in float64 and its last weights; for some steps of a run in float32 weights and
both averages of Adam before and after.
"""
import math
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

STEPS, RATE, SMOOTHING, DECAY = 100, 0.004, 0.1, 1e-3
BATCH, SIZE, CLASSES, BATCHES = 16, 12, 10, 5
TOLD = (0, 1, 40, 99)  # steps of the float32 run


def batch(number):
    i = np.arange(BATCH * SIZE * SIZE, dtype=np.int64)
    x = ((i * 7919 + number * 104729 + i * i % 1013) % 1021 - 510) / 512
    y = (np.arange(BATCH) * 7 + number * 3) % CLASSES
    return torch.from_numpy(x).view(BATCH, 1, SIZE, SIZE), torch.from_numpy(y)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_1, self.conv_2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.dense_1, self.head = nn.Linear(72, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv_1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv_2(x)), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # the order of NHWC
        return self.head(F.relu(self.dense_1(x)))


def ours(path, v):
    """Our name and layout of a weight."""
    layer, name = path.split('.')
    if name == 'weight':
        name, v = 'kernel', v.permute(2, 3, 1, 0) if v.ndim == 4 else v.T
    return ('' if layer == 'head' else 'backbone/') + f'{layer}/{name}', v.detach().numpy().copy()


def put(to, name, array):
    kinds = {'float32': 0, 'float64': 1, 'int64': 2}
    array = np.ascontiguousarray(array)
    to.write(struct.pack('<I', len(name)) + name.encode())
    to.write(struct.pack('<II', kinds[array.dtype.name], array.ndim))
    to.write(struct.pack(f'<{array.ndim}q', *array.shape) + array.tobytes())


def run(model, dtype, tell):
    """Losses of all steps; `tell` is called before and after each."""
    model = model.to(dtype)
    adam = torch.optim.Adam(model.parameters(), lr=RATE, eps=1e-8)
    losses = []
    for step in range(STEPS):
        tell(step, 'before', model, adam)
        x, y = batch(step % BATCHES)
        loss = F.cross_entropy(model(x.to(dtype)), y, label_smoothing=SMOOTHING)
        loss = loss + DECAY / 2 * sum((p ** 2).sum() for n, p in model.named_parameters() if 'weight' in n)
        adam.param_groups[0]['lr'] = RATE * 0.5 * (1 + math.cos(math.pi * step / STEPS))
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
        tell(step, 'after', model, adam)
    return np.array(losses)


def main():
    torch.manual_seed(3)
    model = Cnn()
    for p in model.parameters():
        p.data += 0.05 * torch.randn_like(p)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    with open(pathlib.Path(__file__).with_name('images.bin'), 'wb') as to:
        def tell(step, when, model, adam):
            if step not in TOLD:
                return
            for path, p in model.named_parameters():
                state = adam.state.get(p, {})
                zero = torch.zeros_like(p)
                for kind, v in (('w', p), ('m', state.get('exp_avg', zero)), ('v', state.get('exp_avg_sq', zero))):
                    name, values = ours(path, v)
                    put(to, f'{step} {when}/{kind}/{name}', values)

        losses = run(model, torch.float64, lambda *_: None)
        for path, v in start.items():
            put(to, 'start/' + ours(path, v)[0], ours(path, v.double())[1])
        for path, p in model.named_parameters():
            put(to, 'end/' + ours(path, p)[0], ours(path, p)[1])
        put(to, 'losses', losses)
        model = Cnn()
        model.load_state_dict(start)
        put(to, 'f32 losses', run(model, torch.float32, tell))


main()
