"""create_pretraining_data and the library of create_finetuning_data beside `tilth data pretraining` and `finetuning`:
on a larger text, with the flags of both, every record has the same features.

With --speed it writes how many examples a second both make, and on how many threads.
"""
import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from model_garden import run, under_its_python

under_its_python(__file__)

import tensorflow as tf
from official.nlp.data import classifier_data_lib
from official.nlp.tools import tokenization

TILTH = pathlib.Path(os.environ['TILTH']).resolve()
rng = random.Random(20)
LETTERS = 'aeioubcdfghklmnprstvwz'
ODD = ['Straße', 'İstanbul', 'été', '博物館', 'नमस्ते', 'ﬁne', 'x\u2028y', 'soft\u00adhyphen', "don't", 'U.S.A.', '3.14',
       '[MASK]', 'zero\u200bwidth', 'e\u0301', '한국어', '😀', 'a' * 450, '\x85', 'tab\there']


def syllable():
    return rng.choice(LETTERS[5:]) + rng.choice(LETTERS[:5])


def vocabulary():
    """As BERT's: special pieces, characters, then words and pieces of words."""
    pieces = ['[PAD]'] + [f'[unused{i}]' for i in range(99)] + ['[UNK]', '[CLS]', '[SEP]', '[MASK]']
    pieces += [chr(c) for c in range(33, 127)] + [f'##{letter}' for letter in LETTERS] + ['été', 'ete', '博', '物']
    words = {syllable() + rng.choice(['', syllable(), syllable() + syllable()]) for _ in range(20000)}
    parts = {f'##{syllable()}{rng.choice(["", "n", "s", "ing"])}' for _ in range(4000)}
    pieces += sorted(words - set(pieces)) + sorted(parts - set(pieces))
    return pieces, sorted(words)


def sentence(words, length):
    """Few words are frequent, some are made of pieces, capitals and signs stand between them."""
    made = []
    for _ in range(length):
        word = words[min(int(rng.paretovariate(0.6)) - 1, len(words) - 1)]
        kind = rng.random()
        if kind < 0.15:
            word += syllable() + rng.choice(['', 'ing', 's'])
        elif kind < 0.25:
            word = word.capitalize() + rng.choice([',', '.', '!', ''])
        elif kind < 0.27:
            word = rng.choice(ODD)
        made.append(word)
    return ' '.join(made)


def put_corpus(folder, words, documents):
    """Two files; the second goes on where the first ends."""
    lines = [[], []]
    kept = []
    for i in range(documents):
        document = [sentence(words, max(1, int(rng.gauss(14, 9)))) for _ in range(rng.choice([1, 2, 5, 12, 30]))]
        if i % 50 == 7 and kept:
            document = rng.choice(kept)
        kept.append(document)
        lines[i * 2 // documents] += document + [rng.choice(['', ' ', '\u3000\r', '\n'])]
    lines[0].pop()
    for name, part in zip('ab', lines):
        (folder / f'{name}.txt').write_bytes('\n'.join(part).encode() + b'\nb\xff\xfead \xe2\x82 bytes\n')


def records(path, packed=False):
    for record in tf.data.TFRecordDataset(str(path), compression_type='GZIP' if packed else ''):
        yield tf.train.Example.FromString(record.numpy()).features


def compare(ours, theirs, packed=False):
    count = 0
    for a, b in zip(records(ours, packed), records(theirs, packed), strict=True):
        assert a == b, f'{ours}, record {count}:\n{a}\n{b}'
        count += 1
    assert count
    return count


# --- pre-training --------------------------------------------------------------------------------------

FLAGS = (
    [],
    ['--do_whole_word_mask', '--max_seq_length=64', '--max_predictions_per_seq=10', '--dupe_factor=3'],
    ['--do_lower_case=false', '--random_seed=99', '--dupe_factor=2', '--use_v2_feature_names', '--gzip_compress',
     '--masked_lm_prob=0.3', '--short_seq_prob=0.6', '--max_seq_length=37'],
    ['--max_seq_length=512', '--max_predictions_per_seq=76', '--dupe_factor=1', '--do_whole_word_mask'],
)


def check_pretraining(folder, speed):
    files = f'{folder}/a.txt,{folder}/b.txt'
    for number, flags in enumerate(FLAGS):
        outputs = 3 if number == 1 else 1
        names = {who: ','.join(f'{folder}/{who}{number}-{i}' for i in range(outputs)) for who in ('ours', 'theirs')}
        common = [f'--vocab_file={folder}/vocab.txt', f'--input_file={files}', *flags]
        start = time.monotonic()
        run(sys.executable, '-m', 'official.nlp.data.create_pretraining_data', f'--output_file={names["theirs"]}',
            *common)
        seconds = time.monotonic() - start
        run(TILTH, 'data', 'pretraining', f'--output_file={names["ours"]}', *common)
        count = sum(compare(a, b, '--gzip_compress' in flags)
                    for a, b in zip(names['ours'].split(','), names['theirs'].split(',')))
        print(f'pretraining {" ".join(flags) or "as it is"}: {count} records are equal')
        if speed and number == 0:
            tell_speed(folder, common, count, seconds)


def tell_speed(folder, common, count, seconds):
    """The original's start takes seconds, which do not count."""
    start = time.monotonic()
    run(sys.executable, '-c', 'from official.nlp.data import create_pretraining_data')
    seconds -= time.monotonic() - start
    print(f'the original: {count / seconds:.0f} examples a second')
    for threads in (1, 2):
        best = 1e9
        for _ in range(3):
            start = time.monotonic()
            subprocess.run([TILTH, 'data', 'pretraining', f'--output_file={folder}/speed', '--overwrite', *common],
                           check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, 'TILTH_NUM_THREADS': str(threads)})
            best = min(best, time.monotonic() - start)
        print(f'ours, {threads} thread(s): {count / best:.0f} examples a second, {seconds / best:.1f} times as many')


# --- fine-tuning ---------------------------------------------------------------------------------------

def check_finetuning(folder, words):
    rows = [(sentence(words, rng.choice([1, 5, 20, 80])), rng.choice(['', sentence(words, rng.choice([1, 9, 60]))]),
             rng.choice('abc')) for _ in range(3000)]
    table = folder / 'rows.tsv'
    table.write_text('\n'.join(['first\tsecond\tlabel'] + [
        '\t'.join(' '.join(cell.replace('\x85', ' ').replace('\u2028', ' ').split()) for cell in row)
        for row in rows]) + '\n')
    rows = [line.split('\t') for line in table.read_text().split('\n')[1:-1]]
    tokenizer = tokenization.FullTokenizer(f'{folder}/vocab.txt', True)
    examples = [classifier_data_lib.InputExample('', a, b, label) for a, b, label in rows]
    classifier_data_lib.file_based_convert_examples_to_features(
        examples, ['a', 'b', 'c'], 128, tokenizer, f'{folder}/classes_theirs')
    run(TILTH, 'data', 'finetuning', f'--vocab_file={folder}/vocab.txt', f'--train_file={table}',
        '--text_columns=first,second', f'--train_data_output_path={folder}/classes_ours', '--header=first_line')
    count = compare(f'{folder}/classes_ours', f'{folder}/classes_theirs')
    print(f'finetuning: {count} records are equal')


def main():
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pieces, words = vocabulary()
        (folder / 'vocab.txt').write_text('\n'.join(pieces) + '\n')
        put_corpus(folder, words, 400)
        check_pretraining(folder, '--speed' in sys.argv)
        check_finetuning(folder, words)


if __name__ == '__main__':
    main()
