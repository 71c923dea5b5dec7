#!/usr/bin/env python3
"""SimCLR on Fashion-MNIST with PyTorch, as the experiments simclr/fashion_mnist and simclr/fashion_mnist_finetuning have it.

    python tests/soak/simclr_peer.py subset SEED COUNT FOLDER     # COUNT pictures of each class as idx files
    python tests/soak/simclr_peer.py pretrain SEED STEPS FILE     # writes the weights, prints the accuracy of the head
    python tests/soak/simclr_peer.py finetune SEED STEPS FOLDER [FILE]    # prints the test accuracy
"""
import gzip
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DATA = pathlib.Path('/usr/share/datasets/fashion-mnist')
SIZE = 28


def read(path, offset):
    with (gzip.open if path.suffix == '.gz' else open)(path, 'rb') as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


def load(folder, part, end):
    images = read(folder / f'{part}-images-idx3-ubyte{end}', 16).reshape(-1, 1, SIZE, SIZE)
    labels = read(folder / f'{part}-labels-idx1-ubyte{end}', 8).astype(np.int64)
    return torch.from_numpy(images / np.float32(255)), torch.from_numpy(labels)


def write_subset(seed, count, folder):
    images = read(DATA / 'train-images-idx3-ubyte.gz', 16).reshape(-1, SIZE, SIZE)
    labels = read(DATA / 'train-labels-idx1-ubyte.gz', 8)
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = np.concatenate([order[labels[order] == k][:count] for k in range(10)])
    head = np.array([len(chosen), SIZE, SIZE], '>i4').tobytes()
    (folder / 'train-images-idx3-ubyte').write_bytes(b'\0\0\x08\3' + head + images[chosen].tobytes())
    (folder / 'train-labels-idx1-ubyte').write_bytes(b'\0\0\x08\1' + head[:4] + labels[chosen].tobytes())


# --- views --------------------------------------------------------------------------------------------------

def uniform(n, low, high):
    return torch.rand(n) * (high - low) + low


def crop(x, least):
    """A part of each picture, of random area, shape and place, at the size of the whole; mirrored or not."""
    n = len(x)
    area, aspect = uniform(n, least, 1), uniform(n, 3 / 4, 4 / 3)
    width, height = (torch.sqrt(area * aspect), torch.sqrt(area / aspect))
    width, height = width.clamp(max=1), height.clamp(max=1)
    sign = torch.randint(0, 2, (n,)) * 2 - 1
    zero = torch.zeros(n)
    grid = torch.stack([torch.stack([width * sign, zero, (1 - width) * uniform(n, -1, 1)], 1),
                        torch.stack([zero, height, (1 - height) * uniform(n, -1, 1)], 1)], 1)
    grid = F.affine_grid(grid, x.shape, align_corners=False)
    return F.grid_sample(x, grid, 'bicubic', 'border', align_corners=False)


def distort(x, strength):
    n, reach = len(x), 0.8 * strength
    each = (-1, 1, 1, 1)
    bright, contrast = uniform(n, 1 - reach, 1 + reach).view(each), uniform(n, 1 - reach, 1 + reach).view(each)

    def brighten(x):
        return (x * bright).clamp(0, 1)

    def stretch(x):
        mean = x.mean((2, 3), keepdim=True)
        return ((x - mean) * contrast + mean).clamp(0, 1)

    first = (torch.rand(n) < 0.5).view(each)
    changed = torch.where(first, stretch(brighten(x)), brighten(stretch(x)))
    return torch.where((torch.rand(n) < 0.8).view(each), changed, x)


