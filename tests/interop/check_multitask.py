"""Multi-task training beside Model Garden's own: two tasks of image classification on one ResNet.

Model Garden makes the model and takes the first step; from that checkpoint both go on, on the same pictures, with tasks
that they draw themselves or jointly. Both write the same metrics in folders of the same names. From each of Model Garden's
checkpoints ours takes the step that Model Garden took: both tell the same loss, and change the weights alike. A run of
its own is compared more loosely: where what goes into a relu is as close to zero as what is rounded, one of the two lets
a gradient through, and the runs part.
"""
import os
import pathlib
import shutil
import sys
import tempfile

from model_garden import compare_steps, run, run_and_log, scalars, under_its_python

under_its_python(__file__)

import numpy as np
import tensorflow as tf
import tf_keras
import yaml
from official.modeling.hyperparams import params_dict
from official.modeling.multitask import base_model, configs, multitask, train_lib
from official.vision.configs import image_classification
from official.vision.modeling import backbones, factory
from official.vision import registry_imports  # pylint: disable=unused-import
from pictures import picture

TILTH = os.environ['TILTH']
STEPS, SIZE, BATCH, DECAY = 21, 32, 16, 1e-4
TASKS = {'direction': 10, 'steepness': 5}  # and their classes


def write(path, rng, count, classes):
    """Pictures of one size, without losses: nothing is left to the decoder."""
    with tf.io.TFRecordWriter(str(path)) as out:
        for _ in range(count):
            label = int(rng.integers(classes))
            encoded = tf.io.encode_png(picture(rng, label * 10 // classes, SIZE)).numpy()
            out.write(tf.train.Example(features=tf.train.Features(feature={
                'image/encoded': tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
                'image/class/label': tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))})).SerializeToString())


def routine(folder, name, kind):
    """Not augmented: both see the same batches. Joint steps of the original cannot do with labels that are to become
    vectors."""
    data = {'global_batch_size': BATCH, 'aug_rand_hflip': False, 'aug_crop': False, 'shuffle_buffer_size': 1,
            'decode_jpeg_only': False, 'cycle_length': 1, 'file_type': 'tfrecord', 'center_crop_fraction': 1.0}
    return {'task_name': name, 'task_weight': 2.0 if name == 'direction' else 1.0, 'task_config': {
        'model': {'num_classes': TASKS[name], 'input_size': [SIZE, SIZE, 3],
                  'backbone': {'type': 'resnet', 'resnet': {'model_id': 10}},
                  'norm_activation': {'norm_momentum': 0.9, 'norm_epsilon': 1e-5, 'use_sync_bn': False}},
        'losses': {'l2_weight_decay': DECAY, **({'one_hot': False} if kind == 'joint' else {'label_smoothing': 0.1})},
        'evaluation': {'top_k': 3},
        'train_data': {**data, 'input_path': f'{folder}/{name}.tfrecord', 'is_training': True},
        'validation_data': {**data, 'input_path': f'{folder}/{name}.val.tfrecord', 'is_training': False}}}


def configuration(folder, kind, steps):
    return {
        'runtime': {'distribution_strategy': 'one_device'},
        'task': {'task_routines': [routine(folder, name, kind) for name in TASKS]},
        'trainer': {'trainer_type': kind, 'train_steps': steps, 'steps_per_loop': 1, 'summary_interval': 1,
                    'checkpoint_interval': 1, 'max_to_keep': STEPS, 'validation_interval': steps, 'validation_steps': 3,
                    'best_checkpoint_export_subdir': 'best', 'best_checkpoint_eval_metric': 'steepness|accuracy',
                    'optimizer_config': {'optimizer': {'type': 'sgd', 'sgd': {'momentum': 0.9}},
                                         'learning_rate': {'type': 'constant', 'constant': {'learning_rate': 0.005}}}}}


class Shared(base_model.MultiTaskBaseModel):
    """One backbone, and a model of Model Garden's for each task on it."""

    def __init__(self, params):
        self._params = params
        super().__init__()

    def _instantiate_sub_tasks(self):
        specs = tf_keras.layers.InputSpec(shape=[None, SIZE, SIZE, 3])
        decay = tf_keras.regularizers.l2(DECAY / 2)
        models = {r.task_name: r.task_config.model for r in self._params.task.task_routines}
        first = next(iter(models.values()))
        backbone = backbones.factory.build_backbone(input_specs=specs, backbone_config=first.backbone,
                                                    norm_activation_config=first.norm_activation, l2_regularizer=decay)
        return {name: factory.build_classification_model(specs, model, decay, backbone=backbone)
                for name, model in models.items()}


