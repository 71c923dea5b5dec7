"""TensorFlow reads our checkpoints, restores models from them, writes the same bytes, and we read its checkpoints.

tensorbundle_driver.c, compiled here against the library that was built, writes a model with its optimizer, tensors of
every type, and an index of several blocks; and tells what it reads in what TensorFlow wrote. TensorFlow is large: it
has an environment of its own (requirements-original.txt), .venv-tf at the top of the repository or the Python that
TILTH_ORIGINAL_PYTHON names. Without it there is nothing to compare with, and the check says so.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VALUE = '/.ATTRIBUTES/VARIABLE_VALUE'


def python_with_tensorflow():
    """None when there is none."""
    python = pathlib.Path(os.environ.get('TILTH_ORIGINAL_PYTHON', ROOT / '.venv-tf' / 'bin' / 'python'))
    return str(python) if os.access(python, os.X_OK) else None


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, text=True, capture_output=True).stdout


def tilth(*words, code=0):
    done = subprocess.run([os.environ['TILTH'], *map(str, words)], text=True, capture_output=True)
    assert done.returncode == code, (words, done)
    return done.stdout + done.stderr


# --- their side: runs with TensorFlow -----------------------------------------------------------------------------


class Model:
    """The objects of both sides."""

    def __init__(self, tf):
        self.root = tf.Module()
        self.root.layers = [tf.Module(), tf.Module()]
        self.root.layers[0].kernel = tf.Variable(tf.zeros([2, 3]))
        self.root.layers[1].kernel = self.root.layers[0].kernel
        self.root.layers[1].bias = tf.Variable(tf.zeros([1, 4]))
        self.root.names = {'a/b': tf.Variable(0, dtype=tf.int64), 'c.d': tf.Variable(0, dtype=tf.int64)}
        self.root.text = tf.Variable('')
        self.step = tf.Variable(0, dtype=tf.int64)
        self.optimizer = tf.keras.optimizers.legacy.Adam(0.5)
        self.variables = [self.root.layers[0].kernel, self.root.layers[1].bias]
        self.optimizer.apply_gradients([(tf.ones_like(v), v) for v in self.variables])
        self.checkpoint = tf.train.Checkpoint(model=self.root, optimizer=self.optimizer, global_step=self.step)


def check_restored(model, np):
    kernel, bias = model.variables
    assert (kernel.numpy() == np.arange(6).reshape(2, 3)).all(), kernel
    assert (bias.numpy() == 10 + np.arange(4)).all(), bias
    assert (model.optimizer.get_slot(kernel, 'm').numpy() == 100 + np.arange(6).reshape(2, 3)).all()
    assert (model.optimizer.get_slot(bias, 'v').numpy() == 200 + np.arange(4)).all()
    assert model.optimizer.iterations.numpy() == 77
    assert model.optimizer.learning_rate.numpy() == 0.25
    assert model.root.names['a/b'].numpy() == 5 and model.root.names['c.d'].numpy() == 6
    assert model.root.text.numpy().decode() == 'caf\u00e9'
    assert model.step.numpy() == 1234567890123
    assert model.checkpoint.save_counter.numpy() == 3


def check_types(tf, np, prefix):
    reader = tf.train.load_checkpoint(prefix)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    assert len(shapes) == 30, shapes
    for name, shape in shapes.items():
        type_, which = name.split('/')
        assert types[name].name == type_ and shape == [[], [2, 3], [0, 5]][int(which)], name
        count = int(np.prod(shape))
        expected = np.arange(count) % 2 if type_ == 'bool' else 1 + np.arange(count)
        assert (reader.get_tensor(name).astype(np.float64).ravel() == expected).all(), name


def check_same_bytes(tf, folder, name):
    """What TensorFlow reads in a bundle of ours it writes with the same bytes."""
    reader = tf.train.load_checkpoint(str(folder / name))
    names = sorted(reader.get_variable_to_shape_map())
    again = folder / f'{name}_again'
    tf.raw_ops.SaveV2(prefix=str(again), tensor_names=names, shape_and_slices=[''] * len(names),
                      tensors=[reader.get_tensor(n) for n in names])
    for suffix in ('.index', '.data-00000-of-00001'):
        ours, theirs = ((folder / (n + suffix)).read_bytes() for n in (name, again.name))
        assert ours == theirs, f'TensorFlow writes another {name}{suffix}'


def with_tensorflow(folder):
    os.environ.update(TF_USE_LEGACY_KERAS='1', TF_CPP_MIN_LOG_LEVEL='2')
    import numpy as np
    import tensorflow as tf
    model = Model(tf)
    for name in ('objects', 'converted'):
        status = model.checkpoint.restore(str(folder / name))
        status.assert_consumed()
        status.assert_existing_objects_matched()
        check_restored(model, np)
        for variable in model.variables:
            variable.assign(tf.zeros_like(variable))
    check_types(tf, np, str(folder / 'types'))
    check_same_bytes(tf, folder, 'types')
    check_same_bytes(tf, folder, 'many')
    model.checkpoint.restore(str(folder / 'objects'))
    model.checkpoint.save(str(folder / 'theirs' / 'ckpt'))


# --- our side -----------------------------------------------------------------------------------------------------


def rows(driver, prefix):
    """name -> [type, shape, bytes] of a bundle, and path -> key of its objects."""
    entries, objects = {}, {}
    for line in run(driver, 'read', prefix).splitlines():
        cells = line.split('\t')
        if len(cells) == 4:
            entries[cells[0]] = cells[1:]
        else:
            objects[cells[0]] = cells[1]
    return entries, objects


def check_theirs(driver, folder):
    """A checkpoint that TensorFlow saved after it restored ours has what ours has."""
    ours, our_objects = rows(driver, folder / 'objects')
    theirs, their_objects = rows(driver, folder / 'theirs' / 'ckpt-4')
    ours['save_counter' + VALUE][2] = '04' + 14 * '0'  # it counts
    for entries in (ours, theirs):
        del entries['_CHECKPOINTABLE_OBJECT_GRAPH']
    assert ours == theirs, {name: (ours.get(name), theirs.get(name)) for name in ours.keys() | theirs.keys()
                            if ours.get(name) != theirs.get(name)}
    assert our_objects == their_objects, (our_objects, their_objects)


def check_program(folder):
    """`tilth ckpt` on what TensorFlow wrote: by prefix, file and folder; and both ways through safetensors."""
    prefix = folder / 'theirs' / 'ckpt-4'
    for word in (prefix, f'{prefix}.index', prefix.parent):
        shown = tilth('ckpt', 'show', word)
        assert 'TensorBundle' in shown and 'model/layers/0/kernel' in shown and 'float32[2, 3]' in shown, shown
    assert 'intact' in tilth('ckpt', 'verify', prefix)
    assert '0 different' in tilth('ckpt', 'diff', prefix, prefix)
    tilth('ckpt', 'convert', prefix, folder / 'x.safetensors')
    assert '0 different' in tilth('ckpt', 'diff', prefix, folder / 'x.safetensors')
    tilth('ckpt', 'convert', folder / 'x.safetensors', folder / 'back')
    assert '0 different' in tilth('ckpt', 'diff', folder / 'back', folder / 'x.safetensors')
    data = pathlib.Path(f'{prefix}.data-00000-of-00001')
    damaged = bytearray(data.read_bytes())
    damaged[20] ^= 1
    data.write_bytes(damaged)
    assert 'is damaged' in tilth('ckpt', 'verify', prefix, code=1)


def main():
    from driver import compile_driver
    python = python_with_tensorflow()
    if not python:
        print('SKIPPED: no environment with TensorFlow (.venv-tf, from tests/interop/requirements-original.txt)')
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('tensorbundle_driver', folder)
        run(driver, 'write', folder)
        tilth('ckpt', 'convert', folder / 'objects', folder / 'y.safetensors')
        tilth('ckpt', 'convert', folder / 'y.safetensors', folder / 'converted')
        done = subprocess.run([python, __file__, folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        check_theirs(driver, folder)
        check_program(folder)
    print('bundles, both ways')
    return 0


if __name__ == '__main__':
    if len(sys.argv) > 1:
        sys.exit(with_tensorflow(pathlib.Path(sys.argv[1])))
    sys.exit(main())
