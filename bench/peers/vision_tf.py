"""The other peer of bench_vision: Model Garden's own steps of training.

    python bench/peers/vision_tf.py THREADS    # reads names, answers with seconds a step

A name is that of a row: "mobilenetv2 224 B16 bf16, beside Model Garden". Labels of anchors are made before, as Model
Garden does, and losses, metrics and updates are its tasks'. All cases are steps in f32 as a graph, those in bf16 too.

What lost on a Neoverse-V1 and is not tried: mixed_bfloat16 (of vit-s16 a step of one picture took 32 s, in f32 0.7 s),
XLA (jit_compile), whose code ended the process with an illegal instruction, and ONEDNN_DEFAULT_FPMATH_MODE=BF16, which
changed nothing.
"""
import os
import re
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')

import numpy as np
import tensorflow as tf

THREADS = int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
tf.config.set_visible_devices([], 'GPU')
tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(THREADS)

from official.core import exp_factory, task_factory  # noqa: E402
from official.vision.configs import image_classification, retinanet, semantic_segmentation  # noqa: E402,F401
from official.vision.tasks import image_classification as _, retinanet as _, semantic_segmentation as _  # noqa: E402,F401,F811

from answer import answer, seconds, warm  # noqa: E402

OBJECTS, CLASSES, BOX_CLASSES, PIXELS = 8, 1001, 91, 21
SGD = {'optimizer': {'type': 'sgd', 'sgd': {'momentum': 0.9}},
       'learning_rate': {'type': 'constant', 'constant': {'learning_rate': 0.001}}}
ADAMW = {'optimizer': {'type': 'adamw', 'adamw': {'weight_decay_rate': 0.05}},
         'learning_rate': {'type': 'constant', 'constant': {'learning_rate': 0.0001}}}
MODELS = {  # as in bench_vision.c
    'mobilenetv2': ('image_classification', {'num_classes': CLASSES, 'backbone': {'type': 'mobilenet'}}, SGD),
    'vit-s16': ('image_classification', {
        'num_classes': CLASSES,
        'backbone': {'type': 'vit', 'vit': {'model_name': 'vit-s16', 'representation_size': 0}}}, ADAMW),
    'retinanet': ('retinanet', {
        'num_classes': BOX_CLASSES, 'backbone': {'type': 'resnet', 'resnet': {'model_id': 18}},
        'norm_activation': {'use_sync_bn': False}}, SGD),
    'deeplabv3+': ('semantic_segmentation', {
        'num_classes': PIXELS, 'backbone': {'type': 'mobilenet', 'mobilenet': {'output_stride': 16}},
        'decoder': {'type': 'aspp', 'aspp': {'level': 4, 'dilation_rates': [6, 12, 18]}},
        'head': {'level': 4, 'feature_fusion': 'deeplabv3plus'}, 'norm_activation': {'use_sync_bn': False}}, SGD),
}


# --- batches -----------------------------------------------------------------------------------------

def labels_of(experiment, size, batch):
    rng = np.random.default_rng(1)
    if experiment == 'image_classification':
        return tf.constant(rng.integers(0, CLASSES, batch), tf.int32)
    if experiment == 'semantic_segmentation':
        return {'masks': tf.constant(rng.integers(0, PIXELS, (batch, size, size, 1)), tf.float32),
                'valid_masks': tf.ones((batch, size, size, 1), tf.bool), 'image_info': tf.ones((batch, 4, 2))}
    kinds, codes, positive = {}, {}, []
    for level in range(3, 8):
        side = size // 2 ** level
        chosen = rng.random((batch, side, side, 9)) < 0.01
        kinds[str(level)] = tf.constant(chosen * rng.integers(1, BOX_CLASSES, chosen.shape), tf.int32)
        codes[str(level)] = tf.constant(rng.normal(size=(batch, side, side, 36)), tf.float32)
        positive.append(chosen.reshape(batch, -1))
    positive = tf.constant(np.concatenate(positive, 1), tf.float32)
    return {'cls_targets': kinds, 'box_targets': codes, 'cls_weights': tf.ones_like(positive), 'box_weights': positive}


# --- steps -------------------------------------------------------------------------------------------

def make_step(name):
    what, size, batch = re.match(r'(\S+).* (\d+) B(\d+)', name).groups()
    size, batch = int(size), int(batch)
    experiment, model, optimization = MODELS[what]
    params = exp_factory.get_exp_config(experiment)
    params.override({'task': {'model': {'input_size': [size, size, 3], **model}},
                     'trainer': {'optimizer_config': optimization}})
    task = task_factory.get_task(params.task)
    made = task.build_model()
    optimizer = task.create_optimizer(params.trainer.optimizer_config, params.runtime)
    metrics = task.build_metrics(training=True)
    image, labels = tf.random.uniform((batch, size, size, 3), -2, 2, seed=1), labels_of(experiment, size, batch)

    @tf.function
    def run(image, labels):
        return task.train_step((image, labels), made, optimizer, metrics)['loss']
    return lambda: run(image, labels).numpy()


# --- answers -----------------------------------------------------------------------------------------

answer(lambda name: warm(make_step(name)), lambda run: seconds(run, 0.1))
