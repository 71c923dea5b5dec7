#!/usr/bin/env python3
"""Writes what optimizers make of 100 fixed gradients: optimizers.bin by Model Garden, where
tf-models-official 2.20.0 is installed, or optimizers_torch.bin by PyTorch 2.10, where that is.

    python -m venv .venv-tf && .venv-tf/bin/pip install tf-models-official==2.20.0
    .venv-tf/bin/python tests/golden/optimizers.py
    .venv-torch/bin/python tests/golden/optimizers.py

Each case is a configuration as YAML and the parameters after some of the steps, in float32 and, where the
original computes all of it in float64, in that type too. Numbers of configurations are such that float32
holds them: Keras keeps rates and betas in it. Weights and gradients are formulas of integers, which the
reader (tests/nn/test_optimizer_golden.c) has too. The file is a row of {name, type, shape, values}; type 3 is
text.
"""
import os
import pathlib
import struct

import numpy as np

os.environ['TF_USE_LEGACY_KERAS'] = '1'
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'

PARAMS = (('dense/kernel', (5, 3)), ('dense/bias', (3,)), ('layer_norm/gamma', (4,)),
          ('conv/kernel', (2, 3, 4)))
STEPS, KEPT = 100, (1, 7, 100)

CONSTANT = 'learning_rate: {type: constant, constant: {learning_rate: 0.015625}}'
SMALL = 'learning_rate: {type: constant, constant: {learning_rate: 0.00390625}}'
BETAS = 'beta_1: 0.875, beta_2: 0.984375'
EXCLUDE = 'exclude_from_weight_decay: [layer_norm, bias]'
# name, optimizer, what follows, whether it is made in float64 too
GARDEN = (
    ('sgd', 'sgd: {}', CONSTANT, True),
    ('sgd momentum', 'sgd: {momentum: 0.875}', CONSTANT, True),
    ('sgd nesterov', 'sgd: {momentum: 0.875, nesterov: true}', CONSTANT, True),
    ('sgd decay', 'sgd: {momentum: 0.5, decay: 0.015625}', CONSTANT, False),
    ('sgd clipvalue', 'sgd: {clipvalue: 0.25}', CONSTANT, True),
    ('sgd clipnorm', 'sgd: {clipnorm: 0.5}', CONSTANT, True),
    ('sgd global_clipnorm', 'sgd: {momentum: 0.5, global_clipnorm: 0.75}', CONSTANT, True),
    ('sgd value and norm', 'sgd: {clipvalue: 0.25, clipnorm: 0.5}', CONSTANT, True),
    ('sgd value and global norm', 'sgd: {clipvalue: 0.25, global_clipnorm: 0.5}', CONSTANT, True),
    ('sgd_experimental', 'sgd_experimental: {momentum: 0.875, nesterov: true}', CONSTANT, True),
    ('adam', 'adam: {%s}' % BETAS, CONSTANT, True),
    ('adam defaults', 'adam: {}', CONSTANT, False),
    ('adam amsgrad', 'adam: {%s, amsgrad: true}' % BETAS, CONSTANT, True),
    ('adam_experimental', 'adam_experimental: {%s, amsgrad: true}' % BETAS, CONSTANT, True),
    ('adamw', 'adamw: {%s, weight_decay_rate: 0.0625, %s}' % (BETAS, EXCLUDE), CONSTANT, True),
    ('adamw include', 'adamw: {%s, weight_decay_rate: 0.0625, exclude_from_weight_decay: [kernel],'
     ' include_in_weight_decay: ["conv.*:0$"], gradient_clip_norm: 0.0}' % BETAS, CONSTANT, True),
    ('adamw clips twice', 'adamw: {%s, gradient_clip_norm: 0.75, clipvalue: 0.125,'
     ' global_clipnorm: 0.25}' % BETAS, CONSTANT, True),
    ('adamw_experimental', 'adamw_experimental: {%s, weight_decay: 0.0625}' % BETAS, CONSTANT, True),
    ('lamb', 'lamb: {%s, weight_decay_rate: 0.0625, %s}' % (BETAS, EXCLUDE), SMALL, True),
    ('lamb adaptation', 'lamb: {%s, weight_decay_rate: 0.0625, %s,'
     ' exclude_from_layer_adaptation: [conv]}' % (BETAS, EXCLUDE), SMALL, True),
    ('lars', 'lars: {momentum: 0.875, eeta: 0.0078125, weight_decay_rate: 0.0625, %s}' % EXCLUDE,
     CONSTANT, True),
    ('lars nesterov', 'lars: {momentum: 0.875, eeta: 0.0078125, nesterov: true}', CONSTANT, True),
    ('lars popular', 'lars: {momentum: 0.875, eeta: 0.0078125, weight_decay_rate: 0.0625,'
     ' classic_momentum: false, exclude_from_layer_adaptation: [conv], %s}' % EXCLUDE, CONSTANT, True),
    ('lars popular nesterov', 'lars: {momentum: 0.875, eeta: 0.0078125, nesterov: true,'
     ' classic_momentum: false}', CONSTANT, True),
    ('rmsprop', 'rmsprop: {rho: 0.875}', CONSTANT, True),
    ('rmsprop momentum', 'rmsprop: {rho: 0.875, momentum: 0.75}', SMALL, True),
    ('rmsprop centered', 'rmsprop: {rho: 0.875, centered: true}', SMALL, True),
    ('rmsprop both', 'rmsprop: {rho: 0.875, momentum: 0.75, centered: true, epsilon: 0.001}', SMALL, True),
    ('adagrad', 'adagrad: {initial_accumulator_value: 0.125}', CONSTANT, True),
    ('adafactor_keras', 'adafactor_keras: {}', CONSTANT, True),
    ('adafactor_keras fast', 'adafactor_keras: {beta_2_decay: -0.5, clip_threshold: 0.5, epsilon_2: 0.25,'
     ' relative_step: false}', 'learning_rate: {type: constant, constant: {learning_rate: 1}}', True),
    ('schedule', 'adam: {}', 'learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.03125,'
     ' decay_steps: 90}}\nwarmup: {type: linear, linear: {warmup_steps: 16}}', False),
    ('ema', 'sgd: {momentum: 0.875}', CONSTANT + '\nema: {average_decay: 0.9}', False),
    ('ema later', 'sgd: {momentum: 0.875}',
     CONSTANT + '\nema: {average_decay: 0.9, start_step: 5, dynamic_decay: false}', False),
)
TORCH = (
    ('torch_adamw', 'torch_adamw: {%s, weight_decay: 0.0625}' % BETAS, CONSTANT,
     lambda t, p: t.optim.AdamW(p, lr=0.015625, betas=(0.875, 0.984375), weight_decay=0.0625)),
    ('torch_adamw amsgrad', 'torch_adamw: {%s, amsgrad: true}' % BETAS, CONSTANT,
     lambda t, p: t.optim.AdamW(p, lr=0.015625, betas=(0.875, 0.984375), amsgrad=True)),
    ('torch_sgd', 'torch_sgd: {momentum: 0.875, weight_decay: 0.0625}', CONSTANT,
     lambda t, p: t.optim.SGD(p, lr=0.015625, momentum=0.875, weight_decay=0.0625)),
    ('torch_sgd nesterov', 'torch_sgd: {momentum: 0.875, weight_decay: 0.0625, nesterov: true}', CONSTANT,
     lambda t, p: t.optim.SGD(p, lr=0.015625, momentum=0.875, weight_decay=0.0625, nesterov=True)),
    ('torch_sgd plain', 'torch_sgd: {weight_decay: 0.0625}', CONSTANT,
     lambda t, p: t.optim.SGD(p, lr=0.015625, weight_decay=0.0625)),
)


