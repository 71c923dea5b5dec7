"""The peer of bench_data: the same records and photos through tf.data.

    python bench/peers/data_tf.py FOLDER THREADS    # reads names, answers with the seconds of a pass

Every way of writing a case is tried; the fastest is the peer and is measured from then on. How each
way did goes to the standard error.
"""
import os
import sys
import time

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

import tensorflow as tf

FOLDER, THREADS = sys.argv[1], int(sys.argv[2])
tf.config.set_visible_devices([], 'GPU')
tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(THREADS)
AUTO = tf.data.AUTOTUNE
RECORD_BATCH, BATCH, SIZE = 256, 64, 224
CLICK = {
    'user': tf.io.FixedLenFeature([], tf.int64), 'item': tf.io.FixedLenFeature([], tf.int64),
    'time': tf.io.FixedLenFeature([], tf.int64), 'price': tf.io.FixedLenFeature([], tf.float32),
    'scores': tf.io.FixedLenFeature([8], tf.float32), 'label': tf.io.FixedLenFeature([], tf.int64)}
SENTENCE = {name: tf.io.FixedLenFeature([128], tf.int64)
            for name in ('input_ids', 'input_mask', 'segment_ids')}
SENTENCE['label_ids'] = tf.io.FixedLenFeature([], tf.int64)
PHOTO = {'image/encoded': tf.io.FixedLenFeature([], tf.string),
         'image/class/label': tf.io.FixedLenFeature([], tf.int64)}
MEAN, STDDEV = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def finish(data):
    options = tf.data.Options()
    options.threading.private_threadpool_size = THREADS
    return data.prefetch(AUTO).with_options(options)


def read(name, deterministic=True):
    options = tf.data.Options()
    options.deterministic = deterministic
    return tf.data.TFRecordDataset(f'{FOLDER}/{name}', buffer_size=8 << 20).with_options(options)


def parse_batches(name, features):
    return finish(read(name).batch(RECORD_BATCH).map(lambda x: tf.io.parse_example(x, features), AUTO))


def parse_unordered(name, features):
    return finish(read(name, False).batch(RECORD_BATCH, num_parallel_calls=AUTO)
                  .map(lambda x: tf.io.parse_example(x, features), AUTO))


def parse_singles(name, features):
    return finish(read(name).map(lambda x: tf.io.parse_single_example(x, features), AUTO).batch(RECORD_BATCH))


def photo(record, dct):
    """As Model Garden's classification input does it."""
    example = tf.io.parse_single_example(record, PHOTO)
    encoded = example['image/encoded']
    shape = tf.io.extract_jpeg_shape(encoded)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape, tf.constant([[[0.0, 0.0, 1.0, 1.0]]]), area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3), max_attempts=10, min_object_covered=0,
        use_image_if_no_bounding_boxes=True)
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    pixels = tf.image.decode_and_crop_jpeg(encoded, window, channels=3, dct_method=dct)
    pixels = tf.image.resize(pixels, [SIZE, SIZE])
    pixels = tf.image.random_flip_left_right(pixels)
    return (pixels - MEAN) / STDDEV, tf.cast(example['image/class/label'], tf.int32)


def photos(dct, deterministic):
    files = sorted(tf.io.gfile.glob(FOLDER + '/photos-*'))
    data = tf.data.TFRecordDataset(files, buffer_size=8 << 20).shuffle(1024)
    return finish(data.map(lambda x: photo(x, dct), AUTO, deterministic=deterministic).batch(BATCH))


WAYS = {
    'records of 13 numbers': [
        ('parse_example', lambda: parse_batches('clicks', CLICK)),
        ('parse_example, any order', lambda: parse_unordered('clicks', CLICK)),
        ('parse_single_example', lambda: parse_singles('clicks', CLICK))],
    'records of 3 x 128 tokens': [
        ('parse_example', lambda: parse_batches('sentences', SENTENCE)),
        ('parse_example, any order', lambda: parse_unordered('sentences', SENTENCE)),
        ('parse_single_example', lambda: parse_singles('sentences', SENTENCE))],
    'photos to 224': [
        ('accurate', lambda: photos('INTEGER_ACCURATE', True)),
        ('fast', lambda: photos('INTEGER_FAST', True)),
        ('fast, any order', lambda: photos('INTEGER_FAST', False))],
}


def seconds(data):
    time.sleep(0.3)  # what others had in preparation ends
    begin = time.perf_counter()
    for _ in data:
        pass
    return time.perf_counter() - begin


def fastest(name):
    best = None
    for way, make in WAYS.get(name, []):
        data = make()
        took = min(seconds(data), seconds(data))
        print(f'  {name}: {way} {took:.3f} s', file=sys.stderr, flush=True)
        if best is None or took < best[0]:
            best = took, data
    return best and best[1]


ready, last = None, None
for line in sys.stdin:
    case = line.strip()
    if case != last:
        ready, last = fastest(case), case
    print(seconds(ready) if ready else 'no such case', flush=True)
