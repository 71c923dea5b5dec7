#!/usr/bin/env python3
"""Writes what optimizers make of 100 fixed gradients: optimizers.bin by Model Garden, where
tf-models-official 2.20.0 is installed, or optimizers_torch.bin by PyTorch 2.10, where that is.

    python -m venv .venv-tf && .venv-tf/bin/pip install tf-models-official==2.20.0
    .venv-tf/bin/python tests/golden/optimizers.py
    .venv-torch/bin/python tests/golden/optimizers.py

Each case is a configuration as YAML and the parameters after some of the steps, in float32 and in float64.
Keras and Model Garden keep rates, betas and decays in float32, whatever the variables are; for the runs in
float64 that is mended (in_double below), so that numbers such as 0.1 mean what they say. Weights and gradients
are formulas of integers, which the reader (tests/nn/test_optimizer_golden.c) has too. The file is a row of
{name, type, shape, values}; type 3 is text.
"""
import contextlib
import os
import pathlib
import struct

import numpy as np

os.environ['TF_USE_LEGACY_KERAS'] = '1'
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'

PARAMS = (('dense/kernel', (5, 3)), ('dense/bias', (3,)), ('layer_norm/gamma', (4,)),
          ('conv/kernel', (2, 3, 4)))
STEPS, KEPT = 100, (1, 7, 100)

