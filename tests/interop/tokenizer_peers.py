"""The four programs whose numbers `tilth tokenize` gives, and texts to show them.

Used by check_tokenizers.py and by tests/golden/tokenizers.py, under the Python of requirements-original.txt.
"""
import random
import unicodedata

import tensorflow as tf
import tensorflow_text
from absl import flags
from bert import tokenization as bert
from official.nlp.tools import tokenization as model_garden
from tokenizers import BertWordPieceTokenizer

RULES = ('hf', 'model_garden', 'tf_text', 'bert')
SPECIALS = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]')
if not flags.FLAGS.is_parsed():
    flags.FLAGS(['tokenizer_peers'])


class Python:
    """Model Garden's tools, or google-research/bert: the same words, other limits."""

    def __init__(self, module, vocab, lower):
        self.full = module.FullTokenizer(vocab, do_lower_case=lower)

    def __call__(self, lines):
        return [self.full.convert_tokens_to_ids(self.full.tokenize(line)) for line in lines]


class HuggingFace:
    def __init__(self, vocab, lower):
        self.fast = BertWordPieceTokenizer(vocab, lowercase=lower)

    def __call__(self, lines):
        """None for what is no UTF-8: there is no text to give to it."""
        texts = []
        for line in lines:
            try:
                texts.append(line.decode())
            except UnicodeDecodeError:
                texts.append(None)
        found = iter(self.fast.encode_batch([t for t in texts if t is not None], add_special_tokens=False))
        return [None if t is None else next(found).ids for t in texts]


class TfText:
    def __init__(self, vocab, lower):
        self.fast = tensorflow_text.BertTokenizer(vocab, lower_case=lower)

    def __call__(self, lines):
        found = []
        for at in range(0, len(lines), 20000):
            some = self.fast.tokenize(tf.constant(lines[at:at + 20000]))
            found += some.merge_dims(1, 2).to_list() if some.ragged_rank == 2 else some.to_list()
        return found


def peer(rules, vocab, lower):
    """A function from lines (bytes) to lists of ids."""
    vocab = str(vocab)
    if rules == 'hf':
        return HuggingFace(vocab, lower)
    if rules == 'tf_text':
        return TfText(vocab, lower)
    return Python(bert if rules == 'bert' else model_garden, vocab, lower)


# --- vocabularies and texts -----------------------------------------------------------------------------------------

def alphabet(leave_out=lambda c: False):
    """Every character that a line of vocab.txt can hold, alone and behind another."""
    chars = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000 and not leave_out(c)]
    chars = [c for c in chars if not c.isspace() and unicodedata.category(c) != 'Cc' and c != '\ufeff']
    return [*SPECIALS, *chars, *('##' + c for c in chars)]


def write_vocab(path, pieces):
    path.write_bytes(''.join(piece + '\n' for piece in pieces).encode())
    return path


SCRIPTS = ((0x20, 0x7f, 30), (0xa0, 0x250, 10), (0x250, 0x370, 3), (0x370, 0x400, 8), (0x400, 0x530, 8), (0x590, 0x700, 5),
           (0x900, 0xe00, 6), (0xe00, 0x1000, 3), (0x1000, 0x1400, 4), (0x1e00, 0x2000, 6), (0x2000, 0x2c00, 8),
           (0x3000, 0x3400, 5), (0x3400, 0xa000, 5), (0xa000, 0xac00, 3), (0xac00, 0xd7a4, 4), (0xf900, 0x10000, 6),
           (0x10000, 0x20000, 4), (0x1d100, 0x1d800, 2), (0x20000, 0x30000, 2), (0xe0000, 0xe0200, 1), (0x30000, 0x110000, 1))
MARKS = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000 and unicodedata.combining(chr(c))]
MOVING = [c for c in MARKS if unicodedata.category(c) != 'Mn'] + ['\u0334', '\u0345', '\u0301', '\u0900', '\u0e31', '\u20dd']
SIGMAS = ['\u03a3', '\u0391', '\u03b1', '\u0301', "'", '.', ':', '\u00ad', '\u2019', ' ', '\u4e00', '1', '\u02b0', '-', '\u0345']
ODD = ['\0', '\x01', '\x0b', '\x0c', '\x1c', '\x1f', '\t', '\r', '\x7f', '\x85', '\xa0', '\xad', '\u200b', '\u200d', '\u2028',
       '\u2029', '\u3000', '\ufeff', '\ufffd', '\ufdfa', '\u0130', '\u1e9e', '\ufb03', '\u212b', '\u1fef', '\u226e', '[MASK]',
       '[CLS]', '[mask]', '[UNK', '##', "don't", 'x' * 99, 'y' * 120, '\u0434' * 51, 'z' * 201, '\u3042' * 401]
RARELY_LONG = [c for c in ODD if len(c) < 20] * 40 + ODD  # long words take Python long
BAD = [b'\x80', b'\xc0\x80', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xe4\xb8', b'\xff', b'\xf0\x9f', b'\xc3', b'\xed\xb0\x80',
       b'\xf8\x88\x80\x80\x80', b'\xe0\x80\xaf', b'\xf0\x80\x80\xaf', b'\xe2\x82']


def random_line(rng, bad=False, odd=ODD):
    """Words of one script or of several, with marks, controls, sigmas; with bytes that are no UTF-8 where asked."""
    out, weights = [], [w for _, _, w in SCRIPTS]
    first, last, _ = rng.choices(SCRIPTS, weights)[0]
    for _ in range(rng.randint(1, 40)):
        kind = rng.random()
        if kind < 0.5:
            char = rng.randrange(first, last)
            out.append(chr(char) if not 0xd800 <= char < 0xe000 else 'a')
        elif kind < 0.62:
            out.append(' ')
        elif kind < 0.7:
            out.append(rng.choice('.,;:!?()-"\'/<>$^`~_@#%&*+=|\\'))
        elif kind < 0.76:
            out.append(''.join(rng.choices(MARKS, k=rng.randint(1, 4))))
        elif kind < 0.8:
            out.append(''.join(rng.choices(MOVING, k=rng.randint(2, 5))))
        elif kind < 0.86:
            out.append(''.join(rng.choices(SIGMAS, k=rng.randint(2, 6))))
        elif kind < 0.92:
            out.append(rng.choice(odd))
        else:
            first, last, _ = rng.choices(SCRIPTS, weights)[0]
    line = ''.join(out).encode()
    if bad:
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(line))
            line = line[:at] + rng.choice(BAD) + line[at:]
    return line.replace(b'\n', b' ')


def random_lines(count, seed=1, bad=0.05, odd=ODD):
    rng = random.Random(seed)
    return [random_line(rng, rng.random() < bad, odd) for _ in range(count)]


GAPS = ['\u00ad', '\u200b', '\ufe0f', '\u0301', '\u0345\u0334', '\u1bf2', '\u1bf2\u0345\u1bf2', '\u0900', '', 'a', ' ']
WHOLE = '\u4e00\u00c9\u00e9\uac00\u03a9\u0301\u1bf2\u3002x\u2028\ufb01\u00ad\U0001f600\uf900\u0085'


def broken_lines(count, seed=9):
    """Halves of characters, with something between them that may vanish."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        line = b''
        for _ in range(rng.randint(1, 12)):
            char = rng.choice(WHOLE).encode()
            half = rng.randint(0, len(char))
            line += char[:half] + rng.choice(GAPS).encode() + char[half:] + rng.choice([b''] * 16 + [b' ', b'ab', b'.', b'\xff'])
        found.append(line)
    return found
