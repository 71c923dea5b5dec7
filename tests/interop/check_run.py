"""Others read the folders that a training leaves.

Two small trainings, one by each front door of the program. TensorBoard's own loader reads every event file: tags,
steps and values are those of the log and of metrics.json. `safetensors` reads every checkpoint: names, types and
numbers are those that `tilth ckpt show` tells, and the weights give the loss that was told. The state file is read as
the protocol buffer in text form that it is. Then the first training goes on, and each step is still told once.
"""

import ast
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.numpy
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.util import tensor_util

TILTH = os.environ['TILTH']
STEPS, LOOP, SAVE, EVALUATE, BATCHES, BATCH = 40, 10, 15, 20, 5, 10


def tilth(*arguments):
    done = subprocess.run([TILTH, *map(str, arguments)], text=True, capture_output=True)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done.stdout


def near(a, b, tolerance=2e-6):
    return a == b or abs(a - b) <= tolerance * max(1, abs(a), abs(b)) or (math.isnan(a) and math.isnan(b))


# --- what is read -------------------------------------------------------------------------------------

def events(folder):
    """{tag: {step: value}} of all event files in a folder; a step that is told twice is an error."""
    accumulator = plugin_event_accumulator.EventAccumulator(str(folder), tensor_size_guidance={'scalars': 0})
    accumulator.Reload()
    found = {}
    for tag in accumulator.Tags()['tensors']:
        told = [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in accumulator.Tensors(tag)]
        found[tag] = dict(told)
        assert len(told) == len(found[tag]), f'{folder}: {tag} tells a step twice: {told}'
    return found


def log_lines(text, kind):
    """{step: {name: number}} of the lines ` eval | step: 20 | ... | output: {...}`."""
    pattern = rf'^ *{kind} \| step: +(\d+) \|[^\n]*output:\s*(\{{[^}}]*\}})'
    return {int(step): ast.literal_eval(output) for step, output in re.findall(pattern, text, re.MULTILINE)}


def state_file_class():
    """tensorflow.CheckpointState, declared here so that TensorFlow is not needed."""
    file = descriptor_pb2.FileDescriptorProto(name='checkpoint_state.proto', package='tensorflow')
    message = file.message_type.add(name='CheckpointState')
    field = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind, label) in enumerate([
            ('model_checkpoint_path', field.TYPE_STRING, field.LABEL_OPTIONAL),
            ('all_model_checkpoint_paths', field.TYPE_STRING, field.LABEL_REPEATED),
            ('all_model_checkpoint_timestamps', field.TYPE_DOUBLE, field.LABEL_REPEATED),
            ('last_preserved_timestamp', field.TYPE_DOUBLE, field.LABEL_OPTIONAL)], 1):
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName('tensorflow.CheckpointState'))


CheckpointState = state_file_class()


def state_file(folder):
    return text_format.Parse((folder / 'checkpoint').read_text(), CheckpointState())


# --- checks -------------------------------------------------------------------------------------------

def check_checkpoint(path):
    """What safetensors reads is what the program shows; gives the tensors."""
    tensors = safetensors.numpy.load_file(path)
    listed = tilth('ckpt', 'show', '--stats', path).split('\n\n', 1)[1]  # behind what is told of the file
    shown = dict(re.split(' +', line, maxsplit=1) for line in listed.splitlines())
    assert set(shown) == set(tensors), (path, set(shown) ^ set(tensors))
    for name, text in shown.items():
        values = tensors[name]
        if match := re.match(r'(\w+)\[([\d, ]*)\]  least (\S+), mean (\S+), greatest (\S+)', text):
            assert str(values.dtype) == match[1], (path, name, values.dtype, text)
            assert list(values.shape) == [int(n) for n in match[2].split(',') if n], (path, name, text)
            for wanted, found in zip(match.group(3, 4, 5), (values.min(), values.mean(), values.max())):
                assert near(float(wanted), float(found), 1e-5), (path, name, text, found)
        elif match := re.match(r'int (-?\d+)', text):
            assert int(values) == int(match[1]), (path, name, text, values)
        else:
            words = [int(word, 16) for word in re.match(r'words ([0-9a-f ]+)', text)[1].split()]
            assert [int(v) % 2**64 for v in np.atleast_1d(values)] == words, (path, name, text, values)
    return tensors


def check_folder(folder, pattern, wanted):
    """The state file names the files that are there; each can be read. Gives those by their steps."""
    state = state_file(folder)
    names = list(state.all_model_checkpoint_paths)
    assert names == [f'{pattern}-{step}' for step in wanted], (folder, names)
    assert state.model_checkpoint_path == names[-1], state
    times = list(state.all_model_checkpoint_timestamps)
    assert len(times) == len(names) and times == sorted(times), state
    found = {step: check_checkpoint(folder / f'{pattern}-{step}.safetensors') for step in wanted}
    for step, tensors in found.items():
        assert int(tensors['global_step' if 'global_step' in tensors else 'iterations']) == step
    return found