CONSTANT = 'learning_rate: {type: constant, constant: {learning_rate: 0.01}}'
SMALL = 'learning_rate: {type: constant, constant: {learning_rate: 0.003}}'
BETAS = 'beta_1: 0.85, beta_2: 0.99'
EXCLUDE = 'exclude_from_weight_decay: [layer_norm, bias]'
# name, optimizer, what follows
GARDEN = (
    ('sgd', 'sgd: {}', CONSTANT),
    ('sgd momentum', 'sgd: {momentum: 0.9}', CONSTANT),
    ('sgd nesterov', 'sgd: {momentum: 0.9, nesterov: true}', CONSTANT),
    ('sgd decay', 'sgd: {momentum: 0.5, decay: 0.01}', CONSTANT),
    ('sgd clipvalue', 'sgd: {clipvalue: 0.3}', CONSTANT),
    ('sgd clipnorm', 'sgd: {clipnorm: 0.6}', CONSTANT),
    ('sgd global_clipnorm', 'sgd: {momentum: 0.5, global_clipnorm: 0.7}', CONSTANT),
    ('sgd value and norm', 'sgd: {clipvalue: 0.3, clipnorm: 0.6}', CONSTANT),
    ('sgd value and global norm', 'sgd: {clipvalue: 0.3, global_clipnorm: 0.6}', CONSTANT),
    ('sgd_experimental', 'sgd_experimental: {momentum: 0.9, nesterov: true}', CONSTANT),
    ('adam', 'adam: {%s}' % BETAS, CONSTANT),
    ('adam defaults', 'adam: {}', CONSTANT),
    ('adam amsgrad', 'adam: {%s, amsgrad: true}' % BETAS, CONSTANT),
    ('adam_experimental', 'adam_experimental: {%s, amsgrad: true}' % BETAS, CONSTANT),
    ('adamw', 'adamw: {%s, weight_decay_rate: 0.05, %s}' % (BETAS, EXCLUDE), CONSTANT),
    ('adamw include', 'adamw: {%s, weight_decay_rate: 0.05, exclude_from_weight_decay: [kernel],'
     ' include_in_weight_decay: ["conv.*:0$"], gradient_clip_norm: 0.0}' % BETAS, CONSTANT),
    ('adamw clips twice', 'adamw: {%s, gradient_clip_norm: 0.8, clipvalue: 0.15,'
     ' global_clipnorm: 0.35}' % BETAS, CONSTANT),
    ('adamw_experimental', 'adamw_experimental: {%s, weight_decay: 0.05}' % BETAS, CONSTANT),
    ('lamb', 'lamb: {%s, weight_decay_rate: 0.05, %s}' % (BETAS, EXCLUDE), SMALL),
    ('lamb adaptation', 'lamb: {%s, weight_decay_rate: 0.05, %s,'
     ' exclude_from_layer_adaptation: [conv]}' % (BETAS, EXCLUDE), SMALL),
    ('lars', 'lars: {momentum: 0.9, eeta: 0.007, weight_decay_rate: 0.05, %s}' % EXCLUDE,
     CONSTANT),
    ('lars nesterov', 'lars: {momentum: 0.9, eeta: 0.007, nesterov: true}', CONSTANT),
    ('lars popular', 'lars: {momentum: 0.9, eeta: 0.007, weight_decay_rate: 0.05,'
     ' classic_momentum: false, exclude_from_layer_adaptation: [conv], %s}' % EXCLUDE, CONSTANT),
    ('lars popular nesterov', 'lars: {momentum: 0.9, eeta: 0.007, nesterov: true,'
     ' classic_momentum: false}', CONSTANT),
    ('rmsprop', 'rmsprop: {rho: 0.85}', CONSTANT),
    ('rmsprop momentum', 'rmsprop: {rho: 0.85, momentum: 0.7}', SMALL),
    ('rmsprop centered', 'rmsprop: {rho: 0.85, centered: true}', SMALL),
    ('rmsprop both', 'rmsprop: {rho: 0.85, momentum: 0.7, centered: true, epsilon: 0.001}', SMALL),
    ('adagrad', 'adagrad: {initial_accumulator_value: 0.15}', CONSTANT),
    ('adafactor_keras', 'adafactor_keras: {}', CONSTANT),
    ('adafactor_keras fast', 'adafactor_keras: {beta_2_decay: -0.5, clip_threshold: 0.6, epsilon_2: 0.15,'
     ' relative_step: false}', 'learning_rate: {type: constant, constant: {learning_rate: 1}}'),
    ('schedule', 'adam: {}', 'learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.03,'
     ' decay_steps: 90}}\nwarmup: {type: linear, linear: {warmup_steps: 16}}'),
    ('ema', 'sgd: {momentum: 0.9}', CONSTANT + '\nema: {average_decay: 0.9}'),
    ('ema later', 'sgd: {momentum: 0.9}',
     CONSTANT + '\nema: {average_decay: 0.9, start_step: 5, dynamic_decay: false}'),
)
TORCH = (
    ('torch_adamw', 'torch_adamw: {%s, weight_decay: 0.05}' % BETAS, CONSTANT,
     lambda t, p: t.optim.AdamW(p, lr=0.01, betas=(0.85, 0.99), weight_decay=0.05)),
    ('torch_adamw amsgrad', 'torch_adamw: {%s, amsgrad: true}' % BETAS, CONSTANT,
     lambda t, p: t.optim.AdamW(p, lr=0.01, betas=(0.85, 0.99), amsgrad=True)),
    ('torch_sgd', 'torch_sgd: {momentum: 0.9, weight_decay: 0.05}', CONSTANT,
     lambda t, p: t.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.05)),
    ('torch_sgd nesterov', 'torch_sgd: {momentum: 0.9, weight_decay: 0.05, nesterov: true}', CONSTANT,
     lambda t, p: t.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.05, nesterov=True)),
    ('torch_sgd plain', 'torch_sgd: {weight_decay: 0.05}', CONSTANT,
     lambda t, p: t.optim.SGD(p, lr=0.01, weight_decay=0.05)),
    ('torch_adamw defaults', 'torch_adamw: {}', CONSTANT, lambda t, p: t.optim.AdamW(p, lr=0.01)),
)
# With schedules: name, optimizer, learning rate, and what PyTorch has for both.
TORCH_RATES = (
    ('torch exponential', 'torch_sgd: {momentum: 0.9}', 'exponential: {initial_learning_rate: 0.1,'
     ' decay_steps: 1, decay_rate: 0.97}', lambda t, p: t.optim.SGD(p, lr=0.1, momentum=0.9),
     lambda s, o: s.ExponentialLR(o, 0.97)),
    ('torch polynomial', 'torch_adamw: {}', 'polynomial: {initial_learning_rate: 0.01, decay_steps: 80,'
     ' end_learning_rate: 0, power: 1.7}', lambda t, p: t.optim.AdamW(p, lr=0.01),
     lambda s, o: s.PolynomialLR(o, 80, 1.7)),
    ('torch multistep', 'torch_adamw: {}', 'multistep: {initial_learning_rate: 0.01,'
     ' milestones: [10, 30, 31], gamma: 0.3}', lambda t, p: t.optim.AdamW(p, lr=0.01),
     lambda s, o: s.MultiStepLR(o, [10, 30, 31], 0.3)),
    ('torch cosine annealing', 'torch_sgd: {}', 'cosine_annealing: {initial_learning_rate: 0.1,'
     ' decay_steps: 40, end_learning_rate: 0.002}', lambda t, p: t.optim.SGD(p, lr=0.1),
     lambda s, o: s.CosineAnnealingLR(o, 40, 0.002)),
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


@contextlib.contextmanager
def in_double(tf):
    """Numbers of Python are float64 to the modules of optimizers, which would make float32 of them."""
    import sys

    class Double:
        float32 = tf.float64

        def __getattr__(self, name):
            return getattr(tf, name)

        def cast(self, x, dtype, name=None):
            return tf.cast(np.float64(x) if isinstance(x, float) else x, dtype, name)

        def convert_to_tensor(self, value, dtype=None, *rest, **named):
            return tf.convert_to_tensor(np.float64(value) if isinstance(value, float) else value, dtype,
                                        *rest, **named)

    modules = [m for name, m in list(sys.modules.items()) if getattr(m, 'tf', None) is not None
               and name.startswith(('official.modeling.optimization', 'tf_keras.src.optimizers'))]
    kept = [m.tf for m in modules]
    try:
        for m in modules:
            m.tf = Double()
        tf.keras.backend.set_floatx('float64')
        yield
    finally:
        tf.keras.backend.set_floatx('float32')
        for m, was in zip(modules, kept):
            m.tf = was


def widen(thing):
    """The same for the numbers that an optimizer was given, before variables are made of them."""
    for values in (vars(thing), vars(thing).get('_hyper', {})):
        for key, value in list(values.items()):
            if isinstance(value, float):
                values[key] = np.float64(value)
            elif key == '_optimizer':
                widen(value)


def garden():
    import tensorflow as tf
    import yaml
    from official.modeling.optimization import legacy_adamw, optimizer_factory
    from official.modeling.optimization.configs import optimization_config

    def prepare_local(self, device, dtype, state, whole=legacy_adamw.AdamWeightDecay._prepare_local):
        whole(self, device, dtype, state)   # whose decay is float32, whatever the variables are
        state[(device, dtype)]['weight_decay_rate'] = tf.constant(self.weight_decay_rate, dtype)
    legacy_adamw.AdamWeightDecay._prepare_local = prepare_local

    def run(case, text, dtype):
        config = optimization_config.OptimizationConfig(yaml.safe_load(text))
        factory = optimizer_factory.OptimizerFactory(config)
        o = factory.build_optimizer(factory.build_learning_rate())
        if dtype == 'float64':
            widen(o)
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

    file = File('optimizers.bin')
    for case, optimizer, rest in GARDEN:
        text = text_of(optimizer, rest)
        file.put_text(case, text)
        run(case, text, 'float32')
        with in_double(tf):
            run(case, text, 'float64')


def torch_forms(torch):
    file = File('optimizers_torch.bin')
    rates = [(case, optimizer, 'learning_rate: {type: %s, %s}' % (rate.split(':')[0], rate), make, schedule)
             for case, optimizer, rate, make, schedule in TORCH_RATES]
    for case, optimizer, rest, make, schedule in [row + (None,) for row in TORCH] + rates:
        file.put_text(case, text_of(optimizer, rest))
        for dtype in ('float32', 'float64'):
            v = [torch.nn.Parameter(torch.tensor(w.astype(dtype))) for w in weights()]
            o = make(torch, v)
            s = schedule and schedule(torch.optim.lr_scheduler, o)
            for step in range(1, STEPS + 1):
                for p, g in zip(v, gradients(step)):
                    p.grad = torch.tensor(g.astype(dtype))
                o.step()
                if s:
                    s.step()
                if step in KEPT:
                    file.put_params(case, dtype, step, 'weights', [p.detach().numpy() for p in v])


try:
    import torch
except ImportError:
    garden()
else:
    torch_forms(torch)
