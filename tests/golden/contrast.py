#!/usr/bin/env python3
"""Writes contrast.tfrecord: what TensorFlow's image operations make of small images of floats.

    TF_CPP_MIN_LOG_LEVEL=2 python tests/golden/contrast.py      # with tensorflow 2.20.0 from PyPI

Every case is a tf.train.Example: an operation that SimCLR's views are made of, its number, the floats that go in and those
that must come out. The reader is tests/data/test_contrast.c.
"""
import pathlib

import numpy as np
import tensorflow as tf

from cases import example

rng = np.random.default_rng(4)


def blur(image, height, sigma):
    """A Gauss curve of 2 (height // 10 // 2) + 1 places, across and then down, with zeros around the image."""
    radius = height // 10 // 2
    places = np.arange(-radius, radius + 1, dtype=np.float32)
    curve = np.exp(-places ** 2 / np.float32(2 * sigma ** 2)).astype(np.float32)
    curve /= curve.sum()
    channels = image.shape[-1]
    for shape in ((1, -1, 1, 1), (-1, 1, 1, 1)):
        kernel = np.tile(curve.reshape(shape), (1, 1, channels, 1))
        image = tf.nn.depthwise_conv2d(image[None], kernel, [1, 1, 1, 1], 'SAME')[0]
    return image


OPS = {
    'scale': lambda x, p: x * np.float32(p),
    'add': tf.image.adjust_brightness,
    'contrast': tf.image.adjust_contrast,
    'saturation': tf.image.adjust_saturation,
    'hue': tf.image.adjust_hue,
    'grey': lambda x, p: tf.tile(tf.image.rgb_to_grayscale(x), [1, 1, 3]),
    'clip': lambda x, p: tf.clip_by_value(x, 0.0, p),
    'blur': lambda x, p: blur(x, 45, p),
    # the part of an image of bytes, enlarged
    'view': lambda x, p: tf.clip_by_value(tf.image.resize(x, [19, 23], 'bicubic'), 0.0, 1.0),
}
AMOUNTS = {
    'scale': (0.2, 1.7), 'add': (-0.3, 0.4), 'contrast': (0.2, 1.8), 'saturation': (0.0, 0.2, 1.3, 1.8),
    'hue': (-0.2, 0.07, 0.2, -0.5), 'grey': (0.0,), 'clip': (0.6,), 'blur': (0.1, 0.8, 2.0), 'view': (0.0,),
}


def images():
    yield rng.random((7, 9, 3), np.float32)
    picture = rng.random((6, 5, 3), np.float32)
    picture[0] = picture[0, :, :1]  # greys, where hues have no meaning
    picture[1] = 0
    picture[2] = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1]]
    yield picture
    yield rng.random((11, 8, 1), np.float32)


def main():
    path = pathlib.Path(__file__).with_name('contrast.tfrecord')
    count = 0
    with tf.io.TFRecordWriter(str(path)) as out:
        for image in images():
            image = np.round(image * 255).astype(np.uint8)
            floats = tf.image.convert_image_dtype(image, tf.float32)
            for op, amounts in AMOUNTS.items():
                if image.shape[-1] == 1 and op in ('saturation', 'hue', 'grey'):
                    continue
                for amount in amounts:
                    want = OPS[op](floats, amount).numpy()
                    out.write(example(kind=op, amount=float(amount), shape=image.shape, image=image.tobytes(),
                                      size=want.shape, want=want.astype(np.float32).tobytes()))
                    count += 1
    print(path.name, count, 'cases', path.stat().st_size, 'bytes')


if __name__ == '__main__':
    main()