def blur(x):
    n, radius = len(x), SIZE // 10 // 2
    places = torch.arange(-radius, radius + 1)
    curve = torch.exp(-places ** 2 / (2 * uniform(n, 0.1, 2).view(-1, 1) ** 2))
    curve = curve / curve.sum(1, keepdim=True)
    rows = x.transpose(0, 1)  # a group for each picture
    rows = F.conv2d(rows, curve.view(n, 1, 1, -1), padding=(0, radius), groups=n)
    rows = F.conv2d(rows, curve.view(n, 1, -1, 1), padding=(radius, 0), groups=n)
    return torch.where((torch.rand(n) < 0.5).view(-1, 1, 1, 1), rows.transpose(0, 1), x)


def view(x):
    return blur(distort(crop(x, 0.2), 0.5)).clamp(0, 1)


# --- the network --------------------------------------------------------------------------------------------

class Step(nn.Module):
    def __init__(self, inputs, outputs, last):
        super().__init__()
        self.dense, self.norm, self.last = nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), last
        deviation = 1 / math.sqrt(inputs) / 0.87962566103423978
        nn.init.trunc_normal_(self.dense.weight, 0, deviation, -2 * deviation, 2 * deviation)
        if last:
            self.norm.bias.requires_grad = False

    def forward(self, x):
        x = self.norm(self.dense(x))
        return x if self.last else F.relu(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_1, self.conv_2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.dense = nn.Linear(3136, 128)
        self.first, self.second, self.head = Step(128, 128, False), Step(128, 64, True), nn.Linear(128, 10)
        for layer in (self.conv_1, self.conv_2, self.dense):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.uniform_(self.head.weight, -0.05, 0.05)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv_1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv_2(x)), 2)
        return self.first(F.relu(self.dense(x.flatten(1))))


def contrast(features, temperature=0.1):
    z = F.normalize(features)
    n = len(z) // 2
    products = z @ z.T / temperature - 1e9 * torch.eye(2 * n)
    return 2 * F.cross_entropy(products, torch.arange(2 * n).roll(n))


def batches(count, size):
    while True:
        order = torch.randperm(count)
        for at in range(0, count - size + 1, size):
            yield order[at:at + size]


def train(net, steps, peak, warmup, count, size, loss_of):
    adam = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], eps=1e-7)

    def rate(step):
        return peak * 0.5 * (1 + math.cos(math.pi * min(step, steps) / steps))

    net.train()
    for step, ids in zip(range(steps), batches(count, size)):
        adam.param_groups[0]['lr'] = rate(warmup) * step / warmup if step < warmup else rate(step)
        loss = loss_of(ids)
        adam.zero_grad()
        loss.backward()
        adam.step()


def accuracy(net):
    x, y = load(DATA, 't10k', '.gz')
    net.eval()
    with torch.no_grad():
        right = sum(int((net.head(net(a)).argmax(1) == b).sum()) for a, b in zip(x.split(500), y.split(500)))
    return right / len(y)


def pretrain(steps, file):
    x, y = load(DATA, 'train', '.gz')
    net = Net()

    def loss_of(ids):
        features = net(torch.cat([view(x[ids]), view(x[ids])]))
        guess = net.head(features.detach())
        return contrast(net.second(features)) + F.cross_entropy(guess, y[ids].repeat(2))

    train(net, steps, 0.002, 100, len(x), 256, loss_of)
    torch.save(net.state_dict(), file)
    return accuracy(net)


def finetune(steps, folder, file):
    x, y = load(folder, 'train', '')
    net = Net()
    if file:
        net.load_state_dict(torch.load(file))
    nn.init.zeros_(net.head.weight)
    nn.init.zeros_(net.head.bias)
    train(net, steps, 0.001, 0, len(x), 64,
          lambda ids: F.cross_entropy(net.head(net(crop(x[ids], 0.5).clamp(0, 1))), y[ids]))
    return accuracy(net)


def main():
    what, seed = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(seed)
    if what == 'subset':
        write_subset(seed, int(sys.argv[3]), pathlib.Path(sys.argv[4]))
    elif what == 'pretrain':
        print(pretrain(int(sys.argv[3]), sys.argv[4]))
    else:
        print(finetune(int(sys.argv[3]), pathlib.Path(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else None))


main()
