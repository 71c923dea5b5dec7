"""Detectors and segmenters of Model Garden beside ours: outputs, losses and steps from the same checkpoints and on the
same batches, and detections."""
import os
import pathlib
import tempfile

from driver import compile_driver
from model_garden import put, run, under_its_python

under_its_python(__file__)

import numpy as np
import tensorflow as tf
import yaml
from official.common import registry_imports  # pylint: disable=unused-import
from official.core import exp_factory, task_factory
from official.modeling import hyperparams
from official.vision.ops import anchor
from safetensors.numpy import load_file, save_file

BATCH, STEPS, OBJECTS = 2, 10, 8
VALUE = '/.ATTRIBUTES/VARIABLE_VALUE'
rng = np.random.default_rng(7)
SGD = {'optimizer': {'type': 'sgd', 'sgd': {'momentum': 0.9}},
       'learning_rate': {'type': 'stepwise', 'stepwise': {'boundaries': [6], 'values': [0.01, 0.001]}},
       'warmup': {'type': 'linear', 'linear': {'warmup_steps': 3, 'warmup_learning_rate': 0.001}}}
SMOOTH = {'activation': 'swish', 'norm_momentum': 0.9, 'norm_epsilon': 1e-3, 'use_sync_bn': False}


class Original:
    """Task, model and optimizer as Model Garden's own trainer makes them."""

    def __init__(self, experiment, config):
        global rng  # each case has the same weights and batches, whether others ran before or not
        rng = np.random.default_rng(7)
        tf.keras.utils.set_random_seed(7)
        params = exp_factory.get_exp_config(experiment)
        self.params = hyperparams.override_params_dict(params, config, is_strict=True)
        self.task = task_factory.get_task(self.params.task, logging_dir=None)
        self.model = self.task.build_model()
        self.optimizer = self.task.create_optimizer(self.params.trainer.optimizer_config, self.params.runtime)
        self.step = tf.Variable(0, dtype=tf.int64, name='global_step')
        items = {k: v for k, v in self.model.checkpoint_items.items() if v is not None}
        self.checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.optimizer, global_step=self.step, **items)
        self.train = tf.function(lambda x, y: self.task.train_step((x, y), self.model, self.optimizer, [])['loss'])

    def save(self, prefix):
        return self.checkpoint.write(str(prefix))

    def stir(self):
        """Weights and statistics that are not what they start as."""
        for variable in self.model.variables:
            noise = rng.normal(1, 0.1, variable.shape).astype(np.float32)
            variable.assign(variable * noise + 0.01 * rng.normal(0, 1, variable.shape))
            if 'variance' in variable.name:
                variable.assign(tf.abs(variable) + 0.1)


def configuration(folder, changes):
    """What both read."""
    config = {'runtime': {'distribution_strategy': 'one_device', 'mixed_precision_dtype': 'float32'},
              'task': {'train_data': {'global_batch_size': BATCH, 'dtype': 'float32'},
                       'validation_data': {'global_batch_size': BATCH, 'dtype': 'float32'}},
              'trainer': {'train_steps': STEPS, 'steps_per_loop': 1, 'summary_interval': 1, 'checkpoint_interval': STEPS,
                          'validation_interval': STEPS, 'optimizer_config': SGD}}
    put(config['task'], changes)
    path = folder / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return path, config


