#!/usr/bin/env python3
"""Writes metrics_keras.bin: metrics that are not in metrics.py, by Keras 3; the two that it no longer has
(mean_relative_error, mean_tensor) by tf_keras.

    python -m venv .venv-tf && .venv-tf/bin/pip install tf-models-official==2.20.0
    .venv-tf/bin/python tests/golden/metrics_keras.py        # with keras 3.15.1, tf_keras 2.20.1

The file is like metrics.bin: for each metric its configuration as YAML, three batches (targets, predictions,
weights) and the result after all of them, in float64. Rows of weight 0, batches without rows and weights that
are all 0 are among them. The reader is tests/nn/test_metric_golden.c.
"""
import json
import os
import pathlib
import struct

os.environ['KERAS_BACKEND'] = 'tensorflow'
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tf_keras  # noqa: E402

keras.config.set_floatx('float64')
rng = np.random.default_rng(11)
BATCHES, ROWS, CLASSES = 3, 7, 4
KINDS = {'float32': 0, 'float64': 1, 'int64': 2, 'uint8': 3}


def row(name, values):
    values = np.array(values, order='C')
    label = name.encode()
    return (struct.pack('<I', len(label)) + label + struct.pack('<II', KINDS[values.dtype.name], values.ndim)
            + struct.pack(f'<{values.ndim}q', *values.shape) + values.tobytes())


def exact(x):
    return np.asarray(x, np.float32).astype(np.float64)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return exact(e / e.sum(-1, keepdims=True))


def batch(kind, weights, rows):
    labels = rng.integers(0, CLASSES, rows)
    shape = (rows, CLASSES)
    scores = softmax(rng.normal(size=shape) + 1.2 * np.eye(CLASSES)[labels])
    yes = (rng.random(shape) < 0.4).astype(np.float64)
    shares = exact(np.clip(0.5 * rng.random(shape) + 0.4 * yes, 0, 1))
    if rows:
        shares[0, :3] = 0, 1, 0.5
    y, p = {
        'real': (exact(rng.normal(size=shape)), exact(rng.normal(size=shape))),
        'positive': (exact(rng.random(shape) * 3), exact(rng.random(shape) * 3 + 0.1)),
        'zeros': (exact(rng.random(shape) * (rng.random(shape) < 0.5)), exact(rng.random(shape))),
        'signs': (2 * yes - 1, exact(rng.normal(size=shape))),
        'yes': (yes, exact(rng.normal(size=shape))),
        'dense': (np.eye(CLASSES)[labels], scores),
        'soft': (softmax(rng.normal(size=shape)), scores),
        'binary': (yes, shares),
        'column': (yes[:, :1], shares[:, :1]),
        'numbers': (labels, rng.integers(0, CLASSES, rows)),
        'few': (labels % 2, rng.integers(0, 2, rows)),
        'dense numbers': (np.eye(CLASSES)[labels], rng.integers(0, CLASSES, rows)),
        'values': (None, exact(rng.normal(size=(2, 3)))),
    }[kind]
    if kind == 'values':
        rows = 2
    w = {'none': None, 'rows': exact(rng.random(rows)) * (rng.random(rows) > 0.3), 'zero': np.zeros(rows),
         'some': exact(rng.random(rows) + 0.1), 'all': exact(rng.random(shape if y is not None else (2, 3)))}[weights]
    return y, p, w


K, D = keras.metrics, dict(dtype='float64')
WRAPPED = (  # name, class, kinds of batches
    ('hinge', K.Hinge, ('signs', 'yes')), ('squared_hinge', K.SquaredHinge, ('signs', 'yes')),
    ('categorical_hinge', K.CategoricalHinge, ('dense', 'signs')),
    ('kl_divergence', K.KLDivergence, ('soft', 'zeros')), ('poisson', K.Poisson, ('positive', 'zeros')),
    ('mean_absolute_percentage_error', K.MeanAbsolutePercentageError, ('positive', 'zeros')),
    ('mean_squared_logarithmic_error', K.MeanSquaredLogarithmicError, ('positive', 'real')),
    ('log_cosh', K.LogCoshError, ('real', 'column')),
)
OLD = tf_keras.metrics
# name, configuration, kind of batches, weights, what makes the metric, rows of the batches, tolerance
CASES = [(name, {}, kind, weights, cls, rows, 2e-7) for name, cls, kinds in WRAPPED
         for kind, weights, rows in ((kinds[0], 'none', (7, 5, 7)), (kinds[1], 'rows', (7, 7, 0)),
                                     (kinds[0], 'zero', (7, 7, 7)))]


def case(name, config, kind, weights, make, rows=(ROWS, 5, ROWS), tolerance=2e-7):
    CASES.append((name, config, kind, weights, make, rows, tolerance))


for at, cls in (('sensitivity_at_specificity', K.SensitivityAtSpecificity),
                ('specificity_at_sensitivity', K.SpecificityAtSensitivity)):
    case(at, {'value': 0.7}, 'binary', 'none', lambda cls=cls, **d: cls(0.7, **d))
    case(at, {'value': 0.4, 'num_thresholds': 21}, 'binary', 'rows',
         lambda cls=cls, **d: cls(0.4, num_thresholds=21, **d))
    case(at, {'value': 0.9, 'class_id': 2}, 'binary', 'none', lambda cls=cls, **d: cls(0.9, class_id=2, **d))
    case(at, {'value': 1.0}, 'column', 'rows', lambda cls=cls, **d: cls(1.0, **d), (7, 0, 7))
    case(at, {'value': 0.5}, 'binary', 'zero', lambda cls=cls, **d: cls(0.5, **d))
