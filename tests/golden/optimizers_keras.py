#!/usr/bin/env python3
"""Writes optimizers_keras.bin: what the optimizers of Keras 3 that Model Garden does not know make of the
gradients of optimizers.py, in float32 and in float64.

    python -m venv .venv-tf && .venv-tf/bin/pip install tf-models-official==2.20.0
    .venv-tf/bin/python tests/golden/optimizers_keras.py      # with keras 3.15.1 and its TensorFlow

Cases, weights, gradients and the file are as optimizers.py has them; the reader is
tests/nn/test_optimizer_golden.c. Averages are Keras's own (use_ema), which begin as a copy of the weights.
"""
import importlib.util
import os
import pathlib

os.environ['KERAS_BACKEND'] = 'tensorflow'
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'

FOLDER = pathlib.Path(__file__).parent
STEPS, KEPT = 100, (1, 10, 100)


def rate(value):
    return 'learning_rate: {type: constant, constant: {learning_rate: %g}}' % value


EMA = '\nema: {average_decay: 0.9, dynamic_decay: false, start_step: 2}'
BETAS, B = 'beta_1: 0.85, beta_2: 0.99', dict(beta_1=0.85, beta_2=0.99)
# name, optimizer, what follows, class, arguments
CASES = (
    ('adadelta', 'adadelta: {}', rate(1), 'Adadelta', dict(learning_rate=1.0)),
    ('adadelta decay', 'adadelta: {rho: 0.8, epsilon: 1.0e-4, weight_decay: 0.05}', rate(0.5), 'Adadelta',
     dict(learning_rate=0.5, rho=0.8, epsilon=1e-4, weight_decay=0.05)),
    ('adadelta clipnorm', 'adadelta: {epsilon: 1.0e-3, clipnorm: 0.6}', rate(1), 'Adadelta',
     dict(learning_rate=1.0, epsilon=1e-3, clipnorm=0.6)),
    ('adamax', 'adamax: {}', rate(0.01), 'Adamax', dict(learning_rate=0.01)),
    ('adamax decay', 'adamax: {%s, epsilon: 1.0e-2, weight_decay: 0.05}' % BETAS, rate(0.01), 'Adamax',
     dict(B, learning_rate=0.01, epsilon=1e-2, weight_decay=0.05)),
    ('adamax ema', 'adamax: {%s, global_clipnorm: 0.7}' % BETAS, rate(0.01) + EMA, 'Adamax',
     dict(B, learning_rate=0.01, global_clipnorm=0.7, use_ema=True, ema_momentum=0.9)),
    ('nadam', 'nadam: {}', rate(0.01), 'Nadam', dict(learning_rate=0.01)),
    ('nadam decay', 'nadam: {%s, epsilon: 1.0e-2, weight_decay: 0.05}' % BETAS, rate(0.01), 'Nadam',
     dict(B, learning_rate=0.01, epsilon=1e-2, weight_decay=0.05)),
    ('nadam clipvalue', 'nadam: {%s, clipvalue: 0.3}' % BETAS, rate(0.01) + EMA, 'Nadam',
     dict(B, learning_rate=0.01, clipvalue=0.3, use_ema=True, ema_momentum=0.9)),
    ('ftrl', 'ftrl: {}', rate(0.1), 'Ftrl', dict(learning_rate=0.1)),
    ('ftrl all', 'ftrl: {learning_rate_power: -0.7, initial_accumulator_value: 0.2, weight_decay: 0.05,'
     ' l1_regularization_strength: 0.3, l2_regularization_strength: 0.02,'
     ' l2_shrinkage_regularization_strength: 0.03, beta: 0.01}', rate(0.1), 'Ftrl',
     dict(learning_rate=0.1, learning_rate_power=-0.7, initial_accumulator_value=0.2, weight_decay=0.05,
          l1_regularization_strength=0.3, l2_regularization_strength=0.02,
          l2_shrinkage_regularization_strength=0.03, beta=0.01)),
    ('ftrl flat', 'ftrl: {learning_rate_power: 0.0, l1_regularization_strength: 0.5, clipnorm: 0.6}', rate(0.1),
     'Ftrl', dict(learning_rate=0.1, learning_rate_power=0.0, l1_regularization_strength=0.5, clipnorm=0.6)),
    ('lion', 'lion: {}', rate(0.01), 'Lion', dict(learning_rate=0.01)),
    ('lion decay', 'lion: {beta_1: 0.85, beta_2: 0.95, weight_decay: 0.5, clipnorm: 0.6}', rate(0.01) + EMA,
     'Lion', dict(beta_1=0.85, beta_2=0.95, learning_rate=0.01, weight_decay=0.5, clipnorm=0.6, use_ema=True,
                  ema_momentum=0.9)),
)


def load_optimizers():
    """Its weights, gradients and files, without what it runs at the end."""
    text = (FOLDER / 'optimizers.py').read_text().split('\ntry:\n    import torch')[0]
    spec = importlib.util.spec_from_loader('optimizers', None)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(FOLDER / 'optimizers.py')
    exec(compile(text, module.__file__, 'exec'), module.__dict__)
    return module


def main():
    o = load_optimizers()
    import keras
    import numpy as np
    cast = keras.src.ops.cast
    # TensorFlow makes float32 of Python's numbers before it casts them, whatever they are cast to.
    keras.src.ops.cast = lambda x, dtype: cast(np.float64(x) if isinstance(x, float) else x, dtype)
    file = o.File('optimizers_keras.bin')
    for case, optimizer, rest, cls, arguments in CASES:
        file.put_text(case, o.text_of(optimizer, rest))
        for dtype in ('float32', 'float64'):
            keras.config.set_floatx(dtype)
            v = [keras.Variable(w.astype(dtype), name=name.replace('/', '_'))
                 for w, (name, _) in zip(o.weights(), o.PARAMS)]
            k = getattr(keras.optimizers, cls)(**arguments)
            if dtype == 'float64' and k.weight_decay:
                k.weight_decay = np.float64(k.weight_decay)
            for step in range(1, STEPS + 1):
                k.apply([keras.ops.convert_to_tensor(g.astype(dtype)) for g in o.gradients(step)], v)
                if step not in KEPT:
                    continue
                file.put_params(case, dtype, step, 'weights', [np.asarray(x) for x in v])
                if arguments.get('use_ema'):
                    file.put_params(case, dtype, step, 'averages',
                                    [np.asarray(a) for a in k._model_variables_moving_average])


main()
