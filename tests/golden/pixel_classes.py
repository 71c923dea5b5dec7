#!/usr/bin/env python3
"""Writes pixel_classes.bin: what Model Garden's exported models of segmentation say of pixels of pictures.

    TF_USE_LEGACY_KERAS=1 python tests/golden/pixel_classes.py   # with tf-models-official 2.20.0, TensorFlow 2.20

Pictures of several sizes go through its SegmentationModule with rescale_output; the model in it answers with logits that
are made up. The likeliest class of each pixel is kept. The reader is tests/zoo/test_segmentation_inputs.c; the file is
rows of {name, type, shape, values}, as those of metrics.py.
"""
import os
import pathlib
import struct

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402
from official.vision.configs import semantic_segmentation  # noqa: E402
from official.vision.serving.semantic_segmentation import SegmentationModule  # noqa: E402

rng = np.random.default_rng(29)
rows = []
KINDS = {'float32': 0, 'uint8': 3}
SIZE = [24, 32]  # that pictures are brought to


def put(name, values):
    values = np.array(values, order='C')
    label = name.encode()
    rows.append(struct.pack('<I', len(label)) + label
                + struct.pack('<II', KINDS[values.dtype.name], values.ndim)
                + struct.pack(f'<{values.ndim}q', *values.shape) + values.tobytes())


class Answers(tf_keras.Model):
    """Says the same to every picture."""

    def __init__(self, logits):
        super().__init__()
        self.logits = tf.constant(logits[None])

    def call(self, images, training=False):
        return {'logits': self.logits}


def kept(logits, height, width):
    params = semantic_segmentation.semantic_segmentation()
    params.task.export_config.rescale_output = True
    params.task.train_data.preserve_aspect_ratio = True
    module = SegmentationModule(params, batch_size=1, input_image_size=SIZE, model=Answers(logits))
    said = module.serve(tf.zeros([1, height, width, 3], tf.uint8))['logits'].numpy()[0]
    assert said.shape[:2] == (height, width), said.shape
    return said.argmax(-1).astype(np.uint8)


def stretched(logits, height, width):
    # What `serve` does then; it cannot be asked, for its resize_image gives other sizes than the model's.
    said = tf.image.resize(logits[None], [height, width], method='bilinear').numpy()[0]
    return said.argmax(-1).astype(np.uint8)


for number, rows_columns in enumerate([(6, 8), (24, 32), (3, 4)]):
    logits = rng.normal(size=(*rows_columns, 5)).astype(np.float32)
    put(f'logits/{number}', logits)
    for height, width in [(24, 32), (50, 37), (13, 90), (7, 5), (111, 21)]:
        for how in (kept, stretched):
            put(f'{number}/{height}x{width}/{how.__name__}', how(logits, height, width))

pathlib.Path(__file__).with_suffix('.bin').write_bytes(b''.join(rows))
print(len(rows), 'rows')
