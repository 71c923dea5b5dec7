"""The peer of bench_text_data: Model Garden's create_pretraining_data on the same text.

    python bench/peers/text_data_tf.py FOLDER    # reads names, answers with the seconds of a whole file

It is called as its own main calls it; starting Python and TensorFlow does not count.
"""
import logging
import os
import random
import sys
import time

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')

from official.nlp.data import create_pretraining_data as original  # noqa: E402
from official.nlp.tools import tokenization  # noqa: E402

logging.disable(logging.CRITICAL)
FOLDER = sys.argv[1]
tokenizer = tokenization.FullTokenizer(f'{FOLDER}/vocab.txt', do_lower_case=True)


def make(whole_words):
    instances = original.create_training_instances(
        [f'{FOLDER}/text.txt'], tokenizer, original.get_processor_text_fn(False, True), 128, 2, 0.1, 0.15, 20,
        random.Random(12345), whole_words)
    original.write_instance_to_example_files(instances, tokenizer, 128, 20, [f'{FOLDER}/theirs'], False, False)


for line in sys.stdin:
    start = time.perf_counter()
    make('words' in line)
    print(time.perf_counter() - start, flush=True)
