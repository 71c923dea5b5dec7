"""Python's safetensors reads our files, writes the same bytes, and we read its files.

safetensors_driver.c, compiled here against the library that was built, writes a plain file with every type and a
checkpoint with every kind of entry, and tells what it reads in files that the original library wrote.
"""

import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import safetensors
import safetensors.numpy

from driver import compile_driver

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ['TILTH']).resolve().parent

# our name, the library's name in a file, its name in a specification, how struct packs an element
TYPES = [('float32', 'F32', 'float32', 'f'), ('bfloat16', 'BF16', 'bfloat16', None),
         ('float16', 'F16', 'float16', 'e'), ('float64', 'F64', 'float64', 'd'), ('int8', 'I8', 'int8', 'b'),
         ('int16', 'I16', 'int16', 'h'), ('int32', 'I32', 'int32', 'i'), ('int64', 'I64', 'int64', 'q'),
         ('uint8', 'U8', 'uint8', 'B'), ('bool', 'BOOL', 'bool', '?')]
SHAPES = [('b', []), ('a', [2, 3]), ('c', [0, 5])]


def pack(code, values):
    """Elements as they lie in a file; bfloat16 is the upper half of float32."""
    if code is None:
        return b''.join(struct.pack('<f', value)[2:] for value in values)
    return struct.pack(f'<{len(values)}{code}', *values)


def expected_entries():
    """What is in plain.safetensors: name -> (type, specified type, shape, bytes)."""
    entries = {}
    for name, type_, spec, code in TYPES:
        for prefix, shape in SHAPES:
            count = int(np.prod(shape))
            values = [i % 2 if name == 'bool' else i for i in range(count)]
            entries[f'{prefix}/{name}.\u00e9 "\\\t'] = (type_, spec, shape, pack(code, values))
    return entries


def serialize(entries, metadata=None):
    """The bytes that the original library writes."""
    specs, alive = {}, []
    for name, (_, spec, shape, data) in entries.items():
        buffer = ctypes.create_string_buffer(data, max(len(data), 1))
        alive.append(buffer)
        specs[name] = safetensors.TensorSpec(dtype=spec, shape=shape, data_ptr=ctypes.addressof(buffer),
                                             data_len=len(data))
    return bytes(safetensors.serialize(specs, metadata))


def check_plain(path):
    """The original's reader finds what was written, and its writer writes the same bytes."""
    expected, data = expected_entries(), path.read_bytes()
    found = dict(safetensors.deserialize(data))
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    for name, (type_, _, shape, elements) in expected.items():
        entry = found[name]
        assert (entry['dtype'], entry['shape'], bytes(entry['data'])) == (type_, shape, elements), (name, entry)
    assert data == serialize(expected), 'the original library writes other bytes'


def check_checkpoint(path):
    """Tensors, scalars and notes of a checkpoint, as Python sees them."""
    with safetensors.safe_open(path, framework='numpy') as file:
        notes = file.metadata()
        names = set(file.keys())
        assert names == {'model/dense/kernel', 'model/dense/bias', 'global_step', 'optimizer/rate', 'optimizer/warm',
                         'name', 'words'}, names
        kernel = file.get_tensor('model/dense/kernel')
        assert kernel.dtype == np.float32 and (kernel == np.arange(6).reshape(2, 3)).all(), kernel
        assert file.get_tensor('global_step').item() == 1234567890123
        assert file.get_tensor('optimizer/rate').item() == 0.1
        assert file.get_tensor('optimizer/warm').item() is True
        assert file.get_tensor('name').tobytes().decode() == 'caf\u00e9'
        assert file.get_tensor('words').tolist() == [1, 2**64 - 1]
        assert file.get_slice('model/dense/bias').get_dtype() == 'BF16'
    assert notes['tilth.format'] == '1' and notes['tilth.numerics'] == 'some numerics', notes
    assert len(notes['tilth.crc32c']) == 8
    assert json.loads(notes['tilth.entries'])[2] == ['model/tied', 'same', 'model/dense/kernel'], notes


