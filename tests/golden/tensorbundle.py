#!/usr/bin/env python3
"""Writes the files in tensorbundle/: checkpoints as TensorFlow writes them.

    python tests/golden/tensorbundle.py      # with tensorflow 2.20.0, tf_keras 2.20.1 and cramjam from PyPI

types     a variable of every type and of odd shapes, strings among them
objects   a small model with a tied kernel, odd names, and an optimizer with slots
iterator  an entry that cannot be read here: the state of an iterator over data
part      a variable in three pieces, by a graph of TensorFlow 1
grid      the same in 2 x 2 pieces, by the op that saves
shards    three data files, put together from three bundles
packed    `objects` with its blocks compressed by Snappy; TensorFlow reads it, which is checked here
The reader is tests/io/test_tensorbundle.c.
"""
import os
import pathlib
import shutil
import struct

os.environ.update(TF_USE_LEGACY_KERAS='1', TF_CPP_MIN_LOG_LEVEL='2')

import cramjam
import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent / 'tensorbundle'
V1 = tf.compat.v1
TYPES = ['float32', 'float64', 'int32', 'uint8', 'int16', 'int8', 'complex64', 'int64', 'bool', 'bfloat16', 'uint16',
         'complex128', 'float16', 'uint32', 'uint64', 'float8_e5m2', 'float8_e4m3fn', 'int4']


def prefix(name):
    return str(HERE / name)


def types():
    module = tf.Module()
    for name in TYPES:
        values = np.arange(6).reshape(2, 3) % (2 if name == 'bool' else 100)
        if name == 'int4':
            values -= 2
        value = tf.cast(tf.constant(values, tf.float32 if name.startswith('float8') else tf.int32), name)
        if name.startswith('complex'):
            value = value * (1 - 2j)
        setattr(module, name, tf.Variable(value))
    module.scalar = tf.Variable(-1.5)
    module.empty = tf.Variable(tf.zeros([4, 0]))
    module.deep = tf.Variable(tf.reshape(tf.range(2.), [1] * 8 + [2]))
    module.text = tf.Variable('caf\u00e9')
    module.texts = tf.Variable([['a', ''], ['x' * 200, 'a\0b']])
    module.no_texts = tf.Variable(tf.zeros([0, 2], tf.string))
    tf.train.Checkpoint(types=module).write(prefix('types'))


def objects():
    model = tf.Module()
    model.layers = [tf.Module(), tf.Module()]
    model.layers[0].kernel = tf.Variable([[1., 2.], [3., 4.]])
    model.layers[1].kernel = model.layers[0].kernel
    model.layers[1].bias = tf.Variable([0.5, -0.5])
    model.names = {'a/b': tf.Variable(1, dtype=tf.int64), 'c.d': tf.Variable(2, dtype=tf.int64)}
    optimizer = tf.keras.optimizers.legacy.Adam(0.25)
    variables = [model.layers[0].kernel, model.layers[1].bias]
    optimizer.apply_gradients([(tf.ones_like(v), v) for v in variables])
    step = tf.Variable(7, dtype=tf.int64)
    tf.train.Checkpoint(model=model, optimizer=optimizer, global_step=step).save(prefix('objects'))
    for file in HERE.glob('objects-1.*'):  # save() counts
        file.rename(HERE / file.name.replace('objects-1.', 'objects.'))
    (HERE / 'checkpoint').unlink()


def iterator():
    data = iter(tf.data.Dataset.range(10).shuffle(3, seed=1))
    next(data)
    tf.train.Checkpoint(data=data).write(prefix('iterator'))


def part():
    def counting(shape, dtype=None, partition_info=None):
        start = partition_info.var_offset[0] * shape[1]
        return tf.reshape(tf.range(start, start + shape[0] * shape[1], dtype=tf.float32), shape)
    with tf.Graph().as_default(), V1.Session() as session:
        V1.get_variable('part', [70, 3], initializer=counting, partitioner=V1.fixed_size_partitioner(3),
                        use_resource=False)
        V1.get_variable('whole', [], initializer=V1.zeros_initializer())
        session.run(V1.global_variables_initializer())
        V1.train.Saver().save(session, prefix('part'), write_meta_graph=False, write_state=False)


def grid():
    whole = np.arange(3 * 130 * 2, dtype=np.int32).reshape(3, 130, 2)
    slices, values = [], []
    for rows in ((0, 1), (1, 2)):
        for columns in ((0, 64), (64, 66)):
            slices.append(f'3 130 2 {rows[0]},{rows[1]}:{columns[0]},{columns[1]}:-')
            values.append(whole[rows[0]:sum(rows), columns[0]:sum(columns)])
    tf.raw_ops.SaveV2(prefix=prefix('grid'), tensor_names=['grid'] * 4, shape_and_slices=slices, tensors=values)


def shards():
    parts = [prefix(f'shard{i}') for i in range(3)]
    for i, part in enumerate(parts):
        tf.raw_ops.SaveV2(prefix=part, tensor_names=[f'v{2 - i}', f'w{i}'], shape_and_slices=['', ''],
                          tensors=[np.full([2], i, np.float32), np.array(10 + i, np.int64)])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix('shards'),
                                  delete_old_dirs=False)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def packed():
    """Packs the one data block of the index; the blocks behind it move."""
    data = (HERE / 'objects.index').read_bytes()
    meta_at, at = varint(data, len(data) - 48)
    meta_size, at = varint(data, at)
    assert data[meta_at - 5] == 0
    block = bytes(cramjam.snappy.compress_raw(data[:meta_at - 5])) + b'\1'

    def number(value):
        out = b''
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    def sealed(block):
        return block + struct.pack('<I', masked_crc(block))
    out = sealed(block)
    place = (len(out), meta_size)
    out += data[meta_at:meta_at + meta_size + 5]
    handle = number(0) + number(len(block) - 1)
    index = b'\0\1' + number(len(handle)) + b't' + handle + struct.pack('<II', 0, 1)
    footer = number(place[0]) + number(place[1]) + number(len(out)) + number(len(index))
    out += sealed(index + b'\0') + footer.ljust(40, b'\0') + data[-8:]
    (HERE / 'packed.index').write_bytes(out)
    shutil.copy(HERE / 'objects.data-00000-of-00001', HERE / 'packed.data-00000-of-00001')
    ours, theirs = (tf.train.load_checkpoint(prefix(name)).get_variable_to_shape_map() for name in ('packed', 'objects'))
    assert ours == theirs


def masked_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


if __name__ == '__main__':
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    for make in (types, objects, iterator, part, grid, shards, packed):
        make()
