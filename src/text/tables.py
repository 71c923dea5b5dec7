#!/usr/bin/env python3
"""Writes unicode_tables.c: what Python, Hugging Face's tokenizers and tensorflow-text know of Unicode.

    pip install tokenizers==0.23.3 tensorflow==2.20.0 tensorflow-text==2.20.0
    TF_CPP_MIN_LOG_LEVEL=2 python src/text/tables.py

Every character is shown to each of them, for their versions of Unicode differ from one table to the next. Decompositions
and lower case are stored once, and what a library has otherwise beside it. Python's version is that of the interpreter.
"""
import pathlib
import sys
import unicodedata

import tensorflow as tf
import tensorflow_text as text
import tokenizers
from tokenizers import normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).parent / 'unicode_tables.c'
LAST = 0x10ffff
SCALARS = [c for c in range(LAST + 1) if not 0xd800 <= c < 0xe000]  # all but surrogates
HANGUL = range(0xac00, 0xd7a4)
CONTROL, SPACE, PUNCTUATION, NONSPACING, MOVES, CASED, IGNORED, IDEOGRAPH = (1 << i for i in range(8))
SHIFTED = 255


# A character that each version of Unicode brought: nonspacing, capital, decomposed. (unicodedata does not tell ages.)
NEW_MARKS = ((7, 0x1ab0), (8, 0x8e3), (9, 0x8d4), (10, 0x1df9), (11, 0x8d3), (12, 0xeba), (13, 0x1abf), (14, 0x898),
             (15, 0x10efd), (16, 0x897))
NEW_CAPITALS = ((7, 0xa796), (8, 0xa7b4), (9, 0xa7ae), (11, 0xa7b8), (12, 0xa7ba), (13, 0xa7c7), (14, 0xa7c0),
                (16, 0xa7cb))
NEW_DECOMPOSED = ((5, 0x1b06), (6, 0x1109a), (7, 0x114bb), (13, 0x11938), (16, 0x105c9))


def age(has, new):
    """The last of the versions of which a library knows the new character, and the first of which it does not."""
    known = [version for version, c in new if has(c)]
    later = [version for version, _ in new if not known or version > known[-1]]
    return f'{max(known, default=0)}' + (f' or later, before {later[0]}' if later else ' or later')


def ages(library):
    """For people who read the tables."""
    marks = age(lambda c: library.flags(c) & NONSPACING, NEW_MARKS)
    lower = library.fold if isinstance(library, TfText) else library.lower
    return [f'categories of Unicode {marks}', f'lower case of Unicode {age(lambda c: lower(c) != chr(c), NEW_CAPITALS)}',
            f'decompositions of Unicode {age(lambda c: library.decompose(c) != chr(c), NEW_DECOMPOSED)}']


# --- what the libraries say ---------------------------------------------------------------------

def moves(nfd, c):
    """Whether a library sorts the character among marks of the highest and of the lowest combining class."""
    return nfd(f'a\u0345{chr(c)}')[-1] != chr(c) or nfd(f'a{chr(c)}\u0334')[-1] == chr(c)


def combining_class(nfd, c):
    """Marks of a class that is not higher stay before the character."""
    known = {unicodedata.combining(m): m for m in map(chr, range(0x300, 0x370)) if unicodedata.combining(m)}
    found = unicodedata.combining(chr(c)) or max(k for k, m in known.items() if nfd(f'a{m}{chr(c)}')[-1] == chr(c))
    assert all((nfd(f'a{m}{chr(c)}')[-1] == chr(c)) == (k <= found) for k, m in known.items()), hex(c)
    return found


class Python:
    nfd = staticmethod(lambda s: unicodedata.normalize('NFD', s))
    name = f'Python {sys.version.split()[0]}: Unicode {unicodedata.unidata_version}'

    @staticmethod
    def lower(c):
        return chr(c).lower()

    @staticmethod
    def decompose(c):
        return unicodedata.normalize('NFD', chr(c))

    @staticmethod
    def flags(c):
        char, kind = chr(c), unicodedata.category(chr(c))
        return (CONTROL * (c in (0, 0xfffd) or kind in ('Cc', 'Cf') and char not in '\t\n\r')
                | SPACE * (char.isspace() or kind == 'Zs')
                | PUNCTUATION * (kind[0] == 'P' or c < 128 and 32 < c < 127 and not char.isalnum())
                | NONSPACING * (kind == 'Mn') | MOVES * (unicodedata.combining(char) != 0)
                # A capital sigma behind 'a' and the character is final where that is skipped, or has a case itself.
                | IGNORED * (f'a{char}\u03a3'.lower()[-1] == '\u03c2' and f'{char}\u03a3'.lower()[-1] == '\u03c3'
                             and f'a\u03a3{char}a'.lower()[1] == '\u03c3' and f'a\u03a3{char}'.lower()[1] == '\u03c2')
                | CASED * (f'{char}\u03a3'.lower()[-1] == '\u03c2' and f'a\u03a3{char}'.lower()[1] == '\u03c3')
                | IDEOGRAPH * is_ideograph(c))


