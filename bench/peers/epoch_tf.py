"""The peer of bench_epoch: the network of fashion_mnist/cnn in Keras, fed by tf.data.

    python bench/peers/epoch_tf.py THREADS          # reads names, answers with seconds
    python bench/peers/epoch_tf.py THREADS --first  # one step, and a word when it is done
"""
import gzip
import os
import subprocess
import sys
import time

THREADS, FIRST = int(sys.argv[1]), sys.argv[2:] == ['--first']
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

import numpy as np
import tensorflow as tf

keras = tf.keras
FOLDER = '/usr/share/datasets/fashion-mnist/'
BATCH = 128


def read(name, offset):
    with gzip.open(FOLDER + name) as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


def load():
    """Images as bytes, and labels."""
    images = read('train-images-idx3-ubyte.gz', 16).reshape(-1, 28, 28, 1)
    return images, read('train-labels-idx1-ubyte.gz', 8).astype(np.int32)


def normalised(images):
    return (images.astype(np.float32) - 72.9404) / 90.0212


def batches():
    images, labels = load()
    images = normalised(images)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images))
    return data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def network():
    def stage(filters):
        return [keras.layers.Conv2D(filters, 3, padding='same', activation='relu'), keras.layers.MaxPool2D()]
    model = keras.Sequential([keras.Input((28, 28, 1)), *stage(32), *stage(64), keras.layers.Flatten(),
                              keras.layers.Dense(128, activation='relu'), keras.layers.Dense(10)])
    schedule = keras.optimizers.schedules.CosineDecay(0.0, 1150, warmup_target=0.003, warmup_steps=50)
    model.compile(keras.optimizers.Adam(schedule, epsilon=1e-7),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return model


if FIRST:
    images, labels = load()
    ids = np.random.permutation(len(images))[:BATCH]
    network().train_on_batch(normalised(images[ids]), labels[ids])  # of the batch alone
    print('done', flush=True)
    os._exit(0)


def first():
    begin = time.perf_counter()
    command = [sys.executable, __file__, str(THREADS), '--first']
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        word = child.stdout.readline()
        took = time.perf_counter() - begin
    assert word == b'done\n'
    return took


def epoch(model, data):
    begin = time.perf_counter()
    model.fit(data, epochs=1, verbose=0)
    return time.perf_counter() - begin


ready = None
for line in sys.stdin:
    case = line.strip()
    if case == 'first step, beside Keras':
        print(first(), flush=True)
    elif case == 'epoch f32, beside Keras':
        if not ready:
            ready = network(), batches()
            ready[0].fit(ready[1].take(20), epochs=1, verbose=0)
        print(epoch(*ready), flush=True)
    else:
        print('no such case', flush=True)