def theirs(config, mode, folder):
    params = configs.MultiTaskExperimentConfig(task=configs.MultiTaskConfig(task_routines=tuple(
        configs.TaskRoutine(task_name=name, task_config=image_classification.ImageClassificationTask()) for name in TASKS)))
    params = params_dict.override_params_dict(params, config, is_strict=True)
    strategy = tf.distribute.OneDeviceStrategy('/cpu:0')
    with strategy.scope():
        task = multitask.MultiTask.from_config(params.task)
        model = Shared(params)
    train_lib.run_experiment(distribution_strategy=strategy, task=task, model=model, mode=mode, params=params,
                             model_dir=str(folder))


def ours(config, mode, folder):
    first = config['task']['task_routines'][0]['task_config']['model']
    config['task']['model'] = {'input_size': [SIZE, SIZE, 3], 'l2_weight_decay': DECAY, 'backbone': first['backbone'],
                               'norm_activation': first['norm_activation']}
    for one in config['task']['task_routines']:  # what multitask/local has for its own pictures
        for data in 'train_data', 'validation_data':
            one['task_config'][data].update(mean=[], stddev=[])
    path = folder.parent / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return run_and_log(TILTH, 'train', '--experiment=multitask/local', f'--mode={mode}', f'--model_dir={folder}',
                       f'--config_file={path}')


def folders(root):
    return {str(p.parent.relative_to(root)) for p in root.glob('**/events.*')}


def allowed(part, tag):
    """In evaluations a picture may lie between two classes."""
    if 'loss' in tag:
        return 2e-3
    return 1.01 / (3 * BATCH) if part.startswith('validation') else 1e-6


def compare(kind, here, there):
    parts = folders(there)
    assert parts <= folders(here), (parts, folders(here))
    worst = 0
    for part in sorted(parts - {'train', 'validation'}):
        mine, wanted = scalars(here / part), scalars(there / part)
        assert set(mine) == set(wanted), (part, set(mine) ^ set(wanted))
        for tag, values in wanted.items():
            for step, value in values.items():
                if part.startswith('train') and step == 1:
                    continue  # it was taken over
                apart = abs(mine[tag][step] - value)
                assert apart <= allowed(part, tag) * max(1, abs(value)), (part, tag, step, mine[tag][step], value)
                worst = max(worst, apart / max(1, abs(value)))
    print(f'{kind}: {len(parts)} folders of event files, {STEPS - 1} steps and an evaluation, apart by {worst:.1e} at most')
    mine, wanted = scalars(here / 'train'), scalars(there / 'train')
    assert set(wanted) <= set(mine), set(wanted) - set(mine)


def compare_evaluations(kind, here, back):
    """Our checkpoint, evaluated by both."""
    worst = 0
    for task in TASKS:
        mine, wanted = scalars(here / 'validation' / task), scalars(back / 'validation' / task)
        assert set(mine) == set(wanted), (task, set(mine) ^ set(wanted))
        worst = max([worst, *(abs(mine[tag][STEPS] - value[STEPS]) for tag, value in wanted.items())])
    assert worst <= 2e-5, worst
    print(f'{kind}: our checkpoint, evaluated by ours and by theirs, apart by {worst:.1e} at most')


def main():
    tf_keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rng = np.random.default_rng(1)
        for task, classes in TASKS.items():
            write(folder / f'{task}.tfrecord', rng, BATCH, classes)  # a batch is all of them, in whatever order
            write(folder / f'{task}.val.tfrecord', rng, 3 * BATCH, classes)
        for kind in 'interleaving', 'joint':
            there, here = folder / kind / 'theirs', folder / kind / 'ours'
            theirs(configuration(folder, kind, 1), 'train', there)
            here.mkdir()
            for file in [*there.glob('ckpt-1.*'), there / 'checkpoint']:
                shutil.copy(file, here)
            shutil.rmtree(there / 'train')
            theirs(configuration(folder, kind, STEPS), 'train_and_eval', there)
            said, _ = ours(configuration(folder, kind, STEPS), 'train_and_eval', here)
            assert f'restored model from {here}/ckpt-1.' in said, said
            compare(kind, here, there)
            compare_steps(kind, folder / kind, there, sorted(part for part in folders(there) if part.startswith('train/')),
                          range(2, STEPS + 1),
                          lambda where, step: ours(configuration(folder, kind, step), 'train', where))

            back = folder / kind / 'back'
            run(TILTH, 'ckpt', 'convert', here / f'ckpt-{STEPS}.safetensors', back / f'ckpt-{STEPS}')
            theirs(configuration(folder, kind, STEPS), 'eval', back)
            compare_evaluations(kind, here, back)


if __name__ == '__main__':
    sys.exit(main())
