"""Runs of Model Garden's BERT and of ours on the same records and configuration, handed over to each other.

Model Garden trains; ours evaluates its checkpoint, then goes on in a copy of its folder; Model Garden evaluates what
ours has made of it. Both tell the same numbers, under the same tags, and write the same params.yaml.
"""
import os
import pathlib
import shutil
import sys
import tempfile

from model_garden import put, run, run_and_log, under_its_python

under_its_python(__file__)

import numpy as np
import tensorflow as tf
import yaml
from check_original_run import scalars, tags, take_over
from check_params import Loader, differences

TILTH = os.environ['TILTH']
STEPS, MORE = 6, 10
LENGTH, WORDS, GUESSES, EXAMPLES = 16, 40, 3, 48
BERT = dict(vocab_size=WORDS, hidden_size=16, num_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=LENGTH)
rng = np.random.default_rng(2)


# --- records and configuration ---------------------------------------------------------------------------

def feature(values):
    if values.dtype == np.float32:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example():
    length = int(rng.integers(4, LENGTH + 1))
    mask = (np.arange(LENGTH) < length).astype(np.int64)
    return {'input_ids': rng.integers(1, WORDS, LENGTH) * mask, 'input_mask': mask,
            'segment_ids': (np.arange(LENGTH) > length // 2).astype(np.int64) * mask,
            'masked_lm_positions': rng.integers(0, length, GUESSES),
            'masked_lm_ids': rng.integers(1, WORDS, GUESSES),
            'masked_lm_weights': np.ones(GUESSES, np.float32),  # one weight of all: batches count alike in the original
            'next_sentence_labels': rng.integers(0, 2, 1),
            'label_ids': rng.integers(0, 2, 1)}


def write_records(path, count):
    with tf.io.TFRecordWriter(str(path)) as out:
        for _ in range(count):
            features = {name: feature(values) for name, values in example().items()}
            out.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def configuration(folder, changes):
    data = {'seq_length': LENGTH, 'global_batch_size': 8}
    config = {
        'runtime': {'distribution_strategy': 'one_device', 'enable_xla': False},
        'task': {'model': {'encoder': {'type': 'bert', 'bert': BERT}},
                 'train_data': {**data, 'input_path': f'{folder}/train.tfrecord'},
                 'validation_data': {**data, 'input_path': f'{folder}/val.tfrecord', 'is_training': False,
                                     'drop_remainder': False}},
        'trainer': {'train_steps': STEPS, 'steps_per_loop': 2, 'summary_interval': 2, 'checkpoint_interval': 2,
                    'validation_interval': STEPS, 'validation_steps': EXAMPLES // 8, 'optimizer_config': {
                        'learning_rate': {'polynomial': {'initial_learning_rate': 0.002, 'decay_steps': MORE}},
                        'warmup': {'polynomial': {'warmup_steps': 2}}}}}
    put(config, changes)
    path = folder / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return path


# --- the two sides ---------------------------------------------------------------------------------------

def theirs(experiment, config, mode, folder):
    return run_and_log(sys.executable, '-m', 'official.nlp.train', f'--experiment={experiment}', f'--mode={mode}',
                       f'--model_dir={folder}', f'--config_file={config}')


def ours(experiment, config, mode, folder, *words):
    return run_and_log(TILTH, 'train', f'--experiment={experiment}', f'--mode={mode}', f'--model_dir={folder}',
                       f'--config_file={config}', *words)


def compare(what, here, there):
    """As the two tell of one checkpoint; how fast they are is another matter."""
    assert set(here) == set(there), set(here) ^ set(there)
    worst = 0
    for name in set(there) - {'steps_per_second'}:
        (step, value), (wanted_step, wanted) = here[name], there[name]
        assert step == wanted_step, (name, step, wanted_step)
        worst = max(worst, abs(value - wanted) / max(abs(wanted), 1e-3))
    print(f'{what}: {len(there)} tags, apart by {worst:.1e}')
    assert worst <= 1e-5, (here, there)


def check_run(folder, experiment, changes):
    folder.mkdir()
    write_records(folder / 'train.tfrecord', 4 * EXAMPLES)
    write_records(folder / 'val.tfrecord', EXAMPLES)
    config = configuration(folder, changes)
    theirs(experiment, config, 'train_and_eval', folder / 'theirs')
    told = scalars(folder / 'theirs/validation')

    copy = take_over(folder / 'theirs', folder / 'evaluated')
    ours(experiment, config, 'eval', copy)
    compare(f'{experiment}, their checkpoint', scalars(copy / 'validation'), told)

    on = take_over(folder / 'theirs', folder / 'on')
    said, _ = ours(experiment, config, 'train_and_eval', on,
                   f'--params_override=trainer.train_steps={MORE},trainer.validation_interval={MORE}')
    assert f'restored model from {on}/ckpt-{STEPS}.' in said and f'step:     {MORE}' in said, said
    assert tags(on) == tags(folder / 'theirs'), (tags(on), tags(folder / 'theirs'))
    print(f"{experiment}: tags in both: {', '.join(f'{len(found)} of {part}' for part, found in tags(on).items())}")

    back = folder / 'back'
    run(TILTH, 'ckpt', 'convert', on / f'ckpt-{MORE}.safetensors', back / f'ckpt-{MORE}')
    theirs(experiment, config, 'eval', back)
    compare(f'{experiment}, our checkpoint', scalars(on / 'validation'), scalars(back / 'validation'))

    ours(experiment, config, 'train', folder / 'ours')
    here, there = (yaml.load((folder / side / 'params.yaml').read_text(), Loader) for side in ('ours', 'theirs'))
    lines = list(differences(here, there))
    assert not lines, '\n'.join(lines)
    print(f'{experiment}: params.yaml is the same')
    shutil.rmtree(folder)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_run(folder / 'words', 'bert/pretraining', {'task': {
            'model': {'cls_heads': [{'inner_dim': 16, 'num_classes': 2, 'dropout_rate': 0.1, 'name': 'next_sentence'}]},
            'train_data': {'max_predictions_per_seq': GUESSES}, 'validation_data': {'max_predictions_per_seq': GUESSES}}})
        check_run(folder / 'classes', 'bert/sentence_prediction', {'task': {
            'model': {'num_classes': 2}, 'metric_type': 'matthews_corrcoef'}})


if __name__ == '__main__':
    main()
