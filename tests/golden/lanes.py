#!/usr/bin/env python3
"""Writes lanes.txt: what five steps in two lanes make of a small network with a batch norm, by PyTorch in float64.

    .venv/bin/python tests/golden/lanes.py

Each lane normalises by its own statistics; running averages take in the mean over the lanes. Gradients of the sums
of weighted losses are added and divided by all weights. For adamw the mean gradient of each lane, divided by the
number of lanes, is clipped before that, as Model Garden's replicas do it. Data and weights are formulas of integers,
which the reader (tests/train/trainer/test_lanes.c) has too. A line is a case, a name and values.
"""
import pathlib

import torch

LANES, ROWS, WIDTH, UNITS, EXAMPLES, STEPS = 2, 4, 6, 5, 24, 5
EPSILON, MOMENTUM = 1e-3, 0.9


def formula(count, a, b):
    return torch.tensor([((a * i + b) % 23) / 23 - 0.5 for i in range(count)], dtype=torch.float64)


def start():
    weights = {'hidden/kernel': formula(WIDTH * UNITS, 7, 3).reshape(WIDTH, UNITS),
               'norm/gamma': 1 + formula(UNITS, 3, 2),
               'norm/beta': formula(UNITS, 11, 4),
               'head/kernel': formula(UNITS * 2, 13, 6).reshape(UNITS, 2),
               'head/bias': formula(2, 17, 5)}
    return {k: v.clone().requires_grad_() for k, v in weights.items()}


def lane_loss(w, x, y, weight):
    h = x @ w['hidden/kernel']
    mean, variance = h.mean(0), h.var(0, unbiased=False)
    h = (h - mean) / (variance + EPSILON).sqrt() * w['norm/gamma'] + w['norm/beta']
    out = torch.relu(h) @ w['head/kernel'] + w['head/bias']
    losses = torch.nn.functional.cross_entropy(out, y, reduction='none')
    return (losses * weight).sum(), mean.detach(), variance.detach()


def norm_of(grads):
    return torch.sqrt(sum((g * g).sum() for g in grads))


def train(update, clip):
    x, y = formula(EXAMPLES * WIDTH, 9, 2).reshape(EXAMPLES, WIDTH), torch.arange(EXAMPLES) % 2
    weight = 1.0 + torch.arange(EXAMPLES, dtype=torch.float64) % 3
    w, slots = start(), {}
    average = torch.zeros(UNITS, dtype=torch.float64), torch.ones(UNITS, dtype=torch.float64)
    at = 0
    for step in range(STEPS):
        sums, total, statistics = None, 0.0, []
        for _ in range(LANES):
            rows = [(at + i) % EXAMPLES for i in range(ROWS)]
            at += ROWS
            loss, mean, variance = lane_loss(w, x[rows], y[rows], weight[rows])
            grads = torch.autograd.grad(loss, list(w.values()))
            of = weight[rows].sum()
            if clip:
                factor = min(1.0, clip / float(norm_of(grads) / of / LANES))
                grads = [g * factor for g in grads]
            sums = grads if sums is None else [a + b for a, b in zip(sums, grads)]
            total = total + of
            statistics.append((mean, variance))
        average = tuple(MOMENTUM * a + (1 - MOMENTUM) * sum(s[i] for s in statistics) / LANES
                        for i, a in enumerate(average))
        with torch.no_grad():
            for (name, p), g in zip(w.items(), sums):
                update(p, g / total, slots.setdefault(name, {}), step + 1)
    return {**w, 'norm/moving_mean': average[0], 'norm/moving_variance': average[1]}


def sgd(p, g, slot, step):
    slot['v'] = 0.9 * slot.get('v', 0) - 0.1 * g
    p += slot['v']


def adamw(p, g, slot, step):
    p -= 0.02 * 0.05 * p
    slot['m'] = 0.9 * slot.get('m', 0) + 0.1 * g
    slot['v'] = 0.999 * slot.get('v', 0) + 0.001 * g * g
    rate = 0.02 * (1 - 0.999 ** step) ** 0.5 / (1 - 0.9 ** step)
    p -= rate * slot['m'] / (slot['v'].sqrt() + 1e-7)


def main():
    with open(pathlib.Path(__file__).parent / 'lanes.txt', 'w') as out:
        for name, update, clip in (('sgd', sgd, None), ('adamw', adamw, 0.05)):
            for path, value in train(update, clip).items():
                numbers = ' '.join('%.9g' % v for v in value.detach().reshape(-1).tolist())
                out.write('%s %s %s\n' % (name, path, numbers))


main()
