#!/usr/bin/env python3
"""Writes contrastive.bin: SimCLR's loss (NT-Xent), its gradients, accuracy and entropy, by PyTorch in float64.

    python tests/golden/contrastive.py      # with torch and numpy from PyPI

The loss is written out from its definition: for each of the 2 n views, -log of the share that the other view of the same
image has among exp(product / temperature) of all views but itself. The reader is tests/nn/test_contrastive_loss.c.
"""
import pathlib
import struct

import numpy as np
import torch

CASES = [(2, 3, 0.1, True), (5, 4, 0.5, True), (7, 16, 1.0, False), (1, 8, 0.2, True), (33, 12, 0.1, True)]
rng = np.random.default_rng(6)


def row(name, values):
    values = np.asarray(values, np.float64)
    head = struct.pack(f'<I{len(name)}sII{values.ndim}q', len(name), name.encode(), 1, values.ndim, *values.shape)
    return head + values.tobytes()


def judge(first, second, temperature, norm):
    views = [first, second]
    if norm:
        views = [v / v.norm(dim=1, keepdim=True) for v in views]
    n, every = len(first), torch.cat(views)
    products = every @ every.T / temperature
    losses = torch.zeros(n, dtype=torch.float64)
    for i in range(2 * n):
        own, partner = i % n, (i + n) % (2 * n)
        others = [k for k in range(2 * n) if k != i]
        losses = losses + torch.nn.functional.one_hot(torch.tensor(own), n) * (
            torch.logsumexp(products[i, others], 0) - products[i, partner])
    logits = products[:n, n:]
    shares = logits.softmax(1)
    entropy = -(shares * torch.log(shares + 1e-8)).sum(1)
    accuracy = (logits.argmax(1) == torch.arange(n)).double()
    return losses, accuracy, entropy


def main():
    rows = [row('count', np.float64(len(CASES)))]
    for i, (n, width, temperature, norm) in enumerate(CASES):
        first, second = (torch.tensor(rng.standard_normal((n, width)), requires_grad=True) for _ in range(2))
        losses, accuracy, entropy = judge(first, second, temperature, norm)
        losses.mean().backward()
        for name, value in (('how', np.array([temperature, norm])), ('first', first), ('second', second), ('losses', losses),
                            ('accuracy', accuracy), ('entropy', entropy), ('by_first', first.grad),
                            ('by_second', second.grad)):
            rows.append(row(f'{i:02d}/{name}', value.detach() if torch.is_tensor(value) else value))
    path = pathlib.Path(__file__).with_name('contrastive.bin')
    path.write_bytes(b''.join(rows))
    print(path.name, len(rows), 'entries', path.stat().st_size, 'bytes')


if __name__ == '__main__':
    main()
