"""What the checks against Model Garden share: its Python, and a configuration in its words. Its pictures are those of
examples/from_model_garden."""
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / '.venv-tf/bin/python'
sys.path.append(str(ROOT / 'examples/from_model_garden'))
SIZE, CLASSES = 32, 10


def under_its_python(script):
    """TensorFlow has an environment of its own (requirements-original.txt): runs the script again with that one's
    Python."""
    if pathlib.Path(sys.prefix).name == '.venv-tf':
        return
    if not PYTHON.exists():
        print('SKIPPED: Model Garden is not installed; `./build.sh interop` does that')
        sys.exit(0)
    os.environ.update(TF_USE_LEGACY_KERAS='1', TF_CPP_MIN_LOG_LEVEL='3', CUDA_VISIBLE_DEVICES='')
    os.execv(PYTHON, [str(PYTHON), script, *sys.argv[1:]])


def run_and_log(*command):
    """What it says on standard output and in its log; it must end well."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False)
    assert done.returncode == 0, f'{command}\n{done.stdout}{done.stderr}'
    return done.stdout, done.stderr


def run(*command):
    return run_and_log(*command)[0]


def put(config, changes):
    """Changes go into a configuration, section by section."""
    for key, value in changes.items():
        if isinstance(value, dict) and key in config:
            put(config[key], value)
        else:
            config[key] = value


def configuration(folder, optimization, backbone, changes=None, steps=20):
    """What both read; the file is Model Garden's own words. `changes` are of the task."""
    config = {
        'runtime': {'distribution_strategy': 'one_device', 'mixed_precision_dtype': 'float32'},
        'task': {
            'model': {'num_classes': CLASSES, 'input_size': [SIZE, SIZE, 3],
                      'backbone': {'type': 'resnet', 'resnet': backbone},
                      'norm_activation': {'activation': 'relu', 'norm_momentum': 0.9, 'norm_epsilon': 1e-5}},
            'losses': {'l2_weight_decay': 1e-4, 'label_smoothing': 0.1},
            'train_data': {'input_path': f'{folder}/train.tfrecord', 'global_batch_size': 32},
            'validation_data': {'input_path': f'{folder}/val.tfrecord', 'global_batch_size': 50,
                                'is_training': False, 'drop_remainder': False}},
        'trainer': {'train_steps': steps, 'steps_per_loop': 10, 'summary_interval': 10, 'checkpoint_interval': 10,
                    'validation_interval': steps, 'validation_steps': -1, 'optimizer_config': optimization}}
    put(config['task'], changes or {})
    path = folder / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return path, config


# --- steps, each from the state that Model Garden was in --------------------------------------------------------------------------


def scalars(folder):
    """{tag: {step: value}} of a folder of event files, as TensorBoard reads it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorflow import make_ndarray
    events = EventAccumulator(str(folder), size_guidance={'tensors': 0}).Reload()
    return {tag: {e.step: float(make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)}
            for tag in events.Tags()['tensors']}


def weights(path):
    """{variable: value} of a checkpoint of TensorFlow's, without what belongs to the optimizer."""
    from tensorflow import train
    reader = train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
            if name.startswith('model/') and 'OPTIMIZER_SLOT' not in name and name.endswith('VARIABLE_VALUE')}


def distance(a, b):
    return np.sqrt(sum(np.sum(np.square(a[name].astype(float) - b[name])) for name in a.keys() & b.keys()))


def compare_steps(what, folder, there, parts, steps, train):
    """`train(folder, step)` has ours take one step more in a folder with the checkpoint that Model Garden had before it
    (all of them are in `there`): both tell the same losses, in each of the parts, and change the weights alike."""
    tilth, here, back = os.environ['TILTH'], folder / 'step', folder / 'step back'
    wanted = {part: scalars(there / part) for part in parts}
    loss = change = 0
    for step in steps:
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        before = f'ckpt-{step - 1}'
        for file in there.glob(f'{before}.*'):
            shutil.copy(file, here)
        (here / 'checkpoint').write_text(f'model_checkpoint_path: "{before}"\nall_model_checkpoint_paths: "{before}"\n')
        train(here, step)
        for part, tags in wanted.items():
            mine = scalars(here / part)
            loss = max([loss, *(abs(mine[tag][step] - tags[tag][step]) / max(1, abs(tags[tag][step]))
                                for tag in tags if 'loss' in tag)])
        run(tilth, 'ckpt', 'convert', here / f'ckpt-{step}.safetensors', back / f'ckpt-{step}')
        old, new, mine = weights(there / before), weights(there / f'ckpt-{step}'), weights(back / f'ckpt-{step}')
        assert mine.keys() == new.keys(), mine.keys() ^ new.keys()
        change = max(change, distance(mine, new) / distance(old, new))
    assert loss <= 1e-5 and change <= 1e-3, (loss, change)
    print(f'{what}: {len(steps)} steps, each from its state: losses apart by {loss:.1e} at most, changes by {change:.1e} of them')
