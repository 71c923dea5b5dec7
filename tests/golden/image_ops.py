#!/usr/bin/env python3
"""Writes image_ops.tfrecord and examples.tfrecord.gz: what TensorFlow makes of small images, and its own record files.

    TF_CPP_MIN_LOG_LEVEL=2 python tests/golden/image_ops.py      # with tensorflow 2.20.0 and pillow from PyPI

Every case is a tf.train.Example: its kind, its numbers, the bytes that go in, the bytes that must come out. The
reader is tests/data/test_image_golden.c; examples.tfrecord.gz is read by tests/io/test_example.c.
"""
import io
import pathlib

import numpy as np
import tensorflow as tf
from PIL import Image

from cases import example, feature

HERE = pathlib.Path(__file__).parent
rng = np.random.default_rng(11)


def smooth(height, width, channels):
    """Something a JPEG can hold: waves and a few edges."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (3.0 + c) + c) * np.cos(y / (4.0 + c)) + 30 * ((x + y + c) % 11 > 5)
              for c in range(channels)]
    noise = rng.integers(-6, 7, (height, width, channels))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def decoded(file, channels=0, ratio=1, fast=False, fancy=True):
    """A JPEG as TensorFlow sees it."""
    want = tf.io.decode_jpeg(file, channels=channels, ratio=ratio, fancy_upscaling=fancy,
                             dct_method='INTEGER_FAST' if fast else 'INTEGER_ACCURATE').numpy()
    return example(kind='decode', file=file, channels=channels, shrink=ratio, fast=fast, plain=not fancy,
                   shape=want.shape, want=want.tobytes())


def decode_cases():
    for height, width in ((37, 53), (16, 24)):
        for channels in (1, 3):
            pixels = smooth(height, width, channels)
            for down, progressive in ((True, False), (False, True))[:2 if channels == 3 else 1]:
                file = tf.io.encode_jpeg(pixels, quality=90, chroma_downsampling=down, progressive=progressive).numpy()
                yield decoded(file)
                yield decoded(file, channels=3, fast=True)
                yield decoded(file, channels=1)
                yield decoded(file, channels=3, ratio=2)
                yield decoded(file, channels=3, ratio=8)
                yield decoded(file, channels=3, fancy=False)
    file = io.BytesIO()
    Image.fromarray(smooth(20, 30, 4), 'CMYK').save(file, 'JPEG', quality=90)
    yield decoded(file.getvalue(), channels=3)
    for channels in (3, 4, 1):
        file = tf.io.encode_png(smooth(9, 14, channels)).numpy()
        for wanted in (0, channels):
            want = tf.io.decode_png(file, channels=wanted).numpy()
            yield example(kind='decode', file=file, channels=wanted, shrink=1, fast=0, plain=0, shape=want.shape,
                          want=want.tobytes())


def resize_cases():
    for channels in (1, 3, 4):
        pixels = smooth(11, 13, channels)
        for method in ('bilinear', 'nearest', 'area', 'bicubic'):
            for size in ((11, 13), (6, 5), (20, 31), (3, 13), (1, 1)):
                for antialias in ((False, True) if method in ('bilinear', 'bicubic') else (False,)):
                    want = tf.image.resize(pixels, size, method=method, antialias=antialias).numpy()
                    yield example(kind='resize', method=method, antialias=antialias, pixels=pixels.tobytes(),
                                  shape=pixels.shape, size=size, want=want.astype(np.float32).tobytes())


def center_cases():
    for height, width in ((256, 256), (333, 500), (500, 375), (7, 100), (31, 33)):
        for fraction in (0.875, 0.5, 1.0):
            size = tf.cast(tf.constant([height, width]), tf.float32)
            side = fraction * tf.math.minimum(size[0], size[1])
            offset = tf.cast((size - side) / 2.0, tf.int32).numpy()
            yield example(kind='center', size=[height, width], fraction=[float(fraction)],
                          window=[offset[1], offset[0], tf.cast(side, tf.int32).numpy()])


def write(name, records, options=None):
    with tf.io.TFRecordWriter(str(HERE / name), options) as out:
        for count, record in enumerate(records, 1):
            out.write(record)
    print(name, count, 'records', (HERE / name).stat().st_size, 'bytes')


def all_kinds():
    """One Example with a list of every kind, empty ones too, and a SequenceExample."""
    yield example(label=7, text='grass', floats=[0.0, -1.5, 3.25e30], ints=[0, -1, 127, 128, 2**63 - 1, -2**63])
    lists = {'none': tf.train.Feature(), 'no_bytes': tf.train.Feature(bytes_list=tf.train.BytesList()),
             'words': tf.train.Feature(bytes_list=tf.train.BytesList(value=[b'a', b'', b'\x00b'])),
             'no_ints': tf.train.Feature(int64_list=tf.train.Int64List())}
    yield tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()
    steps = [feature([t, t * t]) for t in range(5)]
    yield tf.train.SequenceExample(
        context=tf.train.Features(feature={'length': feature(5)}),
        feature_lists=tf.train.FeatureLists(feature_list={'steps': tf.train.FeatureList(feature=steps),
                                                          'empty': tf.train.FeatureList()})).SerializeToString()


write('image_ops.tfrecord', [*decode_cases(), *resize_cases(), *center_cases()])
write('examples.tfrecord.gz', all_kinds(), tf.io.TFRecordOptions(compression_type='GZIP'))
