#!/usr/bin/env python3
"""Writes models.bin: ten steps of SGD on four small models, as PyTorch takes them.

    python tests/golden/models.py            # with torch 2.10.0 from PyPI; writes beside itself

For each model: the batch, the weights before the first step (float64) with the ten losses of a run in
float64, and for a run in float32 the weights before each step and after the last one with the losses.
Weights have our names and layouts: dense kernels [in, out], convolution kernels [height, width, in, out].
The reader is tests/nn/test_golden_models.c; the file is a row of {name, type, shape, values}.
"""
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

STEPS, RATE = 10, 0.1


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x):
        def split(t):
            return t.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)),
                                           is_causal=True)
        return self.output(y.transpose(1, 2).reshape(x.shape))


class Transformer(nn.Module):
    """A pre-norm block between tied embeddings."""

    def __init__(self, entries=11, length=6, size=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(entries, size), nn.Embedding(length, size)
        self.norm_1, self.attention = nn.LayerNorm(size), Attention(size, 2)
        self.norm_2, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 32), nn.Linear(32, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        x = x + self.attention(self.norm_1(x))
        x = x + self.down(F.gelu(self.up(self.norm_2(x)), approximate='tanh'))
        return (self.norm(x) @ self.tokens.weight.T).flatten(0, 1)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_1, self.conv_2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.hidden, self.head = nn.Linear(32, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv_1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv_2(x)), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # the order of NHWC
        return self.head(F.relu(self.hidden(x)))


class Resnet(nn.Module):
    """A residual block with a projection, and a head."""

    def __init__(self):
        super().__init__()
        self.conv_1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.conv_2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.project = nn.Conv2d(3, 8, 1, stride=2, bias=False)
        self.norm_1, self.norm_2, self.norm_3 = (nn.BatchNorm2d(8) for _ in range(3))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = F.relu(self.norm_1(self.conv_1(x)))
        y = self.norm_2(self.conv_2(y)) + self.norm_3(self.project(x))
        return self.head(F.relu(y).mean((2, 3)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.middle, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(F.silu(self.middle(F.relu(self.up(x)))))


def ours(model):
    """Our names and layouts of a model's weights."""
    out = {}
    for path, module in model.named_modules():
        for name, value in module.named_parameters(recurse=False):
            v = value.detach()
            if isinstance(module, nn.Conv2d) and name == 'weight':
                name, v = 'kernel', v.permute(2, 3, 1, 0)
            elif isinstance(module, nn.Linear) and name == 'weight':
                name, v = 'kernel', v.T
            elif isinstance(module, nn.Embedding):
                name = 'table'
            elif isinstance(module, (nn.LayerNorm, nn.BatchNorm2d)):
                name = {'weight': 'gamma', 'bias': 'beta'}[name]
            out[f"{path.replace('.', '/')}/{name}"] = v.numpy().copy()
    return out


def run(model, x, y, dtype):
    model = model.to(dtype)
    x = x.to(dtype) if x.is_floating_point() else x
    weights, losses = [ours(model)], []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= RATE * p.grad
        losses.append(loss.item())
        weights.append(ours(model))
    return weights, np.array(losses)


def put(to, name, array):
    kinds = {'float32': 0, 'float64': 1, 'int64': 2}
    array = np.ascontiguousarray(array)
    to.write(struct.pack('<I', len(name)) + name.encode())
    to.write(struct.pack('<II', kinds[array.dtype.name], array.ndim))
    to.write(struct.pack(f'<{array.ndim}q', *array.shape) + array.tobytes())


def write(to, name, make, x, y):
    torch.manual_seed(7)
    model = make()
    for p in model.parameters():  # away from zeros and ones, so that every weight counts
        p.data += 0.1 * torch.randn_like(p)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    batch = x.permute(0, 2, 3, 1) if x.ndim == 4 else x
    put(to, f'{name}/x', batch.numpy().astype(np.float64 if x.is_floating_point() else np.int64))
    put(to, f'{name}/y', y.numpy())
    weights, losses = run(model, x, y, torch.float64)
    for path, value in weights[0].items():
        put(to, f'{name}/f64/{path}', value)
    put(to, f'{name}/f64 losses', losses)
    model = make()
    model.load_state_dict(start)
    weights, losses = run(model, x, y, torch.float32)
    for step, values in enumerate(weights):
        for path, value in values.items():
            put(to, f'{name}/f32 {step}/{path}', value)
    put(to, f'{name}/f32 losses', losses)


def main():
    torch.manual_seed(1)
    labels = torch.randint(0, 4, (8,))
    ids = torch.randint(0, 11, (3, 6))
    with open(pathlib.Path(__file__).with_name('models.bin'), 'wb') as to:
        write(to, 'mlp', Mlp, torch.randn(8, 8), labels)
        write(to, 'cnn', Cnn, torch.randn(8, 1, 8, 8), labels)
        write(to, 'resnet', Resnet, torch.randn(8, 3, 8, 8), labels)
        write(to, 'transformer', Transformer, ids, torch.randint(0, 11, (18,)))


main()
