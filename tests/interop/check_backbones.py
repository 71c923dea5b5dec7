"""Model Garden's backbones beside ours, from its checkpoints: answers, steps, and checkpoints of ours that it takes."""
import pathlib
import tempfile

from driver import compile_driver
from model_garden import SIZE, configuration, run, under_its_python

under_its_python(__file__)

import numpy as np
import tensorflow as tf
import yaml
from check_original import ADAMW, SGD, Original, batches, check_restored, far, rng, tensors
from safetensors.numpy import load_file, save_file

RMSPROP = {'optimizer': {'type': 'rmsprop', 'rmsprop': {'rho': 0.9, 'momentum': 0.9, 'epsilon': 0.002}},
           'learning_rate': {'type': 'exponential', 'exponential': {'initial_learning_rate': 0.01, 'decay_steps': 2,
                                                                    'decay_rate': 0.9, 'staircase': True}}}
DECAY = {'optimizer': {'type': 'adamw', 'adamw': {'weight_decay_rate': 0.3, 'gradient_clip_norm': 0.0,
                                                  'include_in_weight_decay': r'.*(kernel|weight):0$'}},
         'learning_rate': {'type': 'cosine', 'cosine': {'initial_learning_rate': 0.003, 'decay_steps': 20}}}


def prepare(folder, optimization, kind, backbone, size=SIZE, **model):
    model = {'backbone': {'type': kind, kind: backbone}, 'input_size': [size, size, 3], **model}
    return configuration(folder, optimization, {}, {'model': model})


def disturb(model):
    """Weights and statistics that are not what they start as."""
    for variable in model.variables:
        noise = rng.normal(1, 0.1, variable.shape).astype(np.float32)
        variable.assign(variable * noise + 0.02 * rng.normal(0, 1, variable.shape))
        if 'variance' in variable.name:
            variable.assign(tf.abs(variable) + 0.1)


def images(size):
    return rng.normal(0, 1, (4, size, size, 3)).astype(np.float32)


def answers(driver, folder, path, prefix, x):
    save_file({'image': x, 'label': np.zeros(len(x), np.int32)}, folder / 'batch.safetensors')
    run(driver, 'answers', 'image_classification', path, prefix, folder / 'batch.safetensors', folder / 'out.safetensors')
    return load_file(folder / 'out.safetensors')['y']


def apart(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def check_logits(driver, folder, kind, backbone, size=SIZE, **model):
    path, config = prepare(folder, SGD, kind, backbone, size, **model)
    original = Original(config)
    disturb(original.model)
    x = images(size)
    off = apart(answers(driver, folder, path, original.save(folder / 'logits'), x),
                original.model(x, training=False).numpy())
    print(f'{kind} {backbone}: logits within {off:.1e}, {original.model.count_params()} numbers')
    assert off <= 1e-4


def check_steps(driver, folder, kind, backbone, optimization, count=2, limit=2e-5):
    """Each step of ours starts from the original's state before that step.

    Activations with corners give a gradient or none where two numbers are equal but for roundings: these differ more.
    """
    path, config = prepare(folder, optimization, kind, backbone)
    original = Original(config)
    worst_loss = worst = 0
    for i, (x, y) in enumerate(batches(count)):
        before, after, ours = (folder / f'{kind}-{name}' for name in ('before', 'after', 'ours'))
        if i == 0:  # slots are made by the first step; it is not compared
            original.train(x, y)
        original.step.assign(i)
        original.save(before)
        save_file({'image': x, 'label': y}, folder / 'batch.safetensors')
        loss = float(run(driver, 'step', 'image_classification', path, before, folder / 'batch.safetensors', ours))
        wanted = float(original.train(x, y))
        original.step.assign(i + 1)
        original.save(after)
        worst_loss = max(worst_loss, abs(loss - wanted) / abs(wanted))
        there, here = tensors(after), tensors(ours)
        assert not {n for n in there if not n.startswith('optimizer/')} - set(here)
        worst = max(worst, far(here, there))
    check_restored(original, ours, count)
    print(f'{kind} {backbone}: {count} steps, loss within {worst_loss:.1e}, weights and slots within {worst:.1e}')
    assert worst_loss <= 1e-5 and worst <= limit


def check_resized(driver, folder):
    """Positions of a checkpoint for smaller images, resized once: as the original, which resizes them at each step."""
    backbone = {'model_name': 'vit-ti16', 'pooler': 'gap'}
    _, config = prepare(folder, SGD, 'vit', backbone, size=48)
    small = Original(config)
    disturb(small.model)
    prefix = small.save(folder / 'small')
    _, config = prepare(folder, SGD, 'vit', {**backbone, 'pos_embed_shape': [3, 3]}, size=80)
    large = Original(config)
    large.checkpoint.restore(prefix)
    path, config = prepare(folder, SGD, 'vit', backbone, size=80)
    config['task']['init_checkpoint'] = prefix
    path.write_text(yaml.safe_dump(config))
    x = images(80)
    off = apart(answers(driver, folder, path, '-', x), large.model(x, training=False).numpy())
    print(f'vit: positions of 3 x 3 as 5 x 5, logits within {off:.1e}')
    assert off <= 1e-4


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        for backbone in ({}, {'model_id': 'MobileNetV1'}, {'model_id': 'MobileNetV3Small'},
                         {'model_id': 'MobileNetV3Large', 'filter_size_scale': 0.75},
                         {'model_id': 'MobileNetV3EdgeTPU'},
                         {'output_stride': 16, 'stochastic_depth_drop_rate': 0.2,
                          'flat_stochastic_depth_drop_rate': False}):
            check_logits(driver, folder, 'mobilenet', backbone, 64)
        for backbone in ({'multigrid': [1, 2, 4], 'stem_type': 'v1'},
                         {'output_stride': 8, 'se_ratio': 0.25, 'resnetd_shortcut': True,
                          'replace_stem_max_pool': True, 'stochastic_depth_drop_rate': 0.2}):
            check_logits(driver, folder, 'dilated_resnet', backbone, 64)
        for backbone in ({'representation_size': 32}, {'pooler': 'gap', 'layer_scale_init_value': 0.1},
                         {'init_stochastic_depth_rate': 0.1, 'original_init': False}):
            check_logits(driver, folder, 'vit', {'model_name': 'vit-ti16', **backbone}, 64)
        check_logits(driver, folder, 'vit', {'model_name': 'vit-s16', 'representation_size': 48}, 96,
                     add_head_batch_norm=True)
        check_steps(driver, folder, 'mobilenet', {'model_id': 'MobileNetV3Large', 'filter_size_scale': 0.5}, RMSPROP,
                    limit=1e-3)
        check_steps(driver, folder, 'vit', {'model_name': 'vit-ti16', 'representation_size': 24,
                                            'layer_scale_init_value': 0.1}, DECAY)
        check_steps(driver, folder, 'vit', {'model_name': 'vit-ti16', 'pooler': 'gap'}, ADAMW)
        check_resized(driver, folder)


if __name__ == '__main__':
    main()
