"""`tilth tokenize` beside the four programs whose numbers it gives: characters, and lines of text.

    check_tokenizers.py [LINES [RULE...]]          # 20000 and all rules unless they are said

tests/soak/tokenizers.sh asks for a million, and for every character.

Lines are of Debian's packages in many languages, fetched with apt-get where they can be, and random mixtures of scripts,
marks, controls and bytes that are no UTF-8. Each rule is asked with lower case and without; ids must be the same.
tokenizer_driver.c, compiled against the library that was built, tokenizes; one line goes through the command as well.
"""
import collections
import gzip
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from driver import compile_driver
from model_garden import under_its_python

under_its_python(__file__)

import tokenizer_peers as peers
from tokenizers import Tokenizer

TILTH = pathlib.Path(os.environ['TILTH']).resolve()
LINES = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
RULES = sys.argv[2:] or peers.RULES
FULL = LINES >= 1000000
PACKAGES = ('debian-reference-en debian-reference-de debian-reference-fr debian-reference-it debian-reference-es '
            'debian-reference-pt debian-reference-ja debian-reference-zh-cn debian-reference-zh-tw manpages-ja manpages-zh '
            'manpages-ru fortunes fortunes-min fortunes-de fortunes-es fortunes-it fortunes-pl fortunes-cs fortunes-ru '
            'fortunes-zh').split()


def rare(c):
    """Characters that vocabularies lack, unless all are asked for: the programs take long to read so many."""
    return not FULL and c >= 0x3400 and c % 11


# --- texts -------------------------------------------------------------------------------------------------------

def fetch(folder):
    """Unpacks Debian's packages; those that cannot be had are left out."""
    for package in PACKAGES:
        subprocess.run(['apt-get', 'download', '-q', package], cwd=folder, capture_output=True, check=False)
    for file in folder.glob('*.deb'):
        subprocess.run(['dpkg-deb', '-x', file, folder / 'x'], check=True)
    return [path for path in (folder / 'x').rglob('*') if path.is_file() and not path.is_symlink()]


def package_lines(folder):
    """Lines of what is text; the pages of fortunes in old encodings are no UTF-8, which is welcome."""
    for path in sorted(fetch(folder)):
        if path.suffix not in ('.gz', '.u8', '.html', '') or 'doc/' in str(path):
            continue
        data = path.read_bytes()
        if path.suffix == '.gz':
            data = gzip.decompress(data)
        if b'\0' not in data[:4096]:
            yield from data.split(b'\n')


