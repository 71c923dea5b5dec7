#!/usr/bin/env python3
"""Writes tokenizers.txt and tokenizers_lines.txt: what four programs make of every character, and of a few hundred lines.

    pip install -r tests/interop/requirements-original.txt
    TF_USE_LEGACY_KERAS=1 TF_CPP_MIN_LOG_LEVEL=2 python tests/golden/tokenizers.py

The vocabulary has characters of the ranges in the file, alone and behind "##", and the words behind them. For each
rule, with and without lower case, there is a checksum (zlib's crc32) of the ids of each 4096 characters, each shown in
two lines, and of the ids of each line; ids are 32 bits, the end of a line is -1, and a line that is refused is -2. The
reader is tests/text/test_golden.c.
"""
import array
import pathlib
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).parent
sys.path[0] = str(HERE.parent / 'interop')  # not this folder: a package has the name of this file
import tokenizer_peers as peers  # pylint: disable=wrong-import-position

BLOCK = 4096
# Letters that words may end with, and a few ideographs; what is not here is unknown.
RANGES = ((0x21, 0x7e), (0xa1, 0x167f), (0x1681, 0x1fff), (0x200b, 0x2027), (0x202a, 0x202e), (0x2030, 0x205e),
          (0x2060, 0x2fff), (0x3001, 0x33ff), (0x4e00, 0x4e20), (0xa000, 0xabff), (0xd7b0, 0xd7ff), (0xfa0e, 0xfa12),
          (0xfb00, 0xfefe), (0xff00, 0xffff), (0x10000, 0x11fff), (0x16a00, 0x16fff), (0x1b000, 0x1b2ff),
          (0x1d000, 0x1f9ff), (0x2f800, 0x2f810), (0xe0000, 0xe01ff))
WORDS = ('the hello world want ##want ##ed un unwanted runn run ##ing ##ning running istanbul strasse straße don ##fi fi '
         'weather is nice today wetter погода сегодня ##дня σήμερα ο καιρος και ##ρος σημερα ##ς שלום مرحبا नमस्ते '
         '안녕 ##하세요 こんにちは ##ちは 天 気 x ##xx').split()
SENTENCES = (
    'The weather is nice today, isn\'t it? Yes: 23.5 °C (74 °F) — "warm".', 'UNwantéd,running', 'ah博推zz', 'don\'t',
    '\u00a0Hello\u200bWorld\0', 'Straße İstanbul STRASSE ẞ', 'x\u2028y\u0085z', 'こんにちは世界', 'ﬁne oﬃce ＡＢＣ ①②½',
    'Das Wetter ist heute schön; wir gehen über die Brücke.', 'Il fait beau aujourd\'hui, n\'est-ce pas ? Ça va… œuvre',
    'Сегодня хорошая погода, не правда ли? ёЁ йЙ', 'Σήμερα ο καιρός είναι ΚΑΛΟΣ, ΟΔΥΣΣΕΥΣ. Σ ΑΣ\' ΑΣ\'Α',
    'מזג האוויר נעים הַיּוֹם, לא?', 'الطقس جميلٌ اليومَ، أليس كذلك؟ ١٢٣', 'आज मौसम अच्छा है। क्या नहीं?',
    'আজ আবহাওয়া ভালো।', 'วันนี้อากาศดี ๆ', '오늘 날씨가 좋네요. 한국어', '今天天气很好，是不是？', '今日は天気がいいですね。カタカナ ｶﾞ',
    'Hôm nay trời đẹp, phải không?', 'Bugün hava güzel, IĞDIR ığdır İZMİR', 'ዛሬ አየሩ ጥሩ ነው።', 'დღეს კარგი ამინდია ᲓᲦᲔᲡ',
    'Այսօր եղանակը լավն է։ ԵՒ', 'ວັນນີ້ອາກາດດີ', 'ယနေ့ ရာသီဥတု ကောင်းတယ်။', 'ថ្ងៃនេះអាកាសធាតុល្អ', 'ⰀⰁ ⴀⴁ Ꭰꭰ 𐐀𐐨 𞤀𞤢',
    '👩\u200d👩\u200d👧 🇩🇪 ☕️ x\u20dd', '≮ ≠ Å Ω K ỡ Ǆ ǆ ŉ ǰ', 'a\u0345\u1bf2\u0334b \u1d165\u302e\u302f\u3099',
    '[CLS] a [MASK] b [SEP][PAD] [UNK] [mask] [CLS', 'x' * 100, 'x' * 101, 'x' * 200, 'x' * 201, 'x' * 400, 'x' * 401,
    'д' * 50, 'д' * 51, 'д' * 100, 'д' * 101, '가' * 34, '\u0301' * 500 + 'a', '', ' ', '\t \r', '##want want##ed',
    '$^`+<=>|~ €£¥ «»‹› „“” ‚‘’ ¿¡ § ¶ † ‡ • …', 'foo\u00adbar a\u200bb c\ufeffd e\u2060f', 'tab\tnl\rvt\x0bff\x0cus\x1fdel\x7f.')


def lines_of(c):
    return (f'x{c}y {c}', f'AΣ{c}b A{c}Σ x\u0345{c}\u0334')


def numbers(found):
    out = []
    for ids in found:
        out += [-2] if ids is None else [*ids, -1]
    return array.array('i', out).tobytes()


def main():
    chars = [chr(c) for a, b in RANGES for c in range(a, b + 1)]
    pieces = [*peers.SPECIALS, *chars, *('##' + c for c in chars)]
    words = [word for word in WORDS if word not in set(pieces)]
    texts = [s.encode() for s in SENTENCES] + peers.random_lines(250, seed=7, bad=0.1)
    points = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    shown = [line.encode().replace(b'\n', b' ') for c in points for line in lines_of(chr(c))]
    out = ['ranges ' + ' '.join(f'{a:x}-{b:x}' for a, b in RANGES), 'words ' + ' '.join(words)]
    with tempfile.TemporaryDirectory() as folder:
        vocab = peers.write_vocab(pathlib.Path(folder) / 'vocab.txt', [*pieces, *words])
        for rules in peers.RULES:
            for lower in (True, False):
                peer = peers.peer(rules, vocab, lower)
                found = peer(shown)
                blocks = {}
                for i, c in enumerate(points):
                    blocks.setdefault(c // BLOCK, []).extend(found[2 * i:2 * i + 2])
                name = f'{rules} {"lower" if lower else "cased"}'
                out.append(f'blocks {name} ' + ' '.join(f'{zlib.crc32(numbers(blocks.get(b, []))):08x}'
                                                        for b in range(0x110000 // BLOCK)))
                out.append(f'lines {name} ' + ' '.join(f'{zlib.crc32(numbers([ids])):08x}' for ids in peer(texts)))
                print(name, flush=True)
    (HERE / 'tokenizers.txt').write_text('\n'.join(out) + '\n')
    (HERE / 'tokenizers_lines.txt').write_bytes(b''.join(line + b'\n' for line in texts))


if __name__ == '__main__':
    main()
