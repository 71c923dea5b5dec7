#!/usr/bin/env python3
"""Trains the network of fashion_mnist/cnn with PyTorch, as the experiment has it, and prints the test accuracy.

    python tests/soak/accuracy_peer.py SEED STEPS RATE BATCH
"""
import gzip
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FOLDER = '/usr/share/datasets/fashion-mnist/'


def read(name, offset):
    with gzip.open(FOLDER + name) as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


def load(part):
    images = torch.from_numpy(read(f'{part}-images-idx3-ubyte.gz', 16).copy()).view(-1, 1, 28, 28)
    return (images.float() - 72.9404) / 90.0212, torch.from_numpy(read(f'{part}-labels-idx1-ubyte.gz', 8).astype(np.int64))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_1, self.conv_2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.dense_1, self.head = nn.Linear(3136, 128), nn.Linear(128, 10)
        for layer in (self.conv_1, self.conv_2, self.dense_1, self.head):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv_1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv_2(x)), 2)
        return self.head(F.relu(self.dense_1(x.flatten(1))))


def main():
    seed, steps, peak, batch = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    warmup = 50
    torch.manual_seed(seed)
    x, y = load('train')
    model = Cnn().to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(model.parameters(), eps=1e-7)

    def rate(step):
        return peak * 0.5 * (1 + math.cos(math.pi * min(step, steps) / steps))

    order, at = torch.randperm(len(x)), 0
    for step in range(steps):
        if at + batch > len(x):
            order, at = torch.randperm(len(x)), 0
        ids, at = order[at:at + batch], at + batch
        adam.param_groups[0]['lr'] = rate(warmup) * step / warmup if step < warmup else rate(step)
        loss = F.cross_entropy(model(x[ids].to(memory_format=torch.channels_last)), y[ids])
        adam.zero_grad()
        loss.backward()
        adam.step()
    x, y = load('t10k')
    with torch.no_grad():
        right = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(500), y.split(500)))
    print(right / len(y))


main()
