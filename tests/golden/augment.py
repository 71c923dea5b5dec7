#!/usr/bin/env python3
"""Writes augment.tfrecord: what Model Garden's augment.py makes of small images, and of small batches.

    TF_CPP_MIN_LOG_LEVEL=2 TF_USE_LEGACY_KERAS=1 python tests/golden/augment.py

with tensorflow 2.20.0, tf_keras and tf-models-official 2.20.0 from PyPI. Every case is a tf.train.Example: its kind,
its numbers, the bytes that go in, the bytes that must come out. The reader is tests/data/test_augment.c.
"""
import pathlib

import numpy as np
import tensorflow as tf
from official.vision.ops import augment, preprocess_ops

from cases import example

HERE = pathlib.Path(__file__).parent
rng = np.random.default_rng(17)
GREY = [128] * 3


def smooth(height, width):
    """Waves and edges, with flat parts in which nothing is but rounding."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 100 * np.sin(x / (3.0 + c) + c) * np.cos(y / (4.0 + c)) + 40 * ((x + y + c) % 11 > 5)
              for c in range(3)]
    pixels = np.stack(planes, -1) + rng.integers(-6, 7, (height, width, 3))
    pixels[height // 2:, width // 2:] = rng.integers(0, 256, 3)
    return np.clip(pixels, 0, 255).astype(np.uint8)


IMAGES = [rng.integers(0, 256, (8, 8, 3)).astype(np.uint8), rng.integers(40, 200, (13, 9, 3)).astype(np.uint8),
          smooth(11, 14), smooth(19, 10), np.full((5, 7, 3), 77, np.uint8)]


def operation(name, image, want, *numbers):
    return example(kind='op', op=name, number=[float(x) for x in numbers] or 0.0, shape=list(image.shape),
                   pixels=image.tobytes(), want=np.asarray(want).tobytes())


def operation_cases():
    for image in IMAGES:
        t = tf.constant(image)
        for name in ('autocontrast', 'equalize', 'invert', 'grayscale'):
            yield operation(name, image, getattr(augment, name)(t))
        for bits in (0, 1, 2, 3, 4, 8):
            yield operation('posterize', image, augment.posterize(t, bits), bits)
        for threshold in (0, 1, 25, 128, 255, 256):
            yield operation('solarize', image, augment.solarize(t, threshold), threshold)
        for addition in (0, 11, 33, 110, -40):
            yield operation('solarize_add', image, augment.solarize_add(t, addition), addition, 128)
        for factor in (0.0, 0.1, 0.28, 0.64, 0.82, 1.0, 1.09, 1.36, 1.9, 2.8):
            for name in ('color', 'contrast', 'brightness', 'sharpness'):
                yield operation(name, image, getattr(augment, name)(t, factor), factor)
            yield operation('color', image, preprocess_ops._saturation(t, factor), factor)
        for sigma in (0.1, 0.3, 0.5, 1.0, 1.7, 2.0):
            yield operation('blur', image, augment.gaussian_filter2d(t, [3, 3], sigma), sigma)
        for degrees in (3.0, -6.0, 9.0, 15.0, -21.0, 30.0, -30.0, 90.0, 180.0):
            yield operation('rotate', image, augment.wrapped_rotate(t, degrees, GREY), degrees)
        for level in (0.03, -0.09, 0.12, 0.3, -0.3):
            yield operation('transform', image, augment.shear_x(t, level, GREY), 1, level, 0, 0, 1, 0)
            yield operation('transform', image, augment.shear_y(t, level, GREY), 1, 0, 0, level, 1, 0)
        for pixels in (1.0, -2.5, 7.0, -10.0, 100.0, -225.0, 25.0):
            yield operation('transform', image, augment.translate_x(t, pixels, GREY), 1, 0, pixels, 0, 1, 0)
            yield operation('transform', image, augment.translate_y(t, pixels, GREY), 1, 0, 0, 0, 1, pixels)


def level_cases():
    """What a level means to each operation, with either sign where it is drawn."""
    keep = augment._randomly_negate_tensor
    names = [n for n in augment.NAME_TO_FUNC if 'BBox' not in n and n not in ('Cutout', 'Gaussian_Noise')]
    for level in (0, 1, 2, 3.5, 5, 7, 9, 10, 15):
        for image in IMAGES[2:3]:
            for name in names:
                wants = []
                for sign in (1, -1):
                    augment._randomly_negate_tensor = lambda x: sign * x
                    f, _, args = augment._parse_policy_info(name, 1.0, level, GREY, 100.0, 10.0)
                    wants.append(np.asarray(f(tf.constant(image), None, *args)[0]).tobytes())
                yield example(kind='level', op=name, level=float(level), shape=list(image.shape),
                              pixels=image.tobytes(), want=wants[0], other=wants[1])
    augment._randomly_negate_tensor = keep


def mixture_cases():
    """Batches with the shares and the windows that were drawn."""
    for count, height, width in ((4, 6, 6), (5, 8, 8), (1, 4, 4)):
        images = rng.normal(size=(count, height, width, 3)).astype(np.float32)
        labels = rng.integers(0, 7, count).astype(np.int32)
        shares = rng.uniform(0, 1, count).astype(np.float32)
        for smoothing in (0.0, 0.1):
            m = augment.MixupAndCutmix(num_classes=7, label_smoothing=smoothing)
            augment.MixupAndCutmix._sample_from_beta = staticmethod(lambda alpha, beta, shape: tf.constant(shares))
            base = dict(kind='mixture', shape=[count, height, width, 3], classes=7, smoothing=float(smoothing),
                        images=images.tobytes(), labels=[int(x) for x in labels])
            mixed, soft = m._update_labels(*m._mixup(tf.constant(images), tf.constant(labels)))
            windows = [0] * (4 * count)
            yield example(cut=0, shares=[float(x) for x in shares], windows=windows, want=mixed.numpy().tobytes(),
                          soft=soft.numpy().tobytes(), **base)
            centres = [rng.integers(0, height, count), rng.integers(0, width, count)]
            drawn, uniform = list(centres), tf.random.uniform
            tf.random.uniform = lambda *args, **kwargs: tf.constant(drawn.pop(0).astype(np.int32))
            mixed, same, shares_of_cuts = m._cutmix(tf.constant(images), tf.constant(labels))
            tf.random.uniform = uniform
            mixed, soft = m._update_labels(mixed, same, shares_of_cuts)
            cut = (np.sqrt(1 - shares) * np.float32(height)).astype(np.int32) // 2
            top, left = np.maximum(0, centres[0] - cut), np.maximum(0, centres[1] - cut)
            bottom, right = np.minimum(height, centres[0] + cut), np.minimum(width, centres[1] + cut)
            windows = np.stack([left, top, right - left, bottom - top], 1).ravel()
            yield example(cut=1, shares=[float(x) for x in shares_of_cuts.numpy()], windows=[int(x) for x in windows],
                          want=mixed.numpy().tobytes(), soft=soft.numpy().tobytes(), **base)
            _, soft = images, m._smooth_labels(tf.constant(labels))
            yield example(cut=-1, shares=[1.0] * count, windows=[0] * (4 * count), want=images.tobytes(),
                          soft=soft.numpy().tobytes(), **base)


def policy_cases():
    """The tables: operation, probability and level of each step."""
    for name, rows in augment.AutoAugment().available_policies.items():
        if name != 'detection_v0':
            steps = [step for row in rows for step in row]
            yield example(kind='policy', name=name, rows=len(rows), ops=' '.join(s[0] for s in steps),
                          prob=[float(s[1]) for s in steps], level=[float(s[2]) for s in steps])


def main():
    with tf.io.TFRecordWriter(str(HERE / 'augment.tfrecord')) as out:
        for cases in (operation_cases, level_cases, mixture_cases, policy_cases):
            count = 0
            for case in cases():
                out.write(case)
                count += 1
            print(cases.__name__, count)


if __name__ == '__main__':
    main()