IOU = dict(tolerance=1e-6)  # it is computed in float32, and 1e-7 is added to divisors
case('iou', {'num_classes': 4, 'target_class_ids': [1]}, 'numbers', 'none', lambda **d: K.IoU(4, [1], **d), **IOU)
case('iou', {'num_classes': 4, 'target_class_ids': [0, 3], 'ignore_class': 2}, 'numbers', 'rows',
     lambda **d: K.IoU(4, [0, 3], ignore_class=2, **d), **IOU)
case('iou', {'num_classes': 4, 'target_class_ids': [0, 1, 3]}, 'few', 'rows', lambda **d: K.IoU(4, [0, 1, 3], **d),
     (7, 0, 7), **IOU)
case('iou', {'num_classes': 4, 'target_class_ids': [0, 2], 'dense_y_true': True, 'dense_y_pred': True}, 'dense',
     'none', lambda **d: K.IoU(4, [0, 2], sparse_y_true=False, sparse_y_pred=False, **d), **IOU)
case('iou', {'num_classes': 4, 'target_class_ids': [0, 1]}, 'numbers', 'zero', lambda **d: K.IoU(4, [0, 1], **d),
     **IOU)
case('binary_iou', {}, 'column', 'none', lambda **d: K.BinaryIoU(**d), **IOU)
case('binary_iou', {'target_class_ids': [1], 'threshold': 0.3}, 'column', 'rows',
     lambda **d: K.BinaryIoU([1], 0.3, **d), **IOU)
case('binary_iou', {'target_class_ids': [0]}, 'binary', 'all', lambda **d: K.BinaryIoU([0], **d), **IOU)
case('one_hot_iou', {'num_classes': 4, 'target_class_ids': [0, 2]}, 'dense', 'rows',
     lambda **d: K.OneHotIoU(4, [0, 2], **d), **IOU)
case('one_hot_iou', {'num_classes': 4, 'target_class_ids': [1, 3], 'sparse_y_pred': True, 'ignore_class': 0},
     'dense numbers', 'none', lambda **d: K.OneHotIoU(4, [1, 3], sparse_y_pred=True, ignore_class=0, **d), **IOU)
case('one_hot_mean_iou', {'num_classes': 4}, 'dense', 'none', lambda **d: K.OneHotMeanIoU(4, **d), **IOU)
case('one_hot_mean_iou', {'num_classes': 4, 'sparse_y_pred': True}, 'dense numbers', 'rows',
     lambda **d: K.OneHotMeanIoU(4, sparse_y_pred=True, **d), **IOU)
for how in ('uniform_average', 'variance_weighted_average', None):
    case('r2_score', {'num_outputs': 4, 'class_aggregation': how or 'none'}, 'real', 'rows',
         lambda how=how, **d: K.R2Score(class_aggregation=how, **d), (7, 0, 7))
case('r2_score', {'num_outputs': 1}, 'column', 'none', lambda **d: K.R2Score(**d))
case('r2_score', {'num_outputs': 4, 'num_regressors': 3}, 'real', 'some',
     lambda **d: K.R2Score(num_regressors=3, **d), tolerance=1e-6)
case('r2_score', {'num_outputs': 4, 'num_regressors': 80, 'class_aggregation': 'none'}, 'real', 'none',
     lambda **d: K.R2Score(num_regressors=80, class_aggregation=None, **d))
case('mean_relative_error', {'normalizer': [1.0, 3.0, 0.5, 0.0]}, 'real', 'none',
     lambda **d: OLD.MeanRelativeError(np.array([1, 3, 0.5, 0]), **d))
case('mean_relative_error', {'normalizer': [2.0]}, 'real', 'rows',
     lambda **d: OLD.MeanRelativeError(np.full(CLASSES, 2.0), **d), (7, 0, 7))
case('mean_tensor', {'shape': [2, 3]}, 'values', 'none', lambda **d: OLD.MeanTensor(shape=(2, 3), **d))
case('mean_tensor', {'shape': [2, 3]}, 'values', 'all', lambda **d: OLD.MeanTensor(shape=(2, 3), **d))
case('mean_tensor', {'shape': [2, 3]}, 'values', 'rows', lambda **d: OLD.MeanTensor(shape=(2, 3), **d))


def main():
    rows = []
    for i, (name, config, kind, weights, make, sizes, tolerance) in enumerate(CASES):
        metric = make(**D)
        rows.append(row(f'{i:02d}/config', np.frombuffer(
            json.dumps({'metric': {'type': name, name: config}}).encode(), np.uint8)))
        for b in range(BATCHES):
            y, p, w = batch(kind, weights, sizes[b])
            if sizes[b]:  # some of Keras refuse a batch without rows; it must change nothing
                metric.update_state(*([p] if y is None else [y, p]), sample_weight=w)
            for label, values in (('y', y), ('p', p), ('w', w)):
                if values is not None:
                    rows.append(row(f'{i:02d}/{b}/{label}', values))
        rows.append(row(f'{i:02d}/result', np.asarray(metric.result(), np.float64)))
        rows.append(row(f'{i:02d}/tolerance', np.float64(tolerance)))
    rows += [row('count', np.int64(len(CASES))), row('batches', np.int64(BATCHES))]
    path = pathlib.Path(__file__).with_name('metrics_keras.bin')
    path.write_bytes(b''.join(rows))
    print(len(CASES), 'cases', path.stat().st_size, 'bytes')


main()