def check_told(folder, logged, also):
    """Event files tell what the log does, at its steps; `also` is what they may tell beyond that."""
    told = events(folder)
    names = {name for numbers in logged.values() for name in numbers}
    assert set(told) == names | also, (folder, set(told) ^ (names | also))
    for step, numbers in logged.items():
        for name, value in numbers.items():
            assert near(told[name][step], value), (folder, name, step, told[name][step], value)
    for name in names:
        assert sorted(told[name]) == sorted(logged), (folder, name, sorted(told[name]))
    return told


def loss_of(kernel, bias):
    """Of the first batches of the validation data: y = x."""
    x = np.arange(BATCHES * BATCH, dtype=np.float32) / np.float32(100)
    return float(np.mean((x - (x * kernel.ravel()[0] + bias.ravel()[0])).astype(np.float64) ** 2))


def train(folder, steps):
    optimizer = 'trainer.optimizer_config'
    return tilth('train', '--experiment=mock', '--mode=train_and_eval', f'--model_dir={folder}', 'tilth.seed=7',
                 'task.train_data.is_training=true', f'trainer.train_steps={steps}',
                 f'trainer.steps_per_loop={LOOP}', f'trainer.summary_interval={LOOP}',
                 f'trainer.checkpoint_interval={SAVE}', f'trainer.validation_interval={EVALUATE}',
                 f'trainer.validation_steps={BATCHES}', f'{optimizer}.optimizer.type=adam',
                 f'{optimizer}.learning_rate.type=constant',
                 f'{optimizer}.learning_rate.constant.learning_rate=0.01',
                 f'++{optimizer}.ema.average_decay=0.9', 'trainer.best_checkpoint_export_subdir=best',
                 'trainer.best_checkpoint_eval_metric=mse', 'trainer.best_checkpoint_metric_comp=lower')


def check_model_garden(folder):
    said = train(folder, STEPS)
    trained, evaluated = log_lines(said, 'train'), log_lines(said, 'eval')
    assert sorted(trained) == list(range(LOOP, STEPS + 1, LOOP)), trained
    assert sorted(evaluated) == list(range(EVALUATE, STEPS + 1, EVALUATE)), evaluated
    for numbers in evaluated.values():
        del numbers['steps_per_second']  # rounded otherwise
    check_told(folder / 'train', trained, {'steps_per_second'})
    told = check_told(folder / 'validation', evaluated, {'steps_per_second'})
    saved = check_folder(folder, 'ckpt', [15, 30, 40])
    averages = check_folder(folder / 'ema_checkpoints', 'average_weights', [20, 40])
    check_folder(folder / 'best', 'best_ckpt', [40])
    for step, tensors in averages.items():  # evaluations are those of the averaged weights
        assert near(told['mse'][step], loss_of(tensors['model/kernel'], tensors['model/bias']), 1e-5), (step, told)
    assert np.array_equal(averages[40]['model/kernel'], saved[40]['optimizer/average/kernel'])
    best = json.loads((folder / 'best/info.json').read_text())
    assert best['best_ckpt_global_step'] == 40 and near(best['mse'], told['mse'][40], 1e-7), best

    said = train(folder, STEPS + EVALUATE)
    more = log_lines(said, 'train')
    assert sorted(more) == [50, 60], said
    check_told(folder / 'train', trained | more, {'steps_per_second'})
    check_folder(folder, 'ckpt', [15, 30, 40, 45, 60])


def check_libai(folder):
    config, out = folder / 'mock.yaml', folder / 'out'
    config.write_text(f'''
model: {{_target_: mock}}
optim: {{_target_: SGD, lr: 0.5, weight_decay: 0}}
train:
  output_dir: {out}
  train_micro_batch_size: {BATCH}
  test_micro_batch_size: {BATCH}
  train_iter: 12
  warmup_ratio: 0.25
  log_period: 3
  checkpointer: {{period: 4}}
  evaluation: {{eval_period: 6, eval_iter: {BATCHES}, eval_metric: mse, eval_mode: min}}
''')
    tilth('train_net', '--config-file', config)
    lines = [json.loads(line) for line in (out / 'metrics.json').read_text().splitlines()]
    told, written = events(out), {}
    for line in lines:
        for name, value in line.items():
            if name != 'iteration':
                written.setdefault(name, {})[line['iteration']] = value
    assert set(told) == set(written), set(told) ^ set(written)
    for name, values in written.items():
        assert sorted(told[name]) == sorted(values), (name, told[name], values)
        for step, value in values.items():
            assert near(told[name][step], value), (name, step, told[name][step], value)
    saved = check_folder(out, 'ckpt', [4, 6, 8, 12])
    assert (out / 'last_checkpoint').read_text().strip() == 'ckpt-12'
    final = check_checkpoint(out / 'model_final.safetensors')
    assert all(np.array_equal(final[name], values) for name, values in saved[12].items())
    for step, tensors in saved.items():
        if step - 1 in written['mse']:  # iterations count from 0
            assert near(written['mse'][step - 1], loss_of(tensors['model/kernel'], tensors['model/bias']), 1e-5)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_model_garden(folder / 'run')
        check_libai(folder)


if __name__ == '__main__':
    sys.exit(main())
