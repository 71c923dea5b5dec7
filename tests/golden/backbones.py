#!/usr/bin/env python3
"""Writes backbones.bin: what Model Garden's backbones give for two small images.

    python tests/golden/backbones.py    # with tf-models-official 2.20.0, TensorFlow 2.20 from PyPI

Weights and images are numbers of a formula, the weights by their names in a checkpoint, so that the file
holds answers alone. For each case: the configuration of the model (text), how many numbers it has
(trained, all), the logits, and of each endpoint the shape and a few of its numbers. The reader is
tests/zoo/test_backbones.c; the file is rows of {name, type, shape, values}, as those of metrics.py.
"""
import json
import os
import pathlib
import struct
import tempfile

os.environ.update(TF_CPP_MIN_LOG_LEVEL='3', TF_USE_LEGACY_KERAS='1', CUDA_VISIBLE_DEVICES='')

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from official.common import registry_imports  # noqa: E402,F401
from official.core import exp_factory, task_factory  # noqa: E402
from official.modeling import hyperparams  # noqa: E402

VALUE = '/.ATTRIBUTES/VARIABLE_VALUE'
SAMPLES = 16
KINDS = {'float32': 0, 'float64': 1, 'int64': 2, 'uint8': 3}
CASES = {
    'v1': (64, 'mobilenet', {'model_id': 'MobileNetV1', 'filter_size_scale': 0.25, 'output_stride': 16}),
    'v2': (64, 'mobilenet', {'model_id': 'MobileNetV2', 'filter_size_scale': 0.35,
                             'output_intermediate_endpoints': True}),
    'v2 strided': (64, 'mobilenet', {'filter_size_scale': 0.25, 'output_stride': 8,
                                     'output_intermediate_endpoints': True}),
    'v3 small': (64, 'mobilenet', {'model_id': 'MobileNetV3Small'}),
    'v3 large': (64, 'mobilenet', {'model_id': 'MobileNetV3Large', 'filter_size_scale': 0.5}),
    'v3 reduced': (64, 'mobilenet', {'model_id': 'MobileNetV3SmallReducedFilters', 'output_stride': 16}),
    'v3 edge': (64, 'mobilenet', {'model_id': 'MobileNetV3EdgeTPU', 'filter_size_scale': 0.5,
                                  'output_intermediate_endpoints': True}),
    'dilated': (32, 'dilated_resnet', {'last_stage_repeats': 2, 'multigrid': [1, 2, 4]}),
    'dilated deep': (32, 'dilated_resnet', {'output_stride': 8, 'stem_type': 'v1', 'se_ratio': 0.25,
                                            'resnetd_shortcut': True, 'replace_stem_max_pool': True}),
    'vit': (48, 'vit', {'model_name': 'vit-ti16', 'representation_size': 24, 'output_2d_feature_maps': True,
                        'output_attention_scores': True}),
    'vit gap': (32, 'vit', {'model_name': 'vit-ti16', 'pooler': 'gap', 'layer_scale_init_value': 0.1,
                            'init_stochastic_depth_rate': 0.1, 'pos_embed_shape': [3, 3]}),
}


def numbers(key, count):
    """In [-1, 1], by a name and a place."""
    seed = 2166136261
    for byte in key.encode():
        seed = (seed ^ byte) * 16777619 % 2 ** 32
    x = (np.arange(count, dtype=np.uint64) + np.uint64(seed)) % np.uint64(2 ** 32)
    for factor in (0x7feb352d, 0x846ca68b):
        x = (x ^ (x >> np.uint64(15))) * np.uint64(factor) % np.uint64(2 ** 32)
    return (x >> np.uint64(16)).astype(np.float64) / 32768 - 1


def weight(key, shape):
    v = numbers(key, int(np.prod(shape))).reshape(shape)
    name = key.rpartition('/')[2]
    if name in ('gamma', 'moving_variance'):
        v = 1 + v / 4
    elif name.endswith('kernel'):
        v = v * (6 / (v.size / shape[-1] if name == 'kernel' else shape[0] * shape[1])) ** 0.5
    else:
        v = v / 8
    return v.astype(np.float32)


def variables(model, folder):
    """By their names in a checkpoint; each is found by a number that it is filled with."""
    every = list(model.variables)
    for i, variable in enumerate(every):
        variable.assign(tf.fill(variable.shape, float(i)))
    prefix = tf.train.Checkpoint(model=model, **model.checkpoint_items).write(f'{folder}/marked')
    reader = tf.train.load_checkpoint(prefix)
    names = [n for n in reader.get_variable_to_shape_map() if n.endswith(VALUE) and 'save_counter' not in n]
    out = {n[:-len(VALUE)]: every[int(reader.get_tensor(n).flat[0])] for n in names}
    assert len(out) == len(every)
    return out


def put(to, name, array):
    array = np.ascontiguousarray(array)
    to.write(struct.pack('<I', len(name)) + name.encode())
    to.write(struct.pack('<II', KINDS[array.dtype.name], array.ndim))
    to.write(struct.pack(f'<{array.ndim}q', *array.shape) + array.tobytes())


def write(to, case, folder):
    size, kind, backbone = CASES[case]
    config = {'task': {'model': {'num_classes': 5, 'input_size': [size, size, 3],
                                 'backbone': {'type': kind, kind: backbone},
                                 'norm_activation': {'activation': 'swish'}}}}
    params = hyperparams.override_params_dict(exp_factory.get_exp_config('image_classification'), config, True)
    model = task_factory.get_task(params.task, logging_dir=None).build_model()
    for key, variable in variables(model, folder).items():
        variable.assign(weight(key, variable.shape.as_list()))
    images = numbers('images', 2 * size * size * 3).reshape(2, size, size, 3).astype(np.float32)
    put(to, f'{case}/config', np.frombuffer(json.dumps(config).encode(), np.uint8))
    put(to, f'{case}/size', np.array([sum(int(np.prod(v.shape)) for v in of)
                                      for of in (model.trainable_variables, model.variables)], np.int64))
    put(to, f'{case}/logits', model(images, training=False).numpy())
    endpoints = model.backbone(images, training=False)
    inner = getattr(model.backbone, '_output_specs', {})  # not what is for classifiers alone
    for name, value in {'features': endpoints[max(endpoints)], **{n: endpoints[n] for n in inner}}.items():
        value = value.numpy()
        put(to, f'{case}/{name} shape', np.array(value.shape, np.int64))
        put(to, f'{case}/{name}', value.reshape(-1)[np.arange(SAMPLES) * value.size // SAMPLES])


def main():
    with tempfile.TemporaryDirectory() as folder, \
            open(pathlib.Path(__file__).with_name('backbones.bin'), 'wb') as to:
        for case in CASES:
            write(to, case, folder)


if __name__ == '__main__':
    main()
