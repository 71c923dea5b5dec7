"""TFRecords as Model Garden's image_classification reads them, for who has none at hand.

    python pictures.py FILE COUNT [FILE COUNT]...

The pictures are JPEGs of 32 to 47 pixels a side: stripes that lean by their class, one of ten, and noise.
"""
import os
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np
import tensorflow as tf

CLASSES, SIZE = 10, 32


def picture(rng, label, size):
    y, x = np.mgrid[:size, :size]
    lean = np.pi * label / CLASSES
    wave = np.sin((x * np.cos(lean) + y * np.sin(lean)) * 2 * np.pi / 9 + rng.uniform(0, 2 * np.pi))
    return np.clip(128 + 50 * wave[..., None] * np.array([1, .5, -.7]) + rng.normal(0, 30, (size, size, 3)), 0,
                   255).astype(np.uint8)


def write_records(path, rng, count):
    def feature(**kind):
        return tf.train.Feature(**kind)
    with tf.io.TFRecordWriter(str(path)) as out:
        for _ in range(count):
            label = int(rng.integers(CLASSES))
            encoded = tf.io.encode_jpeg(picture(rng, label, int(rng.integers(SIZE, SIZE * 3 // 2))),
                                        quality=95).numpy()
            out.write(tf.train.Example(features=tf.train.Features(feature={
                'image/encoded': feature(bytes_list=tf.train.BytesList(value=[encoded])),
                'image/class/label': feature(int64_list=tf.train.Int64List(value=[label]))})).SerializeToString())


def main(words):
    rng = np.random.default_rng(0)
    if not words or len(words) % 2:
        sys.exit(__doc__)
    for path, count in zip(words[::2], words[1::2]):
        write_records(path, rng, int(count))


if __name__ == '__main__':
    main(sys.argv[1:])
