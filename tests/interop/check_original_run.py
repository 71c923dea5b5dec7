"""Runs of Model Garden and of ours on the same records and configuration, handed over to each other in mid-run.

Model Garden trains; ours evaluates its folder, then goes on in a copy of it; Model Garden evaluates what ours has made
of it. Both tell the same numbers, under the same tags, in the same words.
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

from model_garden import configuration, run, run_and_log, under_its_python

under_its_python(__file__)

import numpy as np
from pictures import write_records
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TILTH = os.environ['TILTH']
STEPS, MORE = 30, 50
PICTURES = 467  # of the validation; in batches of 50 the last one is short
OPTIMIZATION = {'optimizer': {'type': 'sgd', 'sgd': {'momentum': 0.9}},
                'learning_rate': {'type': 'constant', 'constant': {'learning_rate': 0.02}},
                'ema': {'average_decay': 0.9}}
EVALUATION = {'top_k': 3, 'precision_and_recall_thresholds': [0.2, 0.5],
              'report_per_class_precision_and_recall': True}


def theirs(config, mode, folder):
    """All pictures are one batch in its evaluations: it weighs batches alike, and ours weighs pictures."""
    return run_and_log(sys.executable, '-m', 'official.vision.train', '--experiment=image_classification', f'--mode={mode}',
               f'--model_dir={folder}', f'--config_file={config}',
               f'--params_override=task.validation_data.global_batch_size={PICTURES}')


def ours(config, mode, folder, *words):
    return run_and_log(TILTH, 'train', '--experiment=image_classification', f'--mode={mode}', f'--model_dir={folder}',
               f'--config_file={config}', *words)


def scalars(folder):
    """The last value of each tag, as TensorBoard reads them."""
    events = EventAccumulator(str(folder), size_guidance={'tensors': 0}).Reload()
    found = {tag: events.Tensors(tag)[-1] for tag in events.Tags()['tensors']}
    return {tag: (event.step, float(np.frombuffer(event.tensor_proto.tensor_content, np.float32)[0])
                  if event.tensor_proto.tensor_content else event.tensor_proto.float_val[0])
            for tag, event in found.items()}


def take_over(source, folder):
    """Somebody's checkpoints in a folder of their own."""
    folder.mkdir()
    for file in source.glob('ckpt-*'):
        shutil.copy(file, folder)
    shutil.copy(source / 'checkpoint', folder)
    return folder


def compare(what, here, there):
    """As the two tell of one checkpoint."""
    assert set(here) == set(there), set(here) ^ set(there)
    for name in set(there) - {'validation_loss'}:
        assert here[name][0] == there[name][0] and abs(here[name][1] - there[name][1]) <= 1e-3, (name, here, there)
    loss, wanted = here['validation_loss'][1], there['validation_loss'][1]
    print(f"{what}: {len(there)} tags, accuracy {here['accuracy'][1]:.4f} and {there['accuracy'][1]:.4f}, loss {loss:.6f} and "
          f'{wanted:.6f}, apart by {abs(loss - wanted) / wanted:.1e}')
    assert abs(loss - wanted) <= 1e-3 * abs(wanted)


def kinds(said, folder):
    """Lines without what differs from run to run: numbers, and the folder. What Python wraps around a number goes, and
    a text that it breaks into lines is one."""
    said = re.sub(r'np\.float32\(([^)]*)\)', r'\1', said.replace(str(folder), 'm').replace('.safetensors', ''))
    said = re.sub(r'(?<![\w/-])-?\d+(\.\d+)?(e[-+]?\d+)?', 'N', re.sub(r'ckpt-\d+', 'ckpt-N', said))
    return [re.sub(r'\s+', ' ', line).strip() for line in re.sub(r'\s*\n {2,}(?=[\'{])', ' ', said).splitlines() if line.strip()]


LOG = ('Final experiment parameters:', 'Saving experiment configuration to m/params.yaml', 'Running default trainer.',
       'Starts to execute mode: train_and_eval', 'Number of trainable params in model: N Millions.',
       'FLOPs (multi-adds) in model: N Billions.',
       'Saving gin configurations to m/operative_config.train_and_eval.gin')


def compare_words(here, there):
    """Each line of theirs is among ours, in order; so are the lines of the log that people look for."""
    rest = iter(kinds(here[0], here[2]))
    for line in kinds(there[0], there[2]):
        assert line in rest, f'{line!r} is not, or not there, in\n{here[0]}'
    for said, log, folder in here, there:
        lines = kinds(log, folder)
        missing = [words for words in LOG if not any(words in line for line in lines)]
        assert not missing, (missing, log)
    print(f'{len(kinds(there[0], there[2]))} lines and {len(LOG)} of the log are there in the same words')


def tags(folder):
    return {part.name: set(scalars(part)) for part in sorted(folder.iterdir()) if part.is_dir()}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rng = np.random.default_rng(1)
        write_records(folder / 'train.tfrecord', rng, 640)
        write_records(folder / 'val.tfrecord', rng, PICTURES)
        config, _ = configuration(folder, OPTIMIZATION, {'model_id': 18}, {'evaluation': EVALUATION}, STEPS)
        there = *theirs(config, 'train_and_eval', folder / 'theirs'), folder / 'theirs'
        told = scalars(folder / 'theirs/validation')

        copy = take_over(folder / 'theirs', folder / 'evaluated')
        ours(config, 'eval', copy)
        compare('their checkpoint, evaluated by ours and by theirs', scalars(copy / 'validation'), told)

        on = take_over(folder / 'theirs', folder / 'on')
        said, _ = ours(config, 'train_and_eval', on,
                       f'--params_override=trainer.train_steps={MORE},trainer.validation_interval={MORE}')
        assert f'restored model from {on}/ckpt-{STEPS}.' in said and f'step:     {MORE}' in said, said
        assert tags(on) == tags(folder / 'theirs'), (tags(on), tags(folder / 'theirs'))
        print(f"tags in both: {', '.join(f'{len(found)} of {part}' for part, found in tags(on).items())}")

        back = folder / 'back'
        run(TILTH, 'ckpt', 'convert', on / f'ckpt-{MORE}.safetensors', back / f'ckpt-{MORE}')
        theirs(config, 'eval', back)
        compare('ours, evaluated by ours and by theirs', scalars(on / 'validation'), scalars(back / 'validation'))

        here = *ours(config, 'train_and_eval', folder / 'ours'), folder / 'ours'
        compare_words(here, there)


if __name__ == '__main__':
    main()
