"""The peer of bench_language: Hugging Face's tokenizers, on one thread.

    python bench/peers/language.py FOLDER      # reads names, answers with the seconds of a pass over FOLDER/NAME.txt

It is asked for ids alone (encode_batch_fast), which is the fastest way that it has.
"""
import os
import sys
import time

os.environ['RAYON_NUM_THREADS'] = '1'
os.environ['TOKENIZERS_PARALLELISM'] = 'false'

from tokenizers import BertWordPieceTokenizer

FOLDER = sys.argv[1]
ready = {}


def prepare(name):
    with open(f'{FOLDER}/{name}.txt', encoding='utf-8', newline='\n') as file:
        lines = file.read().split('\n')
    tokenizer = BertWordPieceTokenizer(f'{FOLDER}/vocab.txt', lowercase='cased' not in name)
    return lambda: tokenizer._tokenizer.encode_batch_fast(lines, add_special_tokens=False)


for line in sys.stdin:
    case = line.strip()
    if case not in ready:
        ready[case] = prepare(case)
        ready[case]()
    begin = time.perf_counter()
    ready[case]()
    print(time.perf_counter() - begin, flush=True)
