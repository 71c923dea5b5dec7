#!/usr/bin/env python3
"""Writes nasfpn_names.txt: in which order Model Garden's checkpoints count the layers of NAS-FPN.

    python tests/golden/nasfpn_names.py    # with tf-models-official 2.20.0, TensorFlow 2.20 from PyPI

A line for each case: the model as JSON, a tab, and the layers with weights as they are counted: c is a
convolution, n a norm, the number says which of them was made first. The reader is tests/zoo/test_dense_models.c.
"""
import json
import os
import pathlib

os.environ.update(TF_CPP_MIN_LOG_LEVEL='3', TF_USE_LEGACY_KERAS='1', CUDA_VISIBLE_DEVICES='')

import tf_keras  # noqa: E402
from official.common import registry_imports  # noqa: E402,F401
from official.core import exp_factory, task_factory  # noqa: E402
from official.modeling import hyperparams  # noqa: E402

CASES = [
    ({'resnet': {'model_id': 10}}, 'relu', {'num_repeats': 1}),
    ({'resnet': {'model_id': 10}}, 'swish', {'num_repeats': 5}),  # a level of its backbone has 256 channels
    ({'resnet': {'model_id': 10, 'depth_multiplier': 0.25}}, 'relu6', {'num_repeats': 3}),
    ({'resnet': {'model_id': 10, 'depth_multiplier': 0.25}}, 'mish', {'num_repeats': 2}),
    ({'dilated_resnet': {'model_id': 50, 'output_stride': 16}}, 'relu', {'num_repeats': 2}),
    ({'mobilenet': {'model_id': 'MobileNetV2'}}, 'hard_swish', {'num_repeats': 2, 'use_separable_conv': True}),
]


def number(layer):
    """conv2d, conv2d_1, ..., as they are made."""
    tail = layer.name.rpartition('_')[2]
    return int(tail) if tail.isdigit() else 0


def line(backbone, activation, nasfpn):
    kind = next(iter(backbone))
    model = {'num_classes': 3, 'input_size': [128, 128, 3], 'min_level': 3, 'max_level': 7,
             'backbone': {'type': kind, **backbone}, 'decoder': {'type': 'nasfpn', 'nasfpn': nasfpn},
             'norm_activation': {'activation': activation, 'use_sync_bn': False}}
    tf_keras.backend.clear_session()
    params = hyperparams.override_params_dict(exp_factory.get_exp_config('retinanet'), {'task': {'model': model}}, True)
    decoder = task_factory.get_task(params.task, logging_dir=None).build_model().decoder
    counted = [('n' if 'batch_norm' in layer.name else 'c', number(layer)) for layer in decoder.layers if layer.weights]
    for part in 'cn':  # those before them are of the backbone
        order = sorted(n for p, n in counted if p == part)
        counted = [(p, order.index(n) if p == part else n) for p, n in counted]
    return json.dumps(model) + '\t' + ' '.join(f'{p}{n}' for p, n in counted)


if __name__ == '__main__':
    pathlib.Path(__file__).with_name('nasfpn_names.txt').write_text('\n'.join(line(*case) for case in CASES) + '\n')
