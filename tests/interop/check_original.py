"""Model Garden itself beside Tilth, on the same records, configuration and checkpoints.

It needs TensorFlow and tf-models-official, which live in an environment of their own (requirements-original.txt), and
runs itself again with that one's Python.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parent.parent / '.venv-tf/bin/python'

if pathlib.Path(sys.prefix).name != '.venv-tf':
    if not PYTHON.exists():
        print('SKIPPED: Model Garden is not installed; `./build.sh interop original` does that')
        sys.exit(0)
    os.environ.update(TF_USE_LEGACY_KERAS='1', TF_CPP_MIN_LOG_LEVEL='3', CUDA_VISIBLE_DEVICES='')
    os.execv(PYTHON, [str(PYTHON), __file__])

import numpy as np
import tensorflow as tf
import yaml
from official.common import registry_imports  # pylint: disable=unused-import
from official.core import exp_factory, task_factory, train_utils
from official.modeling import hyperparams
from safetensors.numpy import load_file, save_file

from driver import compile_driver

TILTH = os.environ['TILTH']
SIZE, CLASSES, BATCH, STEPS = 32, 10, 32, 20
VALUE = '/.ATTRIBUTES/VARIABLE_VALUE'
rng = np.random.default_rng(0)


# --- data ----------------------------------------------------------------------------------------------

def picture(label, size):
    """Stripes that lean by the class, and noise."""
    y, x = np.mgrid[:size, :size]
    lean = np.pi * label / CLASSES
    wave = np.sin((x * np.cos(lean) + y * np.sin(lean)) * 2 * np.pi / 9 + rng.uniform(0, 2 * np.pi))
    return np.clip(128 + 50 * wave[..., None] * np.array([1, .5, -.7]) + rng.normal(0, 30, (size, size, 3)), 0,
                   255).astype(np.uint8)


def write_records(path, count):
    def feature(**kind):
        return tf.train.Feature(**kind)
    with tf.io.TFRecordWriter(str(path)) as out:
        for _ in range(count):
            label = int(rng.integers(CLASSES))
            encoded = tf.io.encode_jpeg(picture(label, int(rng.integers(SIZE, SIZE * 3 // 2))), quality=95).numpy()
            out.write(tf.train.Example(features=tf.train.Features(feature={
                'image/encoded': feature(bytes_list=tf.train.BytesList(value=[encoded])),
                'image/class/label': feature(int64_list=tf.train.Int64List(value=[label]))})).SerializeToString())


def batches(count):
    for _ in range(count):
        labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
        pixels = np.stack([picture(label, SIZE) for label in labels]).astype(np.float32)
        yield ((pixels - 128) / 64).astype(np.float32), labels


# --- the two sides -------------------------------------------------------------------------------------

SGD = {'optimizer': {'type': 'sgd', 'sgd': {'momentum': 0.9}},
       'learning_rate': {'type': 'stepwise', 'stepwise': {'boundaries': [12], 'values': [0.05, 0.005]}},
       'warmup': {'type': 'linear', 'linear': {'warmup_steps': 5, 'warmup_learning_rate': 0.001}}}
ADAMW = {'optimizer': {'type': 'adamw', 'adamw': {'weight_decay_rate': 0.05, 'gradient_clip_norm': 1.0,
                                                  'exclude_from_weight_decay': ['bias', 'beta', 'gamma']}},
         'learning_rate': {'type': 'cosine', 'cosine': {'initial_learning_rate': 0.002, 'decay_steps': 20}},
         'warmup': {'type': 'polynomial', 'polynomial': {'warmup_steps': 4, 'power': 1}}}
AVERAGED = {**SGD, 'ema': {'average_decay': 0.9, 'trainable_weights_only': False}}


def configuration(folder, optimization, backbone, activation='relu'):
    """What both read; the file is Model Garden's own words."""
    config = {
        'runtime': {'distribution_strategy': 'one_device', 'mixed_precision_dtype': 'float32'},
        'task': {
            'model': {'num_classes': CLASSES, 'input_size': [SIZE, SIZE, 3],
                      'backbone': {'type': 'resnet', 'resnet': backbone},
                      'norm_activation': {'activation': activation, 'norm_momentum': 0.9, 'norm_epsilon': 1e-5}},
            'losses': {'l2_weight_decay': 1e-4, 'label_smoothing': 0.1},
            'train_data': {'input_path': f'{folder}/train.tfrecord', 'global_batch_size': BATCH},
            'validation_data': {'input_path': f'{folder}/val.tfrecord', 'global_batch_size': 50,
                                'is_training': False, 'drop_remainder': False}},
        'trainer': {'train_steps': STEPS, 'steps_per_loop': 10, 'summary_interval': 10, 'checkpoint_interval': 10,
                    'validation_interval': 20, 'validation_steps': -1, 'optimizer_config': optimization}}
    path = folder / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return path, config


