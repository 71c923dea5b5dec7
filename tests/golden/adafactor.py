#!/usr/bin/env python3
"""Writes adafactor.bin: what Keras' Adafactor makes of the gradients of optimizers.py where the bound of the rate,
1 / sqrt(step), counts: constant rates above it and a schedule that crosses it, with relative_step and without.

    python -m venv .venv && .venv/bin/pip install numpy
    .venv/bin/python tests/golden/adafactor.py

The formulas are those of tf_keras 2.20 (optimizers/adafactor.py), written once more with NumPy. There relative_step
bounds a constant rate, and a line below bounds every rate: so it changes nothing, and neither does it here. That the
formulas are Keras' is checked first, against what Model Garden itself made of its two cases (optimizers.bin).
"""
import importlib.util
import math
import pathlib
import struct
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).parent
SCHEDULE = 'learning_rate: {type: cosine, cosine: {initial_learning_rate: 2, decay_steps: 90}}'


def constant(rate):
    return 'learning_rate: {type: constant, constant: {learning_rate: %g}}' % rate


def cosine(step):
    return 2 * 0.5 * (1 + math.cos(math.pi * min(step, 90) / 90))


# name, optimizer, what follows, rate of the step from 0 on, whether that is a schedule, options that differ
FAST = dict(beta_2_decay=-0.5, clip_threshold=0.6, epsilon_2=0.15)
CASES = (
    ('adafactor relative', 'adafactor_keras: {relative_step: true}', constant(1), lambda s: 1, False, {}),
    ('adafactor not relative', 'adafactor_keras: {relative_step: false}', constant(1), lambda s: 1, False,
     dict(relative_step=False)),
    ('adafactor schedule', 'adafactor_keras: {}', SCHEDULE, cosine, True, {}),
    ('adafactor crossing', 'adafactor_keras: {relative_step: false, beta_2_decay: -0.5, clip_threshold: 0.6,'
     ' epsilon_2: 0.15}', constant(0.2), lambda s: 0.2, False, dict(FAST, relative_step=False)),
)
KNOWN = (
    ('adafactor_keras', lambda s: 0.01, False, {}),
    ('adafactor_keras fast', lambda s: 1, False, dict(FAST, relative_step=False)),
)


def load_optimizers():
    """Its weights, gradients and files, without what it runs at the end."""
    text = (FOLDER / 'optimizers.py').read_text().split('\ntry:\n    import torch')[0]
    spec = importlib.util.spec_from_loader('optimizers', None)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(FOLDER / 'optimizers.py')
    exec(compile(text, module.__file__, 'exec'), module.__dict__)
    return module


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


def run(o, dtype, rate, scheduled, beta_2_decay=-0.8, epsilon_1=1e-30, epsilon_2=1e-3, clip_threshold=1.0,
        relative_step=True):
    """The weights after each step that is kept."""
    real = np.dtype(dtype).type
    weights = [w.astype(dtype) for w in o.weights()]
    rows = [np.zeros(w.shape[:-1], dtype) for w in weights]
    columns = [np.zeros(w.shape[:-2] + w.shape[-1:], dtype) for w in weights]
    whole = [np.zeros(w.shape, dtype) for w in weights]
    kept = {}
    for step in range(1, o.STEPS + 1):
        lr, bound = real(rate(step - 1)), real(1) / np.sqrt(real(step))
        if relative_step and not scheduled:
            lr = min(lr, bound)
        lr = min(lr, bound)
        beta = real(1 - float(step) ** beta_2_decay)
        for i, g in enumerate(g.astype(dtype) for g in o.gradients(step)):
            square = np.square(g) + real(epsilon_1)
            if g.ndim >= 2:
                rows[i] = beta * rows[i] + (1 - beta) * square.mean(-1)
                columns[i] = beta * columns[i] + (1 - beta) * square.mean(-2)
                whole[i] = ((rows[i] / rows[i].mean(-1, keepdims=True))[..., None] * columns[i][..., None, :])
            else:
                whole[i] = beta * whole[i] + (1 - beta) * square
            by = g / np.sqrt(whole[i])
            by = by / max(real(1), rms(by) / real(clip_threshold))
            weights[i] = weights[i] - max(real(epsilon_2), rms(weights[i])) * lr * by
        if step in o.KEPT:
            kept[step] = [w.copy() for w in weights]
    return kept


def read(path):
    """{name: array} of a file of optimizers.py."""
    data, at, found = path.read_bytes(), 0, {}
    while at < len(data):
        length, = struct.unpack_from('<I', data, at)
        name = data[at + 4:at + 4 + length].decode()
        kind, rank = struct.unpack_from('<II', data, at + 4 + length)
        at += 12 + length
        count = int(np.prod(struct.unpack_from('<%dq' % rank, data, at)))
        at += 8 * rank
        dtype = np.dtype({0: 'float32', 1: 'float64', 3: 'uint8'}[kind])
        found[name] = np.frombuffer(data, dtype, count, at)
        at += count * dtype.itemsize
    return found


def check(o):
    garden = read(FOLDER / 'optimizers.bin')
    for case, rate, scheduled, options in KNOWN:
        for dtype, most in (('float32', 1e-5), ('float64', 1e-12)):
            for step, weights in run(o, dtype, rate, scheduled, **options).items():
                flat = np.concatenate([w.ravel() for w in weights])
                off = np.abs(flat - garden['%s/%s/%d/weights' % (case, dtype, step)]).max()
                if not off <= most:
                    sys.exit('%s, %s, step %d: off by %g from Model Garden' % (case, dtype, step, off))


def main():
    o = load_optimizers()
    check(o)
    file = o.File('adafactor.bin')
    for case, optimizer, rest, rate, scheduled, options in CASES:
        file.put_text(case, o.text_of(optimizer, rest))
        for dtype in ('float32', 'float64'):
            for step, weights in run(o, dtype, rate, scheduled, **options).items():
                file.put_params(case, dtype, step, 'weights', weights)


main()