def lines(folder):
    """At most half of them are of packages."""
    real = [line for line in package_lines(folder) if line.strip()]
    count = len(real)
    random.Random(3).shuffle(real)
    real = real[:LINES // 2]
    print(f'{count} lines of Debian\'s packages, {len(real)} of them used')
    broken = peers.broken_lines(LINES // 50)
    return real + broken + peers.random_lines(LINES - len(real) - len(broken), seed=5, odd=peers.RARELY_LONG)


def vocabulary(path, some):
    """Most characters, and the words, beginnings and ends that occur often, as they are and in lower case."""
    counts = collections.Counter()
    for line in some[:200000]:
        for word in re.findall(r'\w+', line.decode(errors='ignore'))[:40]:
            counts.update({word, word.lower(), word[:4].lower(), '##' + word[3:].lower(), '##' + word[-3:]})
    pieces = peers.alphabet(lambda c: c % 37 == 5 or rare(c))
    known = set(pieces)
    words = [word for word, _ in counts.most_common(60000) if word not in known and word != '##']
    return peers.write_vocab(path, [*pieces, *words])


# --- comparing ---------------------------------------------------------------------------------------------------

def ours(driver, rules, lower, vocab, some):
    done = subprocess.run([driver, rules, 'lower' if lower else 'cased', vocab], input=b''.join(s + b'\n' for s in some),
                          stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split('\n')[:-1]


def compare(name, some, want, got):
    assert len(want) == len(got) == len(some), (name, len(want), len(got), len(some))
    ids = 0
    for line, there, here in zip(some, want, got):
        ids += len(there or ())
        there = 'refused' if there is None else ' '.join(map(str, there))
        assert there == here, f'{name}: {line!r}:\nits ids {there}\nours    {here}'
    print(f'{name}: {len(some)} lines, {ids} ids, all the same', flush=True)


def characters():
    """Every character, among others that show what was made of it."""
    for c in itertools.chain(range(0xd800), range(0xe000, 0x110000)):
        c = chr(c) if c != 10 else ' '
        yield f'{c} x{c}y'.encode()
        yield f'A\u03a3{c}b A{c}\u03a3 x\u0345{c}\u0334'.encode()


def check_rules(driver, folder):
    alphabet = peers.write_vocab(folder / 'alphabet.txt', peers.alphabet(rare))
    some = lines(folder)
    words = vocabulary(folder / 'words.txt', some)
    every = list(characters())
    if not FULL:
        every = every[::29]  # all of them take long; tests/text/test_golden.c looks at them too
    for rules in RULES:
        for lower in (True, False):
            name = f'{rules}, {"lower" if lower else "cased"}'
            compare(f'{name}, characters', every, peers.peer(rules, alphabet, lower)(every),
                    ours(driver, rules, lower, alphabet, every))
            compare(f'{name}, text', some, peers.peer(rules, words, lower)(some), ours(driver, rules, lower, words, some))
    return words, some


def check_json(driver, folder, some):
    """Files of tokenizers itself with all that BertNormalizer can be told."""
    texts = [line for line in some[-4000:] if line.decode(errors='ignore').encode() == line]
    pieces = [*peers.SPECIALS, *(p for c in range(0x21, 0x3000) if not chr(c).isspace() and c not in range(0x7f, 0xa0)
                                 for p in (chr(c), '@' + chr(c)))]
    for clean, chinese, strip, lower in itertools.product((True, False), (True, False), (True, False, None), (True, False)):
        file = folder / 'tokenizer.json'
        file.write_text(json.dumps({
            'version': '1.0', 'truncation': None, 'padding': None,
            'added_tokens': [{'id': i, 'content': s, 'single_word': False, 'lstrip': False, 'rstrip': False,
                              'normalized': False, 'special': True} for i, s in enumerate(peers.SPECIALS)],
            'normalizer': {'type': 'BertNormalizer', 'clean_text': clean, 'handle_chinese_chars': chinese,
                           'strip_accents': strip, 'lowercase': lower},
            'pre_tokenizer': {'type': 'BertPreTokenizer'}, 'post_processor': None, 'decoder': None,
            'model': {'type': 'WordPiece', 'unk_token': '[UNK]', 'continuing_subword_prefix': '@',
                      'max_input_chars_per_word': 30, 'vocab': {p: i for i, p in enumerate(pieces)}}}))
        there = Tokenizer.from_file(str(file)).encode_batch([t.decode() for t in texts], add_special_tokens=False)
        compare(f'tokenizer.json {clean} {chinese} {strip} {lower}', texts, [e.ids for e in there],
                ours(driver, 'hf', True, file, texts))


def check_command(driver, folder, words, some):
    """The program says what the driver says."""
    (folder / 'text.txt').write_bytes(b''.join(line + b'\n' for line in some[:2000]))
    done = subprocess.run([TILTH, 'tokenize', '--rules=model_garden', '--lower', f'--vocab={words}', folder / 'text.txt'],
                          stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().split('\n')[:-1] == ours(driver, 'model_garden', True, words, some[:2000])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('tokenizer_driver', folder)
        words, some = check_rules(driver, folder)
        check_json(driver, folder, some)
        check_command(driver, folder, words, some)
    return 0


if __name__ == '__main__':
    sys.exit(main())
