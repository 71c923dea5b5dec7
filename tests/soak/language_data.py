#!/usr/bin/env python3
"""Texts for tests/soak/language.sh, made of Debian's packages and of an archive of rated sentences.

    apt-cache dumpavail | python tests/soak/language_data.py TREE RATED FOLDER

TREE holds unpacked packages, RATED the archive's tables. Writes into the folder:

    corpus.txt, held_out.txt   text to pre-train with, and to ask about: a sentence a line, documents apart
    vocab.txt                  pieces of words, found by WordPiece's trainer of `tokenizers` in corpus.txt
    films_{train,test}.csv     sentences of film reviews: is the mean of their ratings above 0?
    topics_{train,test}.csv    one-line descriptions of packages: in which section are they?

Nothing that is in a test table is in the corpus. The same packages give the same files.
"""
import csv
import gzip
import html.parser
import pathlib
import random
import re
import sys

from tokenizers import BertWordPieceTokenizer

WORDS = 12000
TRAIN, TEST = 1000, 6000
SECTIONS = ('games', 'gnu-r', 'golang', 'java', 'javascript', 'net', 'perl', 'python', 'science', 'utils')
SPECIAL = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]')
RUNNING_TEXT = {'p', 'li', 'dd', 'dt', 'td', 'th', 'h1', 'h2', 'h3', 'h4', 'blockquote', 'div', 'br', 'tr'}
NO_TEXT = {'script', 'style', 'pre', 'head', 'nav'}


# --- text out of files ------------------------------------------------------------------------------


