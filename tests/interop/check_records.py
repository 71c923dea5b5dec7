"""Protobuf, google-crc32c and PIL read what `tilth data convert` writes, we read what they write, and PIL sees the same
pixels.

The messages of tf.train.Example are declared here by protobuf's own means, once with packed lists as everybody writes
them and once without. images_driver.c, compiled against the library that was built, gives the pixels.
"""

import gzip
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import google_crc32c
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

from driver import compile_driver

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TILTH = pathlib.Path(os.environ['TILTH']).resolve()


def example_class(packed):
    """tf.train.Example, whose lists of numbers are packed or not."""
    file = descriptor_pb2.FileDescriptorProto(name=f'example{packed}.proto', package='tf', syntax='proto3')
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        added = file.message_type.add(name=name)
        for number, (label, kind, type_name, repeated) in enumerate(fields, 1):
            field = added.field.add(name=label, number=number, type=kind, type_name=type_name,
                                    label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL)
            if repeated and kind in (kinds.TYPE_FLOAT, kinds.TYPE_INT64):
                field.options.packed = packed
        return added

    message('BytesList', ('value', kinds.TYPE_BYTES, None, True))
    message('FloatList', ('value', kinds.TYPE_FLOAT, None, True))
    message('Int64List', ('value', kinds.TYPE_INT64, None, True))
    feature = message('Feature', *((f'{kind}_list', kinds.TYPE_MESSAGE, f'.tf.{kind.capitalize()}List', False)
                                   for kind in ('bytes', 'float', 'int64')))
    feature.oneof_decl.add(name='kind')
    for field in feature.field:
        field.oneof_index = 0
    features = message('Features', ('feature', kinds.TYPE_MESSAGE, '.tf.Features.FeatureEntry', True))
    entry = features.nested_type.add(name='FeatureEntry')
    entry.options.map_entry = True
    entry.field.add(name='key', number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name='value', number=2, type=kinds.TYPE_MESSAGE, type_name='.tf.Feature',
                    label=kinds.LABEL_OPTIONAL)
    message('Example', ('features', kinds.TYPE_MESSAGE, '.tf.Features', False))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName('tf.Example'))


Example = example_class(True)


def masked(data):
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def read_records(data):
    while data:
        length, crc = struct.unpack('<QI', data[:12])
        assert crc == masked(data[:8]), 'the checksum of a length'
        record = data[12:12 + length]
        assert struct.unpack('<I', data[12 + length:16 + length])[0] == masked(record), 'the checksum of a record'
        data = data[16 + length:]
        yield record


def write_record(record):
    head = struct.pack('<Q', len(record))
    return head + struct.pack('<I', masked(head)) + record + struct.pack('<I', masked(record))