class Original:
    """Task, model and optimizer as Model Garden's own trainer makes them."""

    def __init__(self, config):
        params = exp_factory.get_exp_config('image_classification')
        params = hyperparams.override_params_dict(params, config, is_strict=True)
        self.params, self.task = params, task_factory.get_task(params.task, logging_dir=None)
        self.model = self.task.build_model()
        self.optimizer = self.task.create_optimizer(params.trainer.optimizer_config, params.runtime)
        if hasattr(self.optimizer, 'shadow_copy'):  # as its trainer does
            self.optimizer.shadow_copy(self.model)
        self.step = tf.Variable(0, dtype=tf.int64, name='global_step')
        self.checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.optimizer, global_step=self.step,
                                              **self.model.checkpoint_items)
        self.train = tf.function(lambda x, y: self.task.train_step((x, y), self.model, self.optimizer, [])['loss'])

    def save(self, prefix):
        return self.checkpoint.write(str(prefix))


def tensors(prefix):
    """Weights and slots of a checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name.replace(VALUE, ''): reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
            if name.endswith(VALUE) and reader.get_variable_to_dtype_map()[name] == tf.float32}


def far(here, there):
    """How far tensors are from each other, by norm: all weights as one vector, and all slots of a name."""
    groups = {}
    for key, value in here.items():
        off, norm = groups.setdefault(key.partition('/.OPTIMIZER_SLOT/')[2], [0, 0])
        groups[key.partition('/.OPTIMIZER_SLOT/')[2]] = [off + float(np.sum((value.astype(np.float64) - there[key]) ** 2)),
                                                         norm + float(np.sum(there[key].astype(np.float64) ** 2))]
    return max((off / norm) ** 0.5 if norm else float(off > 0) for off, norm in groups.values())


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- the checks ----------------------------------------------------------------------------------------

def check_steps(driver, folder, name, optimization):
    """Each step of ours starts from the original's state before that step.

    All of it is smooth, without relu or max pooling: where two numbers are equal but for roundings, these give the
    gradient to the one or to the other.
    """
    backbone = {'model_id': 18, 'stem_type': 'v1', 'replace_stem_max_pool': True}
    path, config = configuration(folder, optimization, backbone, 'swish')
    original = Original(config)
    worst_loss = worst = 0
    for i, (x, y) in enumerate(batches(STEPS)):
        before, ours = folder / f'{name}-before', folder / f'{name}-ours'
        if i == 0:  # slots are made by the first step; it is not compared
            original.train(x, y)
        original.step.assign(i)
        original.save(before)
        save_file({'image': x, 'label': y}, folder / 'batch.safetensors')
        loss = float(run(driver, 'step', path, before, folder / 'batch.safetensors', ours))
        wanted = float(original.train(x, y))
        original.step.assign(i + 1)
        original.save(folder / f'{name}-after')
        worst_loss = max(worst_loss, abs(loss - wanted) / abs(wanted))
        there, here = tensors(folder / f'{name}-after'), tensors(ours)
        missing = {n for n in there if not n.startswith('optimizer/')} - set(here)
        assert not missing, sorted(missing)[:5]
        worst = max(worst, far(here, there))
    print(f'{name}: {STEPS} steps, loss within {worst_loss:.1e}, weights and slots within {worst:.1e}')
    assert worst_loss <= 1e-5 and worst <= 1e-5


def check_logits(driver, folder, backbone):
    path, config = configuration(folder, SGD, backbone)
    original = Original(config)
    for variable in original.model.variables:  # statistics and shifts that are not what they start as
        noise = rng.normal(1, 0.1, variable.shape).astype(np.float32)
        variable.assign(variable * noise + 0.01 * rng.normal(0, 1, variable.shape))
        if 'variance' in variable.name:
            variable.assign(tf.abs(variable) + 0.1)
    prefix = original.save(folder / 'logits')
    x, y = next(batches(1))
    save_file({'image': x, 'label': y}, folder / 'batch.safetensors')
    run(driver, 'logits', path, prefix, folder / 'batch.safetensors', folder / 'out.safetensors')
    wanted = original.model(x, training=False).numpy()
    found = load_file(folder / 'out.safetensors')['logits']
    off = float(np.abs(found - wanted).max() / max(1, np.abs(wanted).max()))
    print(f'{backbone}: logits within {off:.1e}')
    assert off <= 1e-4


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        for backbone in ({'model_id': 10}, {'model_id': 50, 'depth_multiplier': 0.5},
                         {'model_id': 50, 'depth_multiplier': 0.25, 'stem_type': 'v1', 'se_ratio': 0.25,
                          'resnetd_shortcut': True, 'replace_stem_max_pool': True, 'scale_stem': False}):
            check_logits(driver, folder, backbone)
        check_steps(driver, folder, 'sgd', SGD)
        check_steps(driver, folder, 'adamw', ADAMW)
        check_steps(driver, folder, 'averaged', AVERAGED)


if __name__ == '__main__':
    main()