def is_ideograph(c):
    return any(a <= c <= b for a, b in (
        (0x4e00, 0x9fff), (0x3400, 0x4dbf), (0x20000, 0x2a6df), (0x2a700, 0x2b73f), (0x2b740, 0x2b81f),
        (0x2b820, 0x2ceaf), (0xf900, 0xfaff), (0x2f800, 0x2fa1f)))


def bert_normalizer(**on):
    wanted = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**wanted, **on}).normalize_str


class Tokenizers:
    name = f'tokenizers {tokenizers.__version__}'
    clean, chinese = bert_normalizer(clean_text=True), bert_normalizer(handle_chinese_chars=True)
    strip, lower_str = bert_normalizer(strip_accents=True), bert_normalizer(lowercase=True)
    nfd, split = normalizers.NFD().normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str

    @classmethod
    def lower(cls, c):
        return cls.lower_str(chr(c))

    @classmethod
    def decompose(cls, c):
        return cls.nfd(chr(c))

    @classmethod
    def flags(cls, c):
        char = chr(c)
        pieces = [piece for piece, _ in cls.split(f'a{char}b')]
        assert pieces in (['a', 'b'], ['a', char, 'b'], [f'a{char}b']), (hex(c), pieces)
        assert cls.clean(f'a{char}b') in ('ab', 'a b', f'a{char}b')
        whole = cls.decompose(c) == char  # what is decomposed is never asked for
        return (CONTROL * (cls.clean(f'a{char}b') == 'ab') | SPACE * (pieces == ['a', 'b'])
                | PUNCTUATION * (len(pieces) == 3) | NONSPACING * (whole and cls.strip(f'a{char}b') == 'ab')
                | MOVES * (whole and moves(cls.nfd, c)) | IDEOGRAPH * (cls.chinese(char) != char))


def batch(function, strings):
    """In pieces of a size that TensorFlow likes."""
    found = []
    for at in range(0, len(strings), 65536):
        found += [s.decode() for s in function(tf.constant(strings[at:at + 65536])).numpy()]
    return found


class TfText:
    name = f'tensorflow-text {text.__version__}'

    def __init__(self):
        chars = [chr(c) for c in SCALARS]
        nfd = lambda s: text.normalize_utf8(s, 'NFD')
        marked = [f'a{char}b' for char in chars]
        found = lambda pattern: [s == 'ab' for s in
                                 batch(lambda s: tf.strings.regex_replace(s, pattern, ''), marked)]
        self.folded = dict(zip(SCALARS, batch(lambda s: nfd(text.case_fold_utf8(s)), chars)))
        self.decomposed = dict(zip(SCALARS, batch(nfd, chars)))
        control, space, mark = found(r'\p{Cc}|\p{Cf}'), found(r'\s'), found(r'\p{Mn}')
        punctuation = found(r'[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]')
        behind = batch(nfd, [f'a\u0345{char}' for char in chars])
        before = batch(nfd, [f'a{char}\u0334' for char in chars])
        self.known = {}
        for i, c in enumerate(SCALARS):
            whole = self.decomposed[c] == chr(c)
            sorted_ = whole and (behind[i][-1] != chr(c) or before[i][-1] == chr(c))
            self.known[c] = (CONTROL * control[i] | SPACE * space[i] | PUNCTUATION * punctuation[i]
                             | NONSPACING * mark[i] | MOVES * sorted_ | IDEOGRAPH * is_ideograph(c))

    @staticmethod
    def nfd(s):
        return text.normalize_utf8(s, 'NFD').numpy().decode()

    def flags(self, c):
        return self.known[c]

    def decompose(self, c):
        return self.decomposed[c]

    def fold(self, c):
        return self.folded[c]


# --- what is stored -------------------------------------------------------------------------------

def ranges(flags):
    """First of each range << 8, and its flags. Surrogates are like what is before them: nobody asks."""
    found, last = [], None
    for c in SCALARS:
        if flags[c] != last:
            last = flags[c]
            found.append(c << 8 | last)
    return found


class Pool:
    def __init__(self):
        self.items, self.places = [], {}

    def place(self, characters):
        if characters not in self.places:
            self.places[characters] = len(self.items)
            self.items += characters
        return self.places[characters]


