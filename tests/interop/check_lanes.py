"""Two lanes of ours beside two replicas of Model Garden: MirroredStrategy on two devices, which are one CPU.

Each replica takes its half of a batch and has its own batch statistics; from each of Model Garden's checkpoints ours
takes the step that Model Garden took.
"""
import os
import pathlib
import sys
import tempfile

from model_garden import compare_steps, configuration, run, under_its_python

under_its_python(__file__)

import numpy as np
import tensorflow as tf
import tf_keras
import yaml
from official.core import exp_factory, task_factory, train_lib
from official.modeling.hyperparams import params_dict
from official.vision import registry_imports  # pylint: disable=unused-import
from pictures import write_records

TILTH = os.environ['TILTH']
STEPS = 21
OPTIMIZATIONS = {
    'momentum': {'optimizer': {'type': 'sgd', 'sgd': {'momentum': 0.9}}},
    # Its own clipping is of each replica's gradients.
    'adamw': {'optimizer': {'type': 'adamw', 'adamw': {'weight_decay_rate': 0.01, 'gradient_clip_norm': 0.5}}}}


def two_cpus():
    cpus = tf.config.list_physical_devices('CPU')
    tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])


def theirs(strategy, config, folder):
    params = params_dict.override_params_dict(exp_factory.get_exp_config('image_classification'), config, is_strict=True)
    params.runtime.distribution_strategy = 'mirrored'
    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=str(folder))
    train_lib.run_experiment(distribution_strategy=strategy, task=task, mode='train', params=params, model_dir=str(folder))


def main():
    tf_keras.utils.set_random_seed(1)
    strategy = two_cpus()
    assert strategy.num_replicas_in_sync == 2
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        write_records(root / 'train.tfrecord', np.random.default_rng(1), 32)  # all of them are a batch
        for kind, optimization in OPTIMIZATIONS.items():
            folder = root / kind
            folder.mkdir()
            optimization['learning_rate'] = {'type': 'constant', 'constant': {'learning_rate': 0.002}}
            data = {'aug_rand_hflip': False, 'aug_crop': False, 'shuffle_buffer_size': 1, 'cycle_length': 1,
                    'input_path': f'{root}/train.tfrecord', 'center_crop_fraction': 1.0}
            _, config = configuration(folder, optimization, {'model_id': 18}, {'train_data': data}, STEPS)
            config['task']['model']['norm_activation']['use_sync_bn'] = False
            config['trainer'].update(steps_per_loop=1, summary_interval=1, checkpoint_interval=1, max_to_keep=STEPS)
            theirs(strategy, config, folder / 'theirs')

            def ours(where, step):
                config['trainer']['train_steps'] = step
                path = folder / 'ours.yaml'
                path.write_text(yaml.safe_dump(config))
                run(TILTH, 'train', '--experiment=image_classification', '--mode=train', f'--model_dir={where}',
                    f'--config_file={path}', 'tilth.lanes=2')

            compare_steps(kind, folder, folder / 'theirs', ['train'], range(2, STEPS + 1), ours)


if __name__ == '__main__':
    sys.exit(main())