def check_reading(driver, folder):
    """Files of the original library, with notes, and with types that tensors here do not have."""
    path = folder / 'theirs.safetensors'
    entries = expected_entries()
    entries = {name.replace('\t', ' '): entry for name, entry in entries.items()}  # the driver writes columns
    for type_, spec, size in (('U16', 'uint16', 2), ('U32', 'uint32', 4), ('U64', 'uint64', 8),
                              ('C64', 'complex64', 8), ('F8_E4M3', 'float8_e4m3fn', 1),
                              ('F8_E5M2', 'float8_e5m2', 1)):
        entries[f'other {type_}'] = (type_, spec, [3], bytes(range(3 * size)))
    notes = {'format': 'pt', 'a "note"': 'caf\u00e9 \\ /'}
    path.write_bytes(serialize(entries, notes))
    lines = subprocess.run([driver, 'read', path], check=True, text=True, capture_output=True).stdout.split('\n')
    rows = [line.split('\t') for line in lines if line]
    found = {row[0]: row[1:] for row in rows if len(row) == 4}
    assert found.keys() == entries.keys(), found.keys() ^ entries.keys()
    for name, (type_, _, shape, data) in entries.items():
        assert found[name] == [type_, ','.join(map(str, shape)), data.hex()], (name, found[name])
    assert {row[0]: row[1] for row in rows if len(row) == 2} == notes, rows


def check_program(path):
    """`tilth ckpt` on the checkpoint, and on one with a byte turned."""
    program = os.environ['TILTH']
    shown = subprocess.run([program, 'ckpt', 'show', path], check=True, text=True, capture_output=True).stdout
    assert 'int 1234567890123' in shown and 'float32[2, 3]' in shown and 'the same as model/dense/kernel' in shown, shown
    subprocess.run([program, 'ckpt', 'verify', path], check=True, capture_output=True)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    done = subprocess.run([program, 'ckpt', 'verify', path], text=True, capture_output=True)
    assert done.returncode == 1 and 'is damaged' in done.stderr, done


def check_divided(folder):
    """A run's divided checkpoint, read by its index as transformers does it, and the same run's in one file."""
    program = os.environ['TILTH']
    command = [program, 'train', '--experiment=vision/local', '--mode=train', 'tilth.seed=3', 'trainer.train_steps=2',
               'trainer.steps_per_loop=2', 'trainer.checkpoint_interval=2', 'tilth.jit=false']
    command.append('tilth.lanes=2')
    divided = ['tilth.checkpoint_shards=3']
    for name, launch, words in ('one', [], []), ('divided', [], divided), ('by-two', ['launch', '-n', '2'], divided):
        subprocess.run(command[:1] + launch + command[1:] + [f'--model_dir={folder / name}'] + words, check=True,
                       capture_output=True)
    for name in 'divided', 'by-two':
        check_files_of(folder, name)


def check_files_of(folder, run):
    index = json.loads((folder / run / 'ckpt-2.safetensors.index.json').read_text())
    files = sorted(set(index['weight_map'].values()))
    assert files == [f'ckpt-2.0000{i}-of-00003.safetensors' for i in (1, 2, 3)], files
    size, found = 0, {}
    for file in files:
        for name, value in safetensors.numpy.load_file(folder / run / file).items():
            assert index['weight_map'][name] == file, (name, file)
            found[name] = value
            size += value.nbytes
    assert size == index['metadata']['total_size'], size
    assert found.keys() == index['weight_map'].keys()
    expected = safetensors.numpy.load_file(folder / 'one/ckpt-2.safetensors')
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and (found[name] == value).all(), name


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('safetensors_driver', folder)
        subprocess.run([driver, 'write', folder], check=True)
        check_plain(folder / 'plain.safetensors')
        check_checkpoint(folder / 'ckpt.safetensors')
        check_reading(driver, folder)
        check_program(folder / 'ckpt.safetensors')
        check_divided(folder)
    print(f'{len(TYPES)} types, both ways')
    return 0


if __name__ == '__main__':
    sys.exit(main())
