#!/usr/bin/env python3
"""Writes tests/golden/pretraining/: what Model Garden's create_pretraining_data makes of a few small texts, and
create_finetuning_data's library of a few rows.

    TF_USE_LEGACY_KERAS=1 python tests/golden/pretraining_data.py    # with tf-models-official 2.20.0 from PyPI

Each case has its texts and vocabulary here, so that the flags of the case and this file say everything. The original
draws the length of a run of words from the global generator, which has no seed; in the cases with runs of words that
draw is sent to the seeded generator, as it is in Tilth. The readers are tests/text/test_pretraining.c and
test_classification.c, which have the same flags in a table.
"""
import os
import pathlib
import random
import tempfile
import types

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')

from official.nlp.data import classifier_data_lib  # noqa: E402
from official.nlp.data import create_pretraining_data as original  # noqa: E402
from official.nlp.tools import tokenization  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / 'pretraining'

TOY_VOCAB = '[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on mat a dog ran ##s ##ning home bird sang loud ##ly'.split()
TOY = 'the cat sat on the mat\nthe cats ran home\na bird sang loudly\n\na dog ran\nthe dogs sat\nthe dog sang on the mat\n'

# A piece that is there twice, an empty line, and pieces for words of many.
ODD_VOCAB = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'the', 'cat', '', 'the', 'un', '##want', '##ed', 'want',
             '##s', 'run', '##ning', ',', '.', '!', '\u00e9t\u00e9', 'ete', '\u535a', '\u63a8', 'zz', 'ah', "'", 't',
             'don', 'cat', '##ly', 'loud', 'a', 'b', 'c', 'd', '##a', '##b', '##c', '##d', '1', '##2', '[', ']', 'cls']
ODD_FIRST = ('The unwanted cats, running loudly.\r\n'
             '  don\'t RUN!  \n'
             '\u00c9t\u00e9 ah\u535a\u63a8zz\n'
             '\u200b\n'                     # no piece, and yet no empty line
             'abcd dcba abab [CLS] cdcd\n'
             '\n\n\n'
             'one sentence document\n'
             ' \t\u3000\u2028\n'            # empty for Python
             'a b c d a b c d a b c d a b c d a b c d a b c d a b c d a b c d a b c d a b c d a b c d a b c d\n'
             'the cat\n'
             '\n'
             'the cat\nthe cat\nthe cats\n\nthe cat\nthe cat\nthe cats\n\n'
             'unwanted running, unwanted running, unwanted running').encode()
# It goes on the last document of the first file.
ODD_SECOND = (b'the cat \xff\xfe ran\xc3 a12\n\xff\xfe\nthe loudly cat runs. a b\nc d!\n\n\n'
              b'bad \xe2\x82 bytes the \xed\xa0\x80cat\nab ba\x00ab\n')

# More pieces than two bytes can number.
WIDE_VOCAB = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'] + [f'w{i}' for i in range(70000)]
WIDE = '\n'.join(' '.join(f'w{(i * 977 + k * 7919) % 70000}' for k in range(9)) if i % 5 else '' for i in range(40))

CASES = {
    'toy': dict(vocab=TOY_VOCAB, texts=[TOY], max_seq_length=16, dupe_factor=2, max_predictions_per_seq=3),
    'toy_words': dict(vocab=TOY_VOCAB, texts=[TOY], max_seq_length=16, dupe_factor=2, max_predictions_per_seq=3,
                      do_whole_word_mask=True),
    'toy_ngrams': dict(vocab=TOY_VOCAB, texts=[TOY], max_seq_length=24, dupe_factor=5, max_predictions_per_seq=7,
                       masked_lm_prob=0.4, do_whole_word_mask=True, max_ngram_size=3),
    'odd': dict(vocab=ODD_VOCAB, texts=[ODD_FIRST, ODD_SECOND], max_seq_length=21, dupe_factor=4,
                max_predictions_per_seq=8, masked_lm_prob=0.5, short_seq_prob=0.5, random_seed=7,
                use_v2_feature_names=True),
    'odd_words': dict(vocab=ODD_VOCAB, texts=[ODD_FIRST, ODD_SECOND], max_seq_length=5, dupe_factor=2,
                      max_predictions_per_seq=1, short_seq_prob=1.0, random_seed=1 << 40, do_whole_word_mask=True),
    'cased': dict(vocab=ODD_VOCAB, texts=[ODD_SECOND, ODD_FIRST], max_seq_length=33, dupe_factor=1,
                  max_predictions_per_seq=40, masked_lm_prob=1.0, short_seq_prob=0.0, random_seed=0,
                  do_lower_case=False),
    'alone': dict(vocab=TOY_VOCAB, texts=['the cat sat\non the mat\na dog ran'], max_seq_length=8, dupe_factor=3,
                  random_seed=-3),
    'wide': dict(vocab=WIDE_VOCAB, texts=[WIDE], max_seq_length=32, dupe_factor=1, masked_lm_prob=0.3),
    'three': dict(vocab=TOY_VOCAB, texts=[TOY], max_seq_length=12, dupe_factor=2, outputs=3),
}


