"""Model Garden's models and steps beside ours, from the same checkpoints and on the same batches."""
import pathlib
import tempfile

from driver import compile_driver
from model_garden import configuration, run, under_its_python

under_its_python(__file__)

import numpy as np
import tensorflow as tf
import yaml
from official.common import registry_imports  # pylint: disable=unused-import
from official.core import exp_factory, task_factory
from official.modeling import hyperparams
from pictures import CLASSES, SIZE, picture
from safetensors.numpy import load_file, save_file

BATCH, STEPS = 32, 20
VALUE = '/.ATTRIBUTES/VARIABLE_VALUE'
rng = np.random.default_rng(0)


def batches(count):
    for _ in range(count):
        labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
        pixels = np.stack([picture(rng, label, SIZE) for label in labels]).astype(np.float32)
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


# --- the checks ----------------------------------------------------------------------------------------

def check_restored(original, prefix, steps):
    """The original takes everything from a checkpoint of ours: weights, slots, averages and both counters."""
    for variable in [*original.model.variables, *original.optimizer.variables(), original.step]:
        variable.assign(tf.zeros_like(variable))
    original.checkpoint.restore(str(prefix))
    original.save(prefix.with_name('restored'))
    here, there = tensors(prefix.with_name('restored')), tensors(prefix)
    assert all(np.array_equal(here[name], there[name]) for name in there)
    assert original.step.numpy() == original.optimizer.iterations.numpy() - 1 == steps  # the first was not counted


def check_steps(driver, folder, name, optimization, count=STEPS, changes=None, labels=lambda y: y, **backbone):
    """Each step of ours starts from the original's state before that step.

    All of it is smooth, without relu or max pooling: where two numbers are equal but for roundings, these give the
    gradient to the one or to the other.
    """
    changes = {'model': {'norm_activation': {'activation': 'swish'}}, **(changes or {})}
    path, config = configuration(folder, optimization, {'model_id': 18, 'stem_type': 'v1',
                                                        'replace_stem_max_pool': True, **backbone}, changes)
    original = Original(config)
    worst_loss = worst = 0
    for i, (x, y) in enumerate(batches(count)):
        y = labels(y)
        before, ours = folder / f'{name}-before', folder / f'{name}-ours'
        if i == 0:  # slots are made by the first step; it is not compared
            original.train(x, y)
        original.step.assign(i)
        original.save(before)
        save_file({'image': x, 'label': y}, folder / 'batch.safetensors')
        loss = float(run(driver, 'step', 'image_classification', path, before, folder / 'batch.safetensors', ours))
        wanted = float(original.train(x, y))
        original.step.assign(i + 1)
        original.save(folder / f'{name}-after')
        worst_loss = max(worst_loss, abs(loss - wanted) / abs(wanted))
        there, here = tensors(folder / f'{name}-after'), tensors(ours)
        missing = {n for n in there if not n.startswith('optimizer/')} - set(here)
        assert not missing, sorted(missing)[:5]
        worst = max(worst, far(here, there))
    check_restored(original, ours, count)
    print(f'{name}: {count} steps, loss within {worst_loss:.1e}, weights and slots within {worst:.1e}')
    assert worst_loss <= 1e-5 and worst <= 1e-5


def check_loss_scale(driver, folder):
    """A scale that Model Garden has found is gone on with."""
    path, config = configuration(folder, SGD, {'model_id': 10, 'depth_multiplier': 0.25})
    config['runtime'].update(mixed_precision_dtype='float16', loss_scale='dynamic')
    path.write_text(yaml.safe_dump(config))
    original = Original(config)
    original.optimizer.inner_optimizer._create_all_weights(original.model.trainable_variables)
    scale = original.optimizer._loss_scale
    scale.current_loss_scale.assign(256)
    scale.counter.assign(7)
    x, y = next(batches(1))
    save_file({'image': x, 'label': y}, folder / 'batch.safetensors')
    run(driver, 'step', 'image_classification', path, original.save(folder / 'scaled'), folder / 'batch.safetensors', folder / 'scaled-ours')
    original.checkpoint.restore(str(folder / 'scaled-ours'))
    assert (scale.current_loss_scale.numpy(), scale.counter.numpy()) == (256, 8)
    print('float16: the loss scale goes on')


def check_logits(driver, folder, backbone, changes=None):
    path, config = configuration(folder, SGD, backbone, changes)
    original = Original(config)
    for variable in original.model.variables:  # statistics and shifts that are not what they start as
        noise = rng.normal(1, 0.1, variable.shape).astype(np.float32)
        variable.assign(variable * noise + 0.01 * rng.normal(0, 1, variable.shape))
        if 'variance' in variable.name:
            variable.assign(tf.abs(variable) + 0.1)
    prefix = original.save(folder / 'logits')
    x, y = next(batches(1))
    save_file({'image': x, 'label': y}, folder / 'batch.safetensors')
    run(driver, 'answers', 'image_classification', path, prefix, folder / 'batch.safetensors', folder / 'out.safetensors')
    wanted = original.model(x, training=False).numpy()
    found = load_file(folder / 'out.safetensors')['y']
    off = float(np.abs(found - wanted).max() / max(1, np.abs(wanted).max()))
    print(f"{backbone} {changes or ''}: logits within {off:.1e}")
    assert off <= 1e-4


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        for backbone in ({'model_id': 10}, {'model_id': 50, 'depth_multiplier': 0.5},
                         {'model_id': 50, 'depth_multiplier': 0.25, 'stem_type': 'v1', 'se_ratio': 0.25,
                          'resnetd_shortcut': True, 'replace_stem_max_pool': True, 'scale_stem': False},
                         {'model_id': 26, 'depth_multiplier': 0.25,
                          'stochastic_depth_drop_rate': 0.2, 'bn_trainable': False}):
            check_logits(driver, folder, backbone)
        check_logits(driver, folder, {'model_id': 18, 'depth_multiplier': 0.25},
                     {'model': {'add_head_batch_norm': True, 'dropout_rate': 0.3,
                                'norm_activation': {'activation': 'gelu', 'norm_epsilon': 1e-3}}})
        check_steps(driver, folder, 'sgd', SGD)
        check_steps(driver, folder, 'adamw', ADAMW)
        check_steps(driver, folder, 'averaged', AVERAGED)
        check_loss_scale(driver, folder)
        small = {'model_id': 10, 'depth_multiplier': 0.25}
        plain = {'one_hot': False, 'label_smoothing': 0.0}
        check_steps(driver, folder, 'sparse labels', SGD, 2, {'losses': plain}, **small)
        check_steps(driver, folder, 'binary cross entropy', SGD, 2,
                    {'losses': {**plain, 'use_binary_cross_entropy': True}, 'train_data': {'mixup_and_cutmix': {}}},
                    lambda y: rng.dirichlet(np.full(CLASSES, 0.01), len(y)).astype(np.float32), **small)
        check_steps(driver, folder, 'soft labels', SGD, 2,
                    {'losses': {**plain, 'soft_labels': True, 'loss_weight': 2.0}},
                    lambda y: rng.dirichlet(np.ones(CLASSES), len(y)).astype(np.float32), **small)


if __name__ == '__main__':
    main()