class Paragraphs(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.now, self.inside = [], [], 0

    def end(self):
        self.found.append(' '.join(''.join(self.now).split()))
        self.now = []

    def handle_starttag(self, tag, attributes):
        self.inside += tag in NO_TEXT
        if tag in RUNNING_TEXT:
            self.end()

    def handle_endtag(self, tag):
        self.inside -= tag in NO_TEXT
        if tag in RUNNING_TEXT:
            self.end()

    def handle_data(self, data):
        if self.inside <= 0:
            self.now.append(data)


def read(path):
    data = gzip.open(path).read() if path.suffix in ('.gz', '.dz') else path.read_bytes()
    return data.decode('utf-8', 'replace')


def of_html(path):
    parser = Paragraphs()
    parser.feed(read(path))
    parser.end()
    return parser.found


def of_text(path):
    return [' '.join(part.split()) for part in re.split(r'\n\s*\n', read(path))]


def of_manual(path):
    """What stands in a page of the manual, without what roff is told."""
    found, now = [], []
    for line in read(path).splitlines():
        line = re.sub(r'\\f[BIRPW]|\\f\(..|\\[&/,|%]|\\s[-+]?\d', '', line).replace(r'\-', '-')
        line = line.replace(r'\(aq', "'").replace(r'\e', '\\').replace(r'\ ', ' ')
        if not line.startswith(('.', "'")):
            now.append(line)
        elif re.match(r'\.[BI]?[BIR] ', line):
            now.append(line.split(None, 1)[1].replace('"', ''))
        elif not line.startswith(r'.\"'):
            found.append(' '.join(' '.join(now).split()))
            now = []
    return found + [' '.join(' '.join(now).split())]


def sentences(paragraphs):
    """Those that are English prose, as far as one can see."""
    for paragraph in paragraphs:
        for s in re.split(r'(?<=[.!?;])["\')]*\s+(?=["\'(]?[A-Z])', paragraph):
            letters = sum(c.isascii() and (c.isalpha() or c == ' ') for c in s)
            if 4 <= len(s.split()) <= 100 and letters > 0.85 * len(s):
                yield s.strip()


def wordnet(path, together=12):
    """Meanings of words and examples of their use; what stands together is near in meaning, too."""
    lines = [line for line in read(path).splitlines() if not line.startswith('  ')]
    for at in range(0, len(lines), together):
        document = []
        for line in lines[at:at + together]:
            head, _, gloss = line.partition(' | ')
            fields = head.split()
            words = [fields[4 + 2 * i].replace('_', ' ') for i in range(int(fields[3], 16))]
            meaning, *examples = re.split(r'; (?=")', gloss.strip())
            document.append(', '.join(re.sub(r'\(.*\)', '', w) for w in words) + ': ' + meaning)
            document += [e.strip('"; ') for e in examples if len(e.split()) > 3]
        yield document


def thesaurus(path):
    """Words beside those of the same meaning; a document is what one word can mean. Without opposites."""
    word, document = None, []
    for line in read(path).splitlines()[1:]:
        kind, *others = line.split('|')
        if not kind.startswith('('):
            if document:
                yield document
            word, document = kind, []
        elif kind in ('(adj)', '(adv)', '(verb)'):
            near = [re.sub(r' \(.*\)', '', o) for o in others if '(antonym)' not in o and '(generic' not in o]
            if len(near) >= 3:
                document.append(f'{word}: ' + ', '.join(near[:24]))
    if document:
        yield document


def dictionary(path):
    """Meanings of words, and who has used them how; a document is a word. Without who has written it, and numbers."""
    word, document = None, []
    written = r'\[[^]]*(Webster|Wordnet|WordNet|PJC|Century|Supp\.)[^]]*\]'
    for part in re.split(r'\n\s*\n', re.sub(written, '', read(path))):
        text = ' '.join(part.split())
        if not part.startswith(' ') and '\\' in text:  # Feeler \Feel"er\, n.
            if document:
                yield document
            word, document = text.split(' \\')[0].lower(), []
            text = re.sub(r'^.*?\\.*?\\,?', '', text)
        text = re.sub(r'^[^.]{0,12}\d+\. |[{}"]|\[[^]]*\]|\([^)]*\)', '', text)
        found = list(sentences([re.sub(r'--[A-Z][^-]*$', '', text).strip()]))
        if found and word:
            document += [f'{word}: {found[0]}', *found[1:]]
    if document:
        yield document


def documents(tree):
    share = tree / 'usr/share'
    for folder in ('doc/debian-handbook/html/en-US', 'doc/debian-policy/policy.html',
                   'developers-reference'):
        for path in sorted((share / folder).glob('*.html')):
            yield list(sentences(of_html(path)))
    for name in ('debian-reference/debian-reference.en.txt.gz', 'doc/maint-guide/maint-guide.en.txt.gz'):
        found = list(sentences(of_text(share / name)))
        for at in range(0, len(found), 50):
            yield found[at:at + 50]
    for path in sorted(share.glob('man/man[1-8]/*.gz')):
        yield list(sentences(of_manual(path)))
    for path in sorted(share.glob('games/fortunes/*.u8')):
        for saying in read(path).split('\n%\n'):
            yield list(sentences([' '.join(saying.split())]))
    for part in ('adj', 'adv', 'verb'):
        yield from wordnet(share / 'wordnet' / f'data.{part}')
    yield from dictionary(share / 'dictd/gcide.dict.dz')
    yield from thesaurus(share / 'mythes/th_en_US_v2.dat')


# --- tables -----------------------------------------------------------------------------------------


def rated(path):
    """(sentence, mean rating) of each row."""
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            _, rating, text = line.rstrip('\n').split('\t')
            yield ' '.join(text.split()), float(rating)


def films(folder):
    rows = [(text, 'good' if rating > 0 else 'bad')
            for text, rating in rated(folder / 'movieReviewSnippets_GroundTruth.txt') if rating != 0]
    return list(dict(rows).items())


def topics(available):
    """One package of each source, and each description once: what siblings say of themselves is nearly the same."""
    rows, sources = {}, set()
    for stanza in available.split('\n\n'):
        fields = dict(re.findall(r'^(Package|Source|Section|Description): (.*)$', stanza, re.M))
        source = fields.get('Source', fields.get('Package', '')).split(' ')[0]
        if fields.get('Section') not in SECTIONS or source in sources or 'Description' not in fields:
            continue
        sources.add(source)
        rows.setdefault(fields['Description'], fields['Section'])
    return sorted(rows.items())


def split(rows):
    """Sentences to learn from, to be asked about, and those of which only the text is used."""
    random.Random(1).shuffle(rows)
    return rows[:TRAIN], rows[TRAIN:TRAIN + TEST], rows[TRAIN + TEST:]


def write_table(path, rows):
    with open(path, 'w', newline='') as f:
        csv.writer(f).writerows([('text', 'label'), *rows])


def write_documents(path, found):
    path.write_text('\n'.join('\n'.join(document) + '\n' for document in found))


def main():
    tree, ratings, folder = map(pathlib.Path, sys.argv[1:])
    tables = {'films': split(films(ratings)), 'topics': split(topics(sys.stdin.read()))}
    asked = set()
    short = []
    for name, (train, test, others) in tables.items():
        asked.update(text for text, _ in test)
        short += [text for text, _ in train + others]
        write_table(folder / f'{name}_train.csv', train)
        write_table(folder / f'{name}_test.csv', test)
        print(f'language: {name}: {len(train)} sentences to learn from, {len(test)} to be asked about')
    found = [d for d in documents(tree) if d]
    for name in ('amazonReviewSnippets', 'nytEditorialSnippets'):
        short += [text for text, _ in rated(ratings / f'{name}_GroundTruth.txt')]
    found += [short[at:at + 10] for at in range(0, len(short), 10)]
    found = [[s for s in document if s not in asked] for document in found]
    random.Random(1).shuffle(found)
    held_out, corpus = found[:len(found) // 50], found[len(found) // 50:]
    write_documents(folder / 'held_out.txt', held_out)
    write_documents(folder / 'corpus.txt', corpus)
    lines = [s for document in corpus for s in document]
    print(f'language: {len(corpus)} documents, {len(lines)} sentences, {sum(map(len, lines)) / 1e6:.1f} MB')
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(lines, vocab_size=WORDS, min_frequency=2, show_progress=False)
    # The trainer numbers some pieces by chance; here they have an order.
    pieces = sorted(set(tokenizer.get_vocab()) - set(SPECIAL))
    (folder / 'vocab.txt').write_text('\n'.join([*SPECIAL, *pieces, '']))


main()