def values(seed, shape, zero=False):
    """Numbers between -1 and 1 that follow no pattern to speak of; the reader has the same formula."""
    i = np.arange(np.prod(shape), dtype=np.int64)
    x = (i * 7919 + seed * 104729 + i * i * seed % 1013) % 1021
    return (0 if zero else 1) * (x - 510).reshape(shape) / 512


def weights():
    return [values(k + 1, shape, name.endswith('bias')) for k, (name, shape) in enumerate(PARAMS)]


def gradients(step):
    return [values(17 * step + 5 * k + 3, shape) for k, (_, shape) in enumerate(PARAMS)]


def text_of(optimizer, rest):
    return 'optimizer: {type: %s, %s}\n%s\n' % (optimizer.split(':')[0], optimizer, rest)


class File:
    def __init__(self, name):
        self.to = open(pathlib.Path(__file__).parent / name, 'wb')

    def put(self, name, array):
        kind = {'float32': 0, 'float64': 1, 'uint8': 3}[array.dtype.name]
        name = name.encode()
        self.to.write(struct.pack('<I', len(name)) + name + struct.pack('<II', kind, array.ndim)
                      + struct.pack('<%dq' % array.ndim, *array.shape) + array.tobytes())

    def put_text(self, name, text):
        self.put(name, np.frombuffer(text.encode(), np.uint8))

    def put_params(self, case, dtype, step, what, arrays):
        flat = np.concatenate([np.asarray(a, dtype).ravel() for a in arrays])
        self.put('%s/%s/%d/%s' % (case, dtype, step, what), flat)