def tilth(*words):
    done = subprocess.run([str(TILTH), 'data', *map(str, words)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_folder(root):
    """Three classes of JPEGs and PNGs; what PIL sees in each file."""
    seen, rng = {}, np.random.default_rng(3)
    for label, name in enumerate(('ant', 'bee', 'moth')):
        (root / name).mkdir(parents=True)
        for i in range(5):
            height, width = 20 + 13 * i, 90 - 11 * i
            y, x = np.mgrid[0:height, 0:width]
            pixels = np.stack([127 + 90 * np.sin(x / (4 + c) + y / 9) for c in range(3)], -1)
            pixels = np.clip(pixels + rng.integers(-9, 9, pixels.shape), 0, 255).astype(np.uint8)
            image = Image.fromarray(pixels)
            path = root / name / (f'{i}.png' if i == 4 else f'{i}.jpg')
            if i == 3:
                image = image.convert('L')
            if i == 4:
                image.save(path)
            else:
                image.save(path, quality=70 + 8 * i, subsampling=label, progressive=i == 1)
            seen[path.read_bytes()] = (label, name, path)
    return seen


def check_written(root, seen):
    """What we write, protobuf reads; with gzip and without."""
    for flags, opener in (((), lambda p: p.read_bytes()), (('--gzip',), lambda p: gzip.decompress(p.read_bytes()))):
        out = root / ('packed' if flags else 'plain')
        tilth('convert', root / 'folder', f'--out={out}/train', '--shards=4', *flags)
        files = sorted(out.glob('train-*-of-00004*'))
        assert len(files) == 4, files
        found = set()
        for file in files:
            for record in read_records(opener(file)):
                features = Example.FromString(record).features.feature
                data = features['image/encoded'].bytes_list.value[0]
                label, name, path = seen[data]
                assert features['image/class/label'].int64_list.value == [label]
                assert features['image/class/text'].bytes_list.value == [name.encode()]
                assert features['image/filename'].bytes_list.value == [path.name.encode()]
                with Image.open(path) as image:
                    assert features['image/width'].int64_list.value == [image.width]
                    assert features['image/height'].int64_list.value == [image.height]
                found.add(data)
        assert found == set(seen), 'examples are missing'
        assert (out / 'train.classes.txt').read_text() == 'ant\nbee\nmoth\n'


def check_read(root):
    """What protobuf writes, we read; packed or not."""
    for packed in (True, False):
        example = example_class(packed)()
        features = example.features.feature
        features['ints'].int64_list.value.extend([0, -5, 2 ** 40, -2 ** 63])
        features['floats'].float_list.value.extend([0.5, -3.25, 1e30])
        features['words'].bytes_list.value.extend([b'one', 'zw\u00f6lf'.encode()])
        file = root / f'python{packed}.tfrecord'
        file.write_bytes(write_record(example.SerializeToString()) * 3)
        (root / f'python{packed}.gz').write_bytes(gzip.compress(file.read_bytes()))
        for path in (file, root / f'python{packed}.gz'):
            said = tilth('show', path)
            assert '3 records' in said and 'all checksums are right' in said, said
            assert 'ints: int64 0, -5, 1099511627776, -9223372036854775808\n' in said, said
            assert 'floats: float 0.5, -3.25, 1e+30\n' in said, said
            assert "words: bytes 'one', 'zw\u00f6lf'\n" in said, said
            assert re.search(r'ints +int64 +4 values', said), said


def decode(driver, path, channels=0, shrink=1, window=(0, 0, 0, 0)):
    done = subprocess.run([driver, *map(str, (path, channels, shrink, *window))], capture_output=True, check=True)
    head, pixels = done.stdout.split(b'\n', 1)
    return np.frombuffer(pixels, np.uint8).reshape([int(n) for n in head.split()])


def check_pixels(root, seen):
    """PIL decodes with the same transform and the same upsampling."""
    driver = compile_driver('images_driver', root)
    for _, _, path in seen.values():
        with Image.open(path) as image:
            want = np.asarray(image).reshape(image.height, image.width, -1)
            rgb = np.asarray(image.convert('RGB'))
        assert np.array_equal(decode(driver, path), want), path
        assert np.array_equal(decode(driver, path, channels=3), rgb), path
        window = (want.shape[1] // 4, want.shape[0] // 3, want.shape[1] // 2, want.shape[0] // 2)
        x, y, width, height = window
        assert np.array_equal(decode(driver, path, window=window), want[y:y + height, x:x + width]), path
        if path.suffix == '.png':
            continue
        for shrink in (2, 4, 8):
            with Image.open(path) as image:
                image.draft(image.mode, (image.width // shrink, image.height // shrink))
                small = np.asarray(image).reshape(image.height, image.width, -1)
            got = decode(driver, path, shrink=shrink)
            assert np.array_equal(got, small), (path, shrink, got.shape, small.shape)


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        seen = make_folder(root / 'folder')
        check_written(root, seen)
        check_read(root)
        check_pixels(root, seen)
    return 0


if __name__ == '__main__':
    sys.exit(main())
