#!/usr/bin/env python3
"""Writes metrics.bin and losses.bin: what Keras and scikit-learn make of a few small batches.

    python tests/golden/metrics.py      # with keras 3.15.1, jax 0.10.2, scikit-learn 1.9.1 from PyPI

All is computed in float64 from predictions that float32 holds exactly. For each metric: its configuration
as YAML, batches (targets, predictions, weights), and the result after all of them. For each loss: its
configuration, one batch, the values of the examples, the reduced loss with and without weights, and its
gradient by the predictions. The readers are tests/nn/test_metric_golden.c and test_loss_golden.c; a file
is a row of {name, type, shape, values}.
"""
import json
import os
import pathlib
import struct

os.environ.setdefault('KERAS_BACKEND', 'jax')
os.environ.setdefault('JAX_ENABLE_X64', '1')

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import sklearn.metrics as sk  # noqa: E402

keras.config.set_floatx('float64')
# Keras takes means in float32, whatever the type.
keras.src.ops.mean = lambda x, axis=None, keepdims=False: jnp.mean(
    x, tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
rng = np.random.default_rng(7)
BATCHES, ROWS, CLASSES = 3, 7, 4


class File:
    KINDS = {'float32': 0, 'float64': 1, 'int64': 2, 'uint8': 3}

    def __init__(self):
        self.rows = []

    def put(self, name, values):
        values = np.array(values, order='C')
        if values.dtype == bool or values.dtype == np.int32:
            values = values.astype(np.int64)
        label = name.encode()
        self.rows.append(struct.pack('<I', len(label)) + label
                         + struct.pack('<II', self.KINDS[values.dtype.name], values.ndim)
                         + struct.pack(f'<{values.ndim}q', *values.shape) + values.tobytes())

    def text(self, name, text):
        self.put(name, np.frombuffer(text.encode(), np.uint8))

    def write(self, name):
        path = pathlib.Path(__file__).with_name(name)
        path.write_bytes(b''.join(self.rows))
        print(name, len(self.rows), 'entries', path.stat().st_size, 'bytes')


def exact(x):
    return np.asarray(x, np.float32).astype(np.float64)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def one_hot(y, n=CLASSES):
    return np.eye(n)[y]


# --- metrics ---------------------------------------------------------------------------------------------

def batches(kind, weights):
    """Three batches of one kind; scores are drawn so that answers are right about half of the time."""
    for _ in range(BATCHES):
        labels = rng.integers(0, CLASSES, ROWS)
        scores = exact(softmax(rng.normal(size=(ROWS, CLASSES)) + 1.2 * one_hot(labels)))
        w = {'none': None, 'rows': exact(rng.random(ROWS)) * (rng.random(ROWS) > 0.2),
             'all': exact(rng.random((ROWS, CLASSES)))}[weights]
        if kind == 'sparse':
            yield labels, scores, w
        elif kind == 'dense':
            yield one_hot(labels), scores, w
        elif kind == 'binary':
            y = (rng.random((ROWS, CLASSES)) < 0.4).astype(np.float64)
            p = exact(np.clip(0.5 * rng.random((ROWS, CLASSES)) + 0.4 * y, 0, 1))
            p[0, 0], p[1, 1], p[2, 2], p[3, 3] = 0, 1, 0.5, 0.25
            yield y, p, w
        elif kind == 'column':
            y = (rng.random(ROWS) < 0.5).astype(np.int64)
            p = exact(np.clip(0.6 * rng.random(ROWS) + 0.3 * y, 0, 1))
            yield y, p[:, None], w
        elif kind == 'numbers':
            yield labels, rng.integers(0, CLASSES, ROWS), w
        elif kind == 'tokens':
            labels = rng.integers(0, CLASSES, (ROWS, 3))
            yield labels, exact(softmax(rng.normal(size=(ROWS, 3, CLASSES)) + one_hot(labels))), w
        elif kind == 'real':
            yield exact(rng.normal(size=(ROWS, CLASSES))), exact(rng.normal(size=(ROWS, CLASSES))), w
        elif kind == 'values':
            yield None, exact(rng.normal(size=(ROWS, CLASSES))), w


def keras_metric(make):
    def compute(all_batches):
        metric = make()
        for y, p, w in all_batches:
            if y is None:
                metric.update_state(p, sample_weight=w)
            else:
                metric.update_state(y, p, sample_weight=w)
        return np.asarray(metric.result(), np.float64)
    compute.tolerance = 2e-7  # it adds 1e-7 to some divisors
    return compute


def joined(all_batches):
    """Everything in one row, weights stretched, for scikit-learn."""
    ys, ps, ws = [], [], []
    for y, p, w in all_batches:
        ys.append(y)
        ps.append(p)
        ws.append(np.ones(len(y)) if w is None else w)
    return np.concatenate(ys), np.concatenate(ps), np.concatenate(ws)


def iou(per_class):
    def compute(all_batches):
        y, p, w = joined(all_batches)
        p = p if p.ndim == y.ndim else p.argmax(-1)
        w = np.broadcast_to(w.reshape(len(w), *[1] * (y.ndim - 1)), y.shape)
        m = sk.confusion_matrix(y.ravel(), p.ravel(), labels=range(CLASSES), sample_weight=w.ravel())
        union = m.sum(0) + m.sum(1) - np.diag(m)
        each = np.divide(np.diag(m), union, out=np.zeros(CLASSES), where=union > 0)
        return each if per_class else np.float64(each.sum() / max((union > 0).sum(), 1))
    return compute


def sk_metric(function):
    def compute(all_batches):
        return np.asarray(function(*joined(all_batches)), np.float64)
    return compute


def plain_mean(all_batches):
    total = sum((p * w[:, None]).sum() for _, p, w in all_batches)
    return np.float64(total / sum(p.shape[1] * w.sum() for _, p, w in all_batches))


def perplexity(all_batches):
    total = count = 0.0
    for y, p, w in all_batches:
        w = np.ones(y.shape[0]) if w is None else w
        w = np.broadcast_to(w.reshape(-1, *[1] * (y.ndim - 1)), y.shape)
        total += (w * -np.log(np.take_along_axis(p / p.sum(-1, keepdims=True), y[..., None], -1)[..., 0])).sum()
        count += w.sum()
    return np.float64(np.exp(total / count))


K = keras.metrics
D = dict(dtype='float64')
# name, configuration, kind of batches, weights, what it should be, tolerance
METRICS = [
    ('mean', {}, 'values', 'none', keras_metric(lambda: K.Mean(**D))),
    ('mean', {}, 'values', 'rows', keras_metric(lambda: K.Mean(**D))),
    ('mean', {}, 'values', 'rows', plain_mean),
    ('mean', {}, 'values', 'all', keras_metric(lambda: K.Mean(**D))),
    ('sum', {}, 'values', 'rows', keras_metric(lambda: K.Sum(**D))),
    ('accuracy', {}, 'numbers', 'rows', keras_metric(lambda: K.Accuracy(**D))),
    ('binary_accuracy', {}, 'binary', 'none', keras_metric(lambda: K.BinaryAccuracy(**D))),
    ('binary_accuracy', {'threshold': 0.3}, 'binary', 'rows',
     keras_metric(lambda: K.BinaryAccuracy(threshold=0.3, **D))),
    ('binary_accuracy', {}, 'column', 'rows', keras_metric(lambda: K.BinaryAccuracy(**D))),
    ('categorical_accuracy', {}, 'dense', 'rows', keras_metric(lambda: K.CategoricalAccuracy(**D))),
    ('sparse_categorical_accuracy', {}, 'sparse', 'none',
     keras_metric(lambda: K.SparseCategoricalAccuracy(**D))),
    ('sparse_categorical_accuracy', {}, 'sparse', 'rows',
     keras_metric(lambda: K.SparseCategoricalAccuracy(**D))),
    ('sparse_categorical_accuracy', {}, 'tokens', 'none',
     keras_metric(lambda: K.SparseCategoricalAccuracy(**D))),
    ('top_k_categorical_accuracy', {'k': 2}, 'dense', 'rows',
     keras_metric(lambda: K.TopKCategoricalAccuracy(k=2, **D))),
    ('sparse_top_k_categorical_accuracy', {'k': 2}, 'sparse', 'rows',
     keras_metric(lambda: K.SparseTopKCategoricalAccuracy(k=2, **D))),
    ('sparse_top_k_categorical_accuracy', {'k': 2}, 'sparse', 'rows',
     sk_metric(lambda y, p, w: sk.top_k_accuracy_score(y, p, k=2, sample_weight=w, labels=range(CLASSES)))),
    ('mean_squared_error', {}, 'real', 'rows', keras_metric(lambda: K.MeanSquaredError(**D))),
    ('root_mean_squared_error', {}, 'real', 'rows', keras_metric(lambda: K.RootMeanSquaredError(**D))),
    ('mean_absolute_error', {}, 'real', 'rows', keras_metric(lambda: K.MeanAbsoluteError(**D))),
    ('cosine_similarity', {}, 'real', 'rows', keras_metric(lambda: K.CosineSimilarity(**D))),
    ('binary_crossentropy', {}, 'binary', 'rows', keras_metric(lambda: K.BinaryCrossentropy(**D))),
    ('binary_crossentropy', {'from_logits': True, 'label_smoothing': 0.1}, 'binary', 'rows',
     keras_metric(lambda: K.BinaryCrossentropy(from_logits=True, label_smoothing=0.1, **D))),
    ('categorical_crossentropy', {'label_smoothing': 0.1}, 'dense', 'rows',
     keras_metric(lambda: K.CategoricalCrossentropy(label_smoothing=0.1, **D))),
    ('sparse_categorical_crossentropy', {}, 'sparse', 'rows',
     keras_metric(lambda: K.SparseCategoricalCrossentropy(**D))),
    ('sparse_categorical_crossentropy', {'from_logits': True}, 'sparse', 'none',
     keras_metric(lambda: K.SparseCategoricalCrossentropy(from_logits=True, **D))),
    ('sparse_categorical_crossentropy', {}, 'sparse', 'none',
     sk_metric(lambda y, p, w: sk.log_loss(y, p / p.sum(-1, keepdims=True), labels=range(CLASSES)))),
    ('perplexity', {}, 'tokens', 'rows', perplexity),
    ('loss_perplexity', {}, 'values', 'rows', lambda data: np.exp(plain_mean(data))),
    ('precision', {}, 'binary', 'none', keras_metric(lambda: K.Precision(**D))),
    ('precision', {'thresholds': [0.2, 0.5, 0.9]}, 'binary', 'rows',
     keras_metric(lambda: K.Precision(thresholds=[0.2, 0.5, 0.9], **D))),
    ('precision', {'top_k': 2}, 'dense', 'rows', keras_metric(lambda: K.Precision(top_k=2, **D))),
    ('precision', {'class_id': 1, 'top_k': 2}, 'dense', 'none',
     keras_metric(lambda: K.Precision(class_id=1, top_k=2, **D))),
    ('precision', {}, 'column', 'rows',
     sk_metric(lambda y, p, w: sk.precision_score(y, p[:, 0] > 0.5, sample_weight=w))),
    ('recall', {}, 'binary', 'rows', keras_metric(lambda: K.Recall(**D))),
    ('recall', {'class_id': 2, 'thresholds': [0.4]}, 'binary', 'rows',
     keras_metric(lambda: K.Recall(class_id=2, thresholds=0.4, **D))),
    ('recall', {}, 'column', 'rows',
     sk_metric(lambda y, p, w: sk.recall_score(y, p[:, 0] > 0.5, sample_weight=w))),
    ('true_positives', {'thresholds': [0.3, 0.6]}, 'binary', 'rows',
     keras_metric(lambda: K.TruePositives(thresholds=[0.3, 0.6], **D))),
    ('true_negatives', {}, 'binary', 'rows', keras_metric(lambda: K.TrueNegatives(**D))),
    ('false_positives', {}, 'binary', 'rows', keras_metric(lambda: K.FalsePositives(**D))),
    ('false_negatives', {}, 'binary', 'rows', keras_metric(lambda: K.FalseNegatives(**D))),
    ('recall_at_precision', {'value': 0.7}, 'binary', 'rows',
     keras_metric(lambda: K.RecallAtPrecision(0.7, **D))),
    ('precision_at_recall', {'value': 0.6, 'num_thresholds': 31}, 'binary', 'none',
     keras_metric(lambda: K.PrecisionAtRecall(0.6, num_thresholds=31, **D))),
    ('auc', {}, 'binary', 'none', keras_metric(lambda: K.AUC(**D))),
    ('auc', {}, 'binary', 'rows', keras_metric(lambda: K.AUC(**D))),
    ('auc', {'num_thresholds': 9, 'summation_method': 'majoring'}, 'binary', 'none',
     keras_metric(lambda: K.AUC(num_thresholds=9, summation_method='majoring', **D))),
    ('auc', {'num_thresholds': 9, 'summation_method': 'minoring'}, 'binary', 'none',
     keras_metric(lambda: K.AUC(num_thresholds=9, summation_method='minoring', **D))),
    ('auc', {'curve': 'PR'}, 'binary', 'rows', keras_metric(lambda: K.AUC(curve='PR', **D))),
    ('auc', {'curve': 'PR', 'summation_method': 'majoring', 'num_thresholds': 20}, 'binary', 'none',
     keras_metric(lambda: K.AUC(curve='PR', summation_method='majoring', num_thresholds=20, **D))),
    ('auc', {'thresholds': [0.8, 0.1, 0.45]}, 'binary', 'rows',
     keras_metric(lambda: K.AUC(thresholds=[0.8, 0.1, 0.45], **D))),
    ('auc', {'num_labels': 4}, 'binary', 'none',
     keras_metric(lambda: K.AUC(multi_label=True, num_labels=4, **D))),
    ('auc', {'num_labels': 4, 'curve': 'PR', 'label_weights': [1.0, 2.0, 0.5, 0.0]}, 'binary', 'none',
     keras_metric(lambda: K.AUC(multi_label=True, num_labels=4, curve='PR', label_weights=[1.0, 2.0, 0.5, 0.0],
                                **D))),
    ('auc', {'from_logits': True}, 'binary', 'none', keras_metric(lambda: K.AUC(from_logits=True, **D))),
    ('auc', {'num_thresholds': 20001}, 'column', 'rows',
     sk_metric(lambda y, p, w: sk.roc_auc_score(y, p[:, 0], sample_weight=w))),
    ('f1_score', {'num_classes': 4}, 'dense', 'rows',
     sk_metric(lambda y, p, w: sk.f1_score(y.argmax(-1), p.argmax(-1), labels=range(4), average=None,
                                           sample_weight=w))),
    ('f1_score', {'num_classes': 4, 'average': 'macro'}, 'sparse', 'none',
     sk_metric(lambda y, p, w: sk.f1_score(y, p.argmax(-1), labels=range(4), average='macro'))),
    ('f1_score', {'num_classes': 4, 'average': 'micro', 'threshold': 0.4}, 'binary', 'none',
     sk_metric(lambda y, p, w: sk.f1_score(y, p > 0.4, average='micro'))),
    ('f1_score', {'num_classes': 4, 'average': 'weighted', 'threshold': 0.4}, 'binary', 'rows',
     keras_metric(lambda: K.F1Score(average='weighted', threshold=0.4, **D)), 1e-6),
    ('fbeta_score', {'num_classes': 4, 'beta': 2.0}, 'dense', 'rows',
     keras_metric(lambda: K.FBetaScore(beta=2.0, **D)), 1e-6),
    ('fbeta_score', {'num_classes': 4, 'beta': 0.5, 'average': 'macro'}, 'sparse', 'rows',
     sk_metric(lambda y, p, w: sk.fbeta_score(y, p.argmax(-1), beta=0.5, labels=range(4), average='macro',
                                              sample_weight=w))),
    ('confusion_matrix', {'num_classes': 4}, 'numbers', 'rows',
     sk_metric(lambda y, p, w: sk.confusion_matrix(y, p, labels=range(4), sample_weight=w))),
    ('confusion_matrix', {'num_classes': 4}, 'sparse', 'none',
     sk_metric(lambda y, p, w: sk.confusion_matrix(y, p.argmax(-1), labels=range(4)))),
    ('mean_iou', {'num_classes': 4}, 'numbers', 'none',
     keras_metric(lambda: K.MeanIoU(num_classes=4, **D)), 1e-6),
    ('mean_iou', {'num_classes': 4, 'ignore_class': 1}, 'numbers', 'rows',
     keras_metric(lambda: K.MeanIoU(num_classes=4, ignore_class=1, **D)), 1e-6),
    ('mean_iou', {'num_classes': 4}, 'tokens', 'rows', iou(False)),
    ('per_class_iou', {'num_classes': 4}, 'numbers', 'rows', iou(True)),
]
# Drawn by themselves, so that what is above and below stays as it was.
METRICS_BESIDE = [
    ('r2_score', {}, 'real', 'none', sk_metric(lambda y, p, w: sk.r2_score(y.ravel(), p.ravel()))),
    ('r2_score', {}, 'real', 'rows',
     sk_metric(lambda y, p, w: sk.r2_score(y.ravel(), p.ravel(), sample_weight=np.repeat(w, CLASSES)))),
]


def write_metrics():
    global rng
    out = File()
    before = rng
    for i, (name, config, kind, weights, compute, *tolerance) in enumerate(METRICS + METRICS_BESIDE):
        if i == len(METRICS):
            rng = np.random.default_rng(8)
        data = list(batches(kind, weights))
        at = f'{i:02d}'
        out.text(f'{at}/config', json.dumps({'metric': {'type': name, name: config}}))
        for b, (y, p, w) in enumerate(data):
            if y is not None:
                out.put(f'{at}/{b}/y', y)
            out.put(f'{at}/{b}/p', p)
            if w is not None:
                out.put(f'{at}/{b}/w', w)
        out.put(f'{at}/result', np.asarray(compute(data), np.float64))
        most = tolerance[0] if tolerance else getattr(compute, 'tolerance', 1e-11)
        out.put(f'{at}/tolerance', np.float64(most))
    rng = before
    out.put('count', np.int64(len(METRICS + METRICS_BESIDE)))
    out.put('batches', np.int64(BATCHES))
    out.write('metrics.bin')


# --- losses ----------------------------------------------------------------------------------------------

L = keras.losses


def focal(y, p, alpha=0.25, gamma=2.0):
    """That of detectors: sigmoid cross-entropy of each logit, modulated and balanced."""
    ce = jnp.maximum(p, 0) - p * y + jnp.log1p(jnp.exp(-jnp.abs(p)))
    q = jax.nn.sigmoid(p)
    miss = jnp.where(y == 1, 1 - q, q)
    return jnp.where(y == 1, alpha, 1 - alpha) * miss ** gamma * ce


def smooth_l1(y, p, beta=1.0):
    e = jnp.abs(p - y)
    return jnp.where(e < beta, 0.5 * e * e / beta, e - 0.5 * beta).mean(-1)


def loss_data(kind):
    labels = rng.integers(0, CLASSES, ROWS)
    logits = exact(rng.normal(size=(ROWS, CLASSES)) * 2)
    shares = exact(softmax(logits))
    yes = (rng.random((ROWS, CLASSES)) < 0.5).astype(np.float64)
    return {'real': (exact(rng.normal(size=(ROWS, CLASSES))), logits),
            'positive': (exact(rng.random((ROWS, CLASSES)) + 0.1), exact(rng.random((ROWS, CLASSES)) + 0.1)),
            'dense logits': (one_hot(labels), logits), 'dense': (one_hot(labels), shares),
            'soft': (exact(softmax(rng.normal(size=(ROWS, CLASSES)))), shares),
            'sparse logits': (labels, logits), 'sparse': (labels, shares),
            'yes logits': (yes, logits), 'yes': (yes, exact(rng.random((ROWS, CLASSES)) * 0.9 + 0.05)),
            'signs': (2 * yes - 1, logits)}[kind]


LOSSES = [
    ('binary_crossentropy', {}, 'yes', L.BinaryCrossentropy),
    ('binary_crossentropy', {'from_logits': True, 'label_smoothing': 0.2}, 'yes logits', L.BinaryCrossentropy),
    ('categorical_crossentropy', {'label_smoothing': 0.1}, 'dense', L.CategoricalCrossentropy),
    ('categorical_crossentropy', {'from_logits': True, 'label_smoothing': 0.1}, 'dense logits',
     L.CategoricalCrossentropy),
    ('categorical_crossentropy', {'from_logits': True}, 'soft', L.CategoricalCrossentropy),
    ('sparse_categorical_crossentropy', {}, 'sparse', L.SparseCategoricalCrossentropy),
    ('sparse_categorical_crossentropy', {'from_logits': True}, 'sparse logits',
     L.SparseCategoricalCrossentropy),
    ('binary_focal_crossentropy', {}, 'yes', L.BinaryFocalCrossentropy),
    ('binary_focal_crossentropy', {'from_logits': True, 'gamma': 1.5, 'alpha': 0.3, 'label_smoothing': 0.1,
                                   'apply_class_balancing': True}, 'yes logits', L.BinaryFocalCrossentropy),
    ('categorical_focal_crossentropy', {}, 'dense', L.CategoricalFocalCrossentropy),
    ('categorical_focal_crossentropy', {'from_logits': True, 'gamma': 3.0, 'label_smoothing': 0.1},
     'dense logits', L.CategoricalFocalCrossentropy),
    ('focal', {'alpha': 0.3, 'gamma': 1.5}, 'yes logits', focal),
    ('kl_divergence', {}, 'soft', L.KLDivergence),
    ('poisson', {}, 'positive', L.Poisson),
    ('mean_squared_error', {}, 'real', L.MeanSquaredError),
    ('mean_absolute_error', {}, 'real', L.MeanAbsoluteError),
    ('mean_absolute_percentage_error', {}, 'positive', L.MeanAbsolutePercentageError),
    ('mean_squared_logarithmic_error', {}, 'positive', L.MeanSquaredLogarithmicError),
    ('huber', {'delta': 0.7}, 'real', L.Huber),
    ('smooth_l1', {'beta': 0.7}, 'real', smooth_l1),
    ('log_cosh', {}, 'real', L.LogCosh),
    ('cosine_similarity', {}, 'real', L.CosineSimilarity),
    ('hinge', {}, 'yes logits', L.Hinge),
    ('hinge', {}, 'signs', L.Hinge),
    ('squared_hinge', {}, 'signs', L.SquaredHinge),
    ('categorical_hinge', {}, 'dense logits', L.CategoricalHinge),
]
REDUCTIONS = ['sum_over_batch_size', 'sum', 'none', 'mean_with_sample_weight']


def reduced(values, w, reduction):
    w = jnp.ones(values.shape[:1]) if w is None else w
    w = jnp.broadcast_to(w.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
    weighted = values * w
    return {'sum_over_batch_size': lambda: weighted.sum() / values.size, 'sum': weighted.sum,
            'none': lambda: weighted, 'mean_with_sample_weight': lambda: weighted.sum() / w.sum()}[reduction]()


def write_losses():
    out = File()
    for i, (name, config, kind, loss) in enumerate(LOSSES):
        at, (y, p) = f'{i:02d}', loss_data(kind)
        w = exact(rng.random(ROWS)) * (rng.random(ROWS) > 0.2)
        ours = not isinstance(loss, type)
        function = (lambda q: loss(y, q, **config)) if ours else (
            lambda q: loss(reduction=None, **config)(y, q))
        values = np.asarray(function(jnp.asarray(p)), np.float64)
        out.text(f'{at}/config', json.dumps({'loss': {'type': name, name: config}}))
        out.put(f'{at}/y', y)
        out.put(f'{at}/p', p)
        out.put(f'{at}/w', w)
        out.put(f'{at}/values', values)
        out.put(f'{at}/gradient', np.asarray(
            jax.grad(lambda q: reduced(function(q), w, 'sum_over_batch_size'))(jnp.asarray(p)), np.float64))
        for reduction in REDUCTIONS:
            mine = np.asarray(reduced(jnp.asarray(values), w, reduction))
            if not ours:
                keras_loss = np.asarray(loss(reduction=None if reduction == 'none' else reduction, **config)(
                    y, jnp.asarray(p), sample_weight=w))
                np.testing.assert_allclose(mine, keras_loss, rtol=1e-7, err_msg=name)
            out.put(f'{at}/{reduction}', np.asarray(mine, np.float64))
    out.put('count', np.int64(len(LOSSES)))
    out.write('losses.bin')


write_metrics()
write_losses()