def garden():
    import tensorflow as tf
    import yaml
    from official.modeling.optimization import legacy_adamw, optimizer_factory
    from official.modeling.optimization.configs import optimization_config

    def prepare_local(self, device, dtype, state, whole=legacy_adamw.AdamWeightDecay._prepare_local):
        whole(self, device, dtype, state)   # whose decay is float32, whatever the variables are
        state[(device, dtype)]['weight_decay_rate'] = tf.constant(self.weight_decay_rate, dtype)
    legacy_adamw.AdamWeightDecay._prepare_local = prepare_local

    file = File('optimizers.bin')
    for case, optimizer, rest, both in GARDEN:
        text = text_of(optimizer, rest)
        file.put_text(case, text)
        for dtype in ('float32', 'float64')[:1 + both]:
            config = optimization_config.OptimizationConfig(yaml.safe_load(text))
            factory = optimizer_factory.OptimizerFactory(config)
            o = factory.build_optimizer(factory.build_learning_rate())
            v = [tf.Variable(w.astype(dtype), name=name) for w, (name, _) in zip(weights(), PARAMS)]
            if config.ema:
                o.shadow_copy(type('model', (), {'trainable_variables': v}))
            for step in range(1, STEPS + 1):
                o.apply_gradients(zip([tf.constant(g.astype(dtype)) for g in gradients(step)], v))
                if step not in KEPT:
                    continue
                file.put_params(case, dtype, step, 'weights', [x.numpy() for x in v])
                if config.ema:
                    file.put_params(case, dtype, step, 'averages', [o.get_slot(x, 'average').numpy() for x in v])


def torch_forms(torch):
    file = File('optimizers_torch.bin')
    for case, optimizer, rest, make in TORCH:
        file.put_text(case, text_of(optimizer, rest))
        for dtype in ('float32', 'float64'):
            v = [torch.nn.Parameter(torch.tensor(w.astype(dtype))) for w in weights()]
            o = make(torch, v)
            for step in range(1, STEPS + 1):
                for p, g in zip(v, gradients(step)):
                    p.grad = torch.tensor(g.astype(dtype))
                o.step()
                if step in KEPT:
                    file.put_params(case, dtype, step, 'weights', [p.detach().numpy() for p in v])


try:
    import torch
except ImportError:
    garden()
else:
    torch_forms(torch)
