#!/usr/bin/env python3
"""Writes libai_vit.bin: what LiBai's VisionTransformer gives for two small images, and the gradients of that.

    python tests/golden/libai_vit.py    # with torch from PyPI

LiBai itself runs on OneFlow. This is its model written anew in PyTorch, as it is specified: a class token
and positions, blocks of norm, attention, norm and two dense layers with exact gelu, an epsilon of 1e-5; query,
key and value of each head lie together. Weights are called as there. Weights and images are numbers of
a formula, so that the file holds answers alone. The reader is tests/zoo/test_vit_weights.c.
"""
import pathlib
import struct

import numpy as np
import torch
from torch import nn

SIDE, PATCH, SIZE, DEPTH, HEADS, RATIO, CLASSES, SAMPLES = 12, 4, 24, 2, 3, 2.5, 5, 16
KINDS = {'float32': 0, 'int64': 2}


def numbers(key, count):
    """In [-1, 1], by a name and a place."""
    seed = 2166136261
    for byte in key.encode():
        seed = (seed ^ byte) * 16777619 % 2 ** 32
    x = (np.arange(count, dtype=np.uint64) + np.uint64(seed)) % np.uint64(2 ** 32)
    for factor in (0x7feb352d, 0x846ca68b):
        x = (x ^ (x >> np.uint64(15))) * np.uint64(factor) % np.uint64(2 ** 32)
    return (x >> np.uint64(16)).astype(np.float64) / 32768 - 1


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_key_value = nn.Linear(SIZE, 3 * SIZE)
        self.dense = nn.Linear(SIZE, SIZE)

    def forward(self, x):
        batch, length, _ = x.shape
        each = SIZE // HEADS
        heads = self.query_key_value(x).reshape(batch, length, HEADS, 3 * each).permute(0, 2, 1, 3)
        query, key, value = heads[..., :each], heads[..., each:2 * each], heads[..., 2 * each:]
        weights = (query @ key.transpose(-1, -2) / each ** 0.5).softmax(-1)
        return self.dense((weights @ value).permute(0, 2, 1, 3).reshape(batch, length, SIZE))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(SIZE, int(SIZE * RATIO))
        self.dense_4h_to_h = nn.Linear(int(SIZE * RATIO), SIZE)

    def forward(self, x):
        x = self.dense_h_to_4h(x)
        return self.dense_4h_to_h(x * 0.5 * (1 + torch.erf(x / 2 ** 0.5)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(SIZE, eps=1e-5)
        self.self_attention = Attention()
        self.post_attention_layernorm = nn.LayerNorm(SIZE, eps=1e-5)
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, SIZE, PATCH, PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = Patches()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, SIZE))
        self.pos_embed = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2 + 1, SIZE))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(SIZE, eps=1e-5)
        self.head = nn.Linear(SIZE, CLASSES)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def weight(key, shape):
    v = numbers(key, int(np.prod(shape))).reshape(shape)
    if 'norm' in key and key.endswith('weight'):
        v = 1 + v / 4
    elif len(shape) in (2, 4):
        v = v * (6 / (v.size / shape[0])) ** 0.5
    else:
        v = v / 4
    return torch.tensor(v.astype(np.float32))


def put(to, name, array):
    array = np.ascontiguousarray(array)
    to.write(struct.pack('<I', len(name)) + name.encode())
    to.write(struct.pack('<II', KINDS[array.dtype.name], array.ndim))
    to.write(struct.pack(f'<{array.ndim}q', *array.shape) + array.tobytes())


def main():
    model = Vit().eval()
    model.load_state_dict({key: weight(key, value.shape) for key, value in model.state_dict().items()})
    images = numbers('images', 2 * SIDE * SIDE * 3).reshape(2, SIDE, SIDE, 3).astype(np.float32)
    logits = model(torch.tensor(images).permute(0, 3, 1, 2))
    logits.square().sum().backward()
    with open(pathlib.Path(__file__).with_name('libai_vit.bin'), 'wb') as to:
        put(to, 'logits', logits.detach().numpy())
        for key, value in model.named_parameters():
            put(to, f'{key} shape', np.array(value.shape, np.int64))
            flat = value.grad.reshape(-1).numpy()
            put(to, key, flat[np.arange(SAMPLES) * flat.size // SAMPLES])


if __name__ == '__main__':
    main()
