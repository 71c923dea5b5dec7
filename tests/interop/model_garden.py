"""What the checks against Model Garden share: its Python, and a configuration in its words. Its pictures are those of
examples/from_model_garden."""
import os
import pathlib
import subprocess
import sys

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