def runs(mapping, pool):
    """[first, count, step, length, value] of characters that become others; `mapping` has them alone."""
    found, rest = [], sorted(mapping)
    while rest:
        first = rest[0]
        best = None
        for step in (1, 2):
            count, shift = 1, len(mapping[first]) == 1 and ord(mapping[first]) - first
            while shift is not False and (c := first + step * count) in mapping and len(mapping[c]) == 1 \
                    and ord(mapping[c]) - c == shift and count < 0xffff:
                count += 1
            # Nothing that the run steps over may be there on its own.
            clear = step == 1 or all(first + k not in mapping for k in range(1, step * count, 2))
            if shift is not False and count > 1 and clear and (not best or count > best[1]):
                best = [first, count, step, SHIFTED, shift]
        if not best:
            count, length = 1, len(mapping[first])
            while (c := first + count) in mapping and len(mapping[c]) == length and count < 0xffff:
                count += 1
            texts = [mapping[first + k] for k in range(count)]
            best = [first, count, 1, length, pool.place(tuple(ord(x) for t in texts for x in t)) if length else 0]
        found.append(best)
        taken = {best[0] + best[2] * k for k in range(best[1])}
        rest = [c for c in rest if c not in taken]
    return found


def array(head, numbers, form):
    lines, line = [], '   '
    for number in numbers:
        word = ' ' + form(number) + ','
        if len(line + word) > 98:
            lines.append(line)
            line = '   '
        line += word
    return head + ' = {\n' + '\n'.join(lines + [line]) + '\n};\n'


def run_array(name, found):
    return array(f'static const tli_unicode_run {name}[]', found, lambda r: '{%#x, %d, %d, %d, %d}' % tuple(r))


def map_of(name, found):
    return f'{{{name}, {len(found)}}}' if found else '{0}'


def differing(of, shared):
    """What a library's mapping has otherwise; characters that it leaves alone become themselves."""
    return {c: of[c] for c in SCALARS if c not in HANGUL and of[c] != shared.get(c, chr(c))}


def main():
    python, hugging, tf_text = Python(), Tokenizers(), TfText()
    libraries = (python, hugging, tf_text)
    pool, text_of = Pool(), []

    lowers = [{c: library.lower(c) for c in SCALARS} for library in (python, hugging)]
    decompositions = [{c: library.decompose(c) for c in SCALARS} for library in libraries]
    for mapping in decompositions:
        assert all(mapping[c] == unicodedata.normalize('NFD', chr(c)) for c in HANGUL)
    assert all(tf_text.fold(c) == decompositions[2][c] for c in HANGUL)

    def shared(mappings):
        """The first library that changes a character says what it becomes."""
        found = {}
        for mapping in mappings:
            for c in SCALARS:
                if c not in HANGUL and mapping[c] != chr(c):
                    found.setdefault(c, mapping[c])
        return found

    lower, decompose = shared(lowers), shared(decompositions)
    fold = {c: tf_text.fold(c) for c in SCALARS if c not in HANGUL and tf_text.fold(c) != chr(c)}
    assert max(map(len, fold.values())) == 18
    tables = {'lower_runs': runs(lower, pool), 'decompose_runs': runs(decompose, pool), 'fold_runs': runs(fold, pool)}
    rows, classes = [], {}
    for i, library in enumerate(libraries):
        own = {'lower': differing(lowers[i], lower) if i < 2 else {}, 'decompose': differing(decompositions[i], decompose)}
        flags = {c: library.flags(c) for c in SCALARS}
        for c in SCALARS:  # what moves and is kept
            if flags[c] & MOVES and not flags[c] & NONSPACING:
                assert classes.setdefault(c, combining_class(library.nfd, c)) == combining_class(library.nfd, c)
        found = ranges(flags)
        text_of.append(array(f'static const uint32_t ranges_{i}[]', found, hex))
        maps = []
        for kind, mapping in own.items():
            name = f'{kind}_{i}'
            tables[name] = runs(mapping, pool)
            maps.append(map_of(name, tables[name]))
        rows.append(f'    {{ranges_{i}, {len(found)}, {maps[0]}, {maps[1]}}}, /* {library.name} */\n')
    classes = [c << 8 | k for c, k in sorted(classes.items())]

    out = ['/* table: what libraries know of Unicode, written by tables.py. Do not edit it.\n *\n']
    for library in libraries:
        out += [f' * {library.name}\n'] + [f' *     {line}\n' for line in ages(library)]
    out += [' */\n#include "text/unicode.h"\n\n// clang-format off\n\n']
    out += [t + '\n' for t in text_of]
    out += [run_array(name, found) + '\n' for name, found in tables.items() if found]
    out += ['const tli_unicode_library tli_unicode_libraries[TLI_UNICODE_COUNT] = {\n', *rows, '};\n\n']
    for kind in ('lower', 'decompose', 'fold'):
        out += [f'const tli_unicode_map tli_unicode_{kind}_map = {map_of(f"{kind}_runs", tables[f"{kind}_runs"])};\n']
    out += ['\n', array('const uint32_t tli_unicode_pool[]', pool.items, hex), '\n',
            array('const uint32_t tli_unicode_classes[]', classes, hex),
            f'const int tli_unicode_class_count = {len(classes)};\n']
    OUT.write_text(''.join(out))
    print(f'{OUT.name}: {len(pool.items)} characters in the pool,',
          ', '.join(f'{len(found)} {name}' for name, found in tables.items()))


if __name__ == '__main__':
    main()