def put_vocab(folder, pieces):
    path = pathlib.Path(folder) / 'vocab.txt'
    path.write_text(''.join(f'{piece}\n' for piece in pieces), encoding='utf-8')
    return str(path)


def put_texts(folder, texts):
    paths = []
    for i, text in enumerate(texts):
        path = pathlib.Path(folder) / f'{i}.txt'
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(str(path))
    return paths


def make(name, folder, vocab, texts, outputs=1, max_seq_length=128, max_predictions_per_seq=20, random_seed=12345,
         dupe_factor=10, masked_lm_prob=0.15, short_seq_prob=0.1, do_lower_case=True, do_whole_word_mask=False,
         max_ngram_size=None, use_v2_feature_names=False):
    """The body of the original's main, with its flags as arguments."""
    tokenizer = tokenization.FullTokenizer(put_vocab(folder, vocab), do_lower_case)
    rng = random.Random(random_seed)
    if max_ngram_size:
        original.random = types.SimpleNamespace(choices=rng.choices, Random=random.Random)
    try:
        instances = original.create_training_instances(
            put_texts(folder, texts), tokenizer, original.get_processor_text_fn(False, do_lower_case), max_seq_length,
            dupe_factor, short_seq_prob, masked_lm_prob, max_predictions_per_seq, rng, do_whole_word_mask, max_ngram_size)
    finally:
        original.random = random
    paths = [str(FOLDER / f'{name}{i or ""}.tfrecord.gz') for i in range(outputs)]
    original.write_instance_to_example_files(instances, tokenizer, max_seq_length, max_predictions_per_seq, paths,
                                             True, use_v2_feature_names)
    print(f'{name}: {len(instances)} examples')


# Texts, a second text or None, a label; test_classification.c has the same.
ROWS = [('the cat sat', None, 'no'), ('a dog ran home', 'the bird sang loudly', 'yes'),
        ('the cat sat on the mat', 'a', 'no'), ('a', 'the cat sat on the mat a dog ran', 'yes'),
        ('the dogs the dogs the dogs', 'the cats the cats the cats', 'maybe'), ('', 'bird', 'no'), ('bird', ' ', 'no'),
        ('the cat sat on the mat a dog ran home', '', 'maybe')]
LABELS = ['maybe', 'no', 'yes']


def classify(folder):
    tokenizer = tokenization.FullTokenizer(put_vocab(folder, TOY_VOCAB), True)
    for name, labels, kind in (('classes', LABELS, None), ('numbers', None, float)):
        examples = [classifier_data_lib.InputExample('unused', a, b, label if labels else len(label) / 3)
                    for a, b, label in ROWS]
        path = str(pathlib.Path(folder) / name)
        classifier_data_lib.file_based_convert_examples_to_features(examples, labels, 9, tokenizer, path, kind)
        (FOLDER / f'{name}.tfrecord').write_bytes(pathlib.Path(path).read_bytes())


def main():
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            make(name, folder, **case)
        classify(folder)
    put_vocab(FOLDER, TOY_VOCAB)
    (FOLDER / 'vocab.txt').rename(FOLDER / 'toy_vocab.txt')
    put_vocab(FOLDER, ODD_VOCAB)
    (FOLDER / 'vocab.txt').rename(FOLDER / 'odd_vocab.txt')
    (FOLDER / 'toy.txt').write_text(TOY)
    (FOLDER / 'odd_first.txt').write_bytes(ODD_FIRST)
    (FOLDER / 'odd_second.txt').write_bytes(ODD_SECOND)


if __name__ == '__main__':
    main()