def tensors(prefix):
    """Weights and slots of a checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name.replace(VALUE, ''): reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
            if name.endswith(VALUE) and reader.get_variable_to_dtype_map()[name] == tf.float32}


def far(here, there):
    """By norm: all weights as one vector, and all slots of a name, of which the worst."""
    groups = {}
    for key, value in here.items():
        group = groups.setdefault(key.partition('/.OPTIMIZER_SLOT/')[2], [0, 0])
        group[0] += float(np.sum((value.astype(np.float64) - there[key]) ** 2))
        group[1] += float(np.sum(there[key].astype(np.float64) ** 2))
    off = {name: (off / norm) ** 0.5 if norm else float(off > 0) for name, (off, norm) in groups.items()}
    return off.pop(''), max(off.values())


def off_by(found, wanted):
    return float(np.abs(found - wanted).max() / max(1, np.abs(wanted).max()))


def check_steps(driver, folder, name, experiment, path, original, batches, slots=1e-5, weights=1e-5):
    """Each step of ours starts from the original's state before that step.

    Slots are sums of gradients. Where these nearly cancel (many layers, few pixels, labels at random) roundings show, and
    where activations have corners (relu6 of MobileNets) equal numbers may have the one slope or the other: `slots`. Where maxima
    are taken of whole maps (NAS-FPN) another place may be the largest, and the original's own gradients move by up to 0.03
    when images change by 1e-7: `weights` too.
    """
    worst_loss, worst, worst_slots = 0, 0, 0
    for i, (ours, (x, y)) in enumerate(batches):
        before, after = folder / 'before', folder / 'ours'
        if i == 0:  # slots are made by the first step; it is not compared
            original.train(x, y)
        original.step.assign(i)
        original.save(before)
        save_file(ours, folder / 'batch.safetensors')
        loss = float(run(driver, 'step', experiment, path, before, folder / 'batch.safetensors', after))
        wanted = float(original.train(x, y))
        original.step.assign(i + 1)
        original.save(folder / 'after')
        worst_loss = max(worst_loss, abs(loss - wanted) / abs(wanted))
        there, here = tensors(folder / 'after'), tensors(after)
        missing = {n for n in there if not n.startswith(('optimizer/', 'model/'))} - set(here)
        assert not missing, sorted(missing)[:5]
        off, others = far({n: v for n, v in here.items() if n in there}, there)
        worst, worst_slots = max(worst, off), max(worst_slots, others)
    for variable in original.model.variables:
        variable.assign(tf.zeros_like(variable))
    original.checkpoint.restore(str(after))  # the original takes everything from a checkpoint of ours
    original.save(folder / 'restored')
    here, there = tensors(folder / 'restored'), tensors(after)
    assert all(np.array_equal(here[n], there[n]) for n in there if n in here)
    print(f'{name}: {i + 1} steps, loss within {worst_loss:.1e}, weights within {worst:.1e}, slots within {worst_slots:.1e}')
    assert worst_loss <= 1e-5 and worst <= weights and worst_slots <= slots


# --- RetinaNet -----------------------------------------------------------------------------------------

def scenes(size, classes, count):
    """Images, and boxes with classes; what lies behind the last box is -1."""
    for _ in range(count):
        image = rng.normal(0, 1, (BATCH, size, size, 3)).astype(np.float32)
        boxes, kinds = np.full((BATCH, OBJECTS, 4), -1, np.float32), np.full((BATCH, OBJECTS), -1, np.int32)
        for b in range(BATCH):
            for k in range(rng.integers(1, OBJECTS)):
                side = rng.uniform(8, size / 2, 2)
                corner = rng.uniform(0, size - side)
                boxes[b, k] = [*corner, *(corner + side)]
                kinds[b, k] = rng.integers(1, classes)
        yield image, boxes, kinds


def labels_of(params, boxes, kinds, sizes):
    """As its parser makes them."""
    model, parser = params.task.model, params.task.train_data.parser
    size = model.input_size[:2]
    made = anchor.Anchor(model.min_level, model.max_level, model.anchor.num_scales, model.anchor.aspect_ratios,
                         model.anchor.anchor_size, size)
    labeler = anchor.AnchorLabeler(parser.match_threshold, parser.unmatched_threshold,
                                   model.detection_generator.box_coder_weights)
    each = []
    for b in range(BATCH):
        real = kinds[b] > 0
        attributes = {name: tf.constant(value[b][real]) for name, value in sizes.items()}
        targets = labeler.label_anchors(made.multilevel_boxes, tf.constant(boxes[b][real]),
                                        tf.constant(kinds[b][real][:, None]), attributes)
        each.append(dict(zip(('cls_targets', 'box_targets', 'attribute_targets', 'cls_weights', 'box_weights'), targets)))
    return tf.nest.map_structure(lambda *t: tf.stack(t), *each), made


def retinanet(driver, folder, name, model, data=None, steps=STEPS, loud=0.5, slots=1e-5, weights=1e-5):
    """`loud`: how far the head is from its first values; scores of 1 could not be told apart."""
    size, classes = model['input_size'][0], model['num_classes']
    heads = model.get('head', {}).get('attribute_heads', [])
    train = {'decoder': {'type': 'simple_decoder',
                         'simple_decoder': {'attribute_names': [h['name'] for h in heads]}}, **(data or {})}
    path, config = configuration(folder, {'model': {'norm_activation': SMOOTH, **model},
                                          'losses': {'l2_weight_decay': 1e-4}, 'train_data': train})
    original = Original('retinanet', config)
    info = np.tile(np.float32([[size, size], [size, size], [1, 1], [0, 0]]), (BATCH, 1, 1))

    def batch():
        image, boxes, kinds = next(scenes(size, classes, 1))
        values = {}
        for head in heads:
            shape = (BATCH, OBJECTS, head['size'] if head['type'] == 'regression' else 1)
            values[head['name']] = (rng.normal(0, 1, shape).astype(np.float32) if head['type'] == 'regression'
                                    else rng.integers(0, head['size'], shape).astype(np.float32))
        theirs = {k: (v.astype(np.int32) if next(h for h in heads if h['name'] == k)['type'] == 'classification' else v)
                  for k, v in values.items()}
        labels, made = labels_of(original.params, boxes, kinds, theirs)
        ours = {'image': image, 'boxes': boxes, 'classes': kinds, 'image_info': info,
                **{f'attribute/{k}': v for k, v in values.items()}}
        return ours, (image, labels), made

    first, (image, labels), made = batch()
    original.train(image, labels)  # makes the variables of its head
    original.stir()
    for variable in original.model.head.trainable_variables:  # so that something is found
        if len(variable.shape) == 4:
            variable.assign(variable + loud * rng.normal(0, 1, variable.shape))
    prefix = original.save(folder / 'state')
    save_file(first, folder / 'batch.safetensors')
    run(driver, 'answers', 'retinanet', path, prefix, folder / 'batch.safetensors', folder / 'out.safetensors')
    found = load_file(folder / 'out.safetensors')
    worst = 0
    outputs = original.model(image, image_shape=info[:, 1], training=False,
                             anchor_boxes={k: tf.tile(v[None], [BATCH, 1, 1, 1]) for k, v in made.multilevel_boxes.items()})
    for what in ('cls_outputs', 'box_outputs'):
        for level, value in outputs[what].items():
            worst = max(worst, off_by(found[f'{what}/{level}'], value.numpy()))
    for head in heads:
        for level, value in outputs['attribute_outputs'][head['name']].items():
            worst = max(worst, off_by(found[f"attribute_outputs/{head['name']}/{level}"], value.numpy()))
    print(f'{name}: outputs within {worst:.1e}')
    assert worst <= 1e-4
    run(driver, 'detect', 'retinanet', path, prefix, folder / 'batch.safetensors', folder / 'out.safetensors')
    found = load_file(folder / 'out.safetensors')
    assert np.array_equal(found['num_detections'], outputs['num_detections'].numpy()), name
    assert np.array_equal(found['detection_classes'], outputs['detection_classes'].numpy()), name
    boxes = off_by(found['detection_boxes'], outputs['detection_boxes'].numpy())
    scores = off_by(found['detection_scores'], outputs['detection_scores'].numpy())
    print(f"{name}: {int(found['num_detections'].sum())} detections, boxes within {boxes:.1e}, scores within {scores:.1e}")
    assert boxes <= 1e-4 and scores <= 1e-4
    check_steps(driver, folder, name, 'retinanet', path, original, ((lambda b: (b[0], b[1]))(batch()) for _ in range(steps)),
                slots, weights)


# --- segmentation --------------------------------------------------------------------------------------

def segmentation(driver, folder, name, model, losses=None, steps=STEPS, size=64, slots=1e-5, weights=1e-5):
    classes = model['num_classes']
    path, config = configuration(folder, {
        'model': {'input_size': [size, size, 3], 'norm_activation': SMOOTH, **model},
        'losses': {'l2_weight_decay': 1e-4, **(losses or {})},
        'train_data': {'output_size': [size, size]}, 'validation_data': {'output_size': [size, size]}})
    original = Original('semantic_segmentation', config)
    info = np.tile(np.float32([[size, size], [size, size], [1, 1], [0, 0]]), (BATCH, 1, 1))

    def batch():
        image = rng.normal(0, 1, (BATCH, size, size, 3)).astype(np.float32)
        masks = rng.integers(0, classes + 1, (BATCH, size, size, 1)).astype(np.float32)
        masks[masks == classes] = 255
        ours = {'image': image, 'masks': masks, 'image_info': info}
        return ours, (image, {'masks': masks, 'valid_masks': masks != 255, 'image_info': info})

    ours, (image, labels) = batch()
    original.train(image, labels)
    original.stir()
    for variable in original.model.head.trainable_variables:
        if len(variable.shape) == 4:
            variable.assign(variable + 0.2 * rng.normal(0, 1, variable.shape))
    prefix = original.save(folder / 'state')
    save_file(ours, folder / 'batch.safetensors')
    run(driver, 'answers', 'semantic_segmentation', path, prefix, folder / 'batch.safetensors', folder / 'out.safetensors')
    worst = off_by(load_file(folder / 'out.safetensors')['logits'], original.model(image, training=False)['logits'].numpy())
    print(f'{name}: logits within {worst:.1e}')
    assert worst <= 1e-4
    check_steps(driver, folder, name, 'semantic_segmentation', path, original, (batch() for _ in range(steps)), slots,
                weights)


def resnet(**more):
    return {'type': 'resnet', 'resnet': {'model_id': 10, 'depth_multiplier': 0.25, 'stem_type': 'v1',
                                         'replace_stem_max_pool': True, **more}}


def main():
    base = {'num_classes': 5, 'input_size': [64, 64, 3], 'min_level': 3, 'max_level': 5, 'backbone': resnet(),
            'decoder': {'type': 'fpn', 'fpn': {'num_filters': 16}}, 'head': {'num_convs': 2, 'num_filters': 16},
            'anchor': {'num_scales': 2, 'anchor_size': 3.0}}
    heads = [{'name': 'size', 'type': 'regression', 'size': 2}, {'name': 'kind', 'type': 'classification', 'size': 4}]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        retinanet(driver, folder, 'retinanet', base)
        retinanet(driver, folder, 'levels 3 to 7', {**base, 'input_size': [128, 128, 3], 'max_level': 7}, steps=2, loud=0.25)
        retinanet(driver, folder, 'separable, concat, each level its own', {
            **base, 'decoder': {'type': 'fpn', 'fpn': {'num_filters': 16, 'fusion_type': 'concat', 'use_separable_conv': True}},
            'head': {'num_convs': 1, 'num_filters': 16, 'use_separable_conv': True, 'share_level_convs': False}}, steps=2)
        retinanet(driver, folder, 'attributes', {
            **base, 'detection_generator': {'nms_version': 'v1'},
            'head': {'num_convs': 1, 'num_filters': 16, 'attribute_heads': heads}}, steps=2)
        retinanet(driver, folder, 'identity, batched, box weights', {
            **base, 'decoder': {'type': 'identity'}, 'head': {'num_convs': 1, 'num_filters': 16, 'share_level_convs': False},
            'detection_generator': {'nms_version': 'batched', 'box_coder_weights': [10.0, 10.0, 5.0, 5.0]}},
            {'parser': {'match_threshold': 0.6, 'unmatched_threshold': 0.4}}, steps=2)
        # of ResNet-18 a level has the pyramid's 256 channels already, and passes by
        for title, kind, more, loud in (
                ('NAS-FPN', resnet(), {'num_repeats': 2}, 0.2),
                ('NAS-FPN, separable', resnet(model_id=18, depth_multiplier=1.0),
                 {'num_repeats': 1, 'use_separable_conv': True}, 0.1)):
            retinanet(driver, folder, title, {
                **base, 'input_size': [128, 128, 3], 'max_level': 7, 'backbone': kind,
                'decoder': {'type': 'nasfpn', 'nasfpn': more}}, steps=2, loud=loud, slots=0.1, weights=1e-3)
        segmentation(driver, folder, 'deeplabv3+', {
            'num_classes': 6, 'backbone': {'type': 'dilated_resnet', 'dilated_resnet': {
                'model_id': 50, 'output_stride': 16, 'stem_type': 'v1', 'replace_stem_max_pool': True,
                'multigrid': [1, 2, 4]}},
            'decoder': {'type': 'aspp', 'aspp': {'level': 4, 'dilation_rates': [2, 4], 'num_filters': 16,
                                                 'pool_kernel_size': [16, 16]}},
            'head': {'level': 4, 'low_level': 2, 'num_convs': 2, 'num_filters': 16, 'low_level_num_filters': 8,
                     'feature_fusion': 'deeplabv3plus'}}, slots=5e-4)
        segmentation(driver, folder, 'depthwise, pooled, top pixels', {
            'num_classes': 6, 'backbone': {'type': 'mobilenet', 'mobilenet': {'model_id': 'MobileNetV2', 'output_stride': 16,
                                                                              'filter_size_scale': 0.25,
                                                                              'output_intermediate_endpoints': True}},
            'decoder': {'type': 'aspp', 'aspp': {'level': 4, 'dilation_rates': [2], 'num_filters': 16,
                                                 'pool_kernel_size': [32, 32], 'use_depthwise_convolution': True}},
            'head': {'level': 4, 'low_level': '2/depthwise', 'num_convs': 1, 'num_filters': 16, 'low_level_num_filters': 8,
                     'feature_fusion': 'deeplabv3plus', 'use_depthwise_convolution': True}},
                     {'top_k_percent_pixels': 0.3, 'class_weights': [1.0, 2.0, 0.5, 1.0, 1.0, 3.0]}, steps=2, slots=0.05,
                     weights=1e-3)
        segmentation(driver, folder, 'pyramid', {
            'num_classes': 6, 'min_level': 2, 'max_level': 5, 'backbone': resnet(),
            'decoder': {'type': 'fpn', 'fpn': {'num_filters': 16}},
            'head': {'level': 2, 'num_convs': 1, 'num_filters': 16, 'feature_fusion': 'pyramid_fusion', 'upsample_factor': 2}},
                     {'use_binary_cross_entropy': True, 'label_smoothing': 0.1}, steps=2)


if __name__ == '__main__':
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    main()
