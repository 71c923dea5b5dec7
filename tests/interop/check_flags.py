"""Tilth's flags understand what absl's flags understand, and refuse what they refuse.

Command lines are drawn at random (with a fixed seed) from words that are likely to hurt, and go through
absl in this process and through flags_driver.c, which is compiled here against the library that was
built. Where Tilth takes more on purpose (yes and no for a bool, 1e3 for an integer, hexadecimal for a
float), the words are left out.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

from absl import flags

from driver import compile_driver

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ['TILTH']).resolve().parent

WORDS = '''
    --steps=5 --steps --steps=0x1f --steps=010 --steps=-3 --steps=+4 --steps=1_000 --steps=x --steps=
    --steps=1.5 --steps=99999999999999999999 -steps=6 -steps
    --rate=1e-3 --rate --rate=.5 --rate=-1 -rate=2 --rate=inf --rate=nan --rate=012 --rate=x --rate=
    --name=a_b --name --name= -name=x=y --name=null --name=--fast
    --fast --nofast --fast=true --fast=False --fast=0 --fast=t --fast=F --fast=maybe --fast= --nofast=1
    -fast -nofast --nosy --nonosy --nosy=f --sy
    --color=red --color --color=pink --color=RED --color= blue red
    --file=a --file --file= --file=a,b --size=1 --size --size=2 --size=x --size=03
    7 -7 word x=1 - -- --unknown --unknown=1 --nounknown --undefok=unknown --undefok=unknown,other
    --undefok --other --nosteps --no true false
'''.split()


def parse(words):
    """What absl makes of the words, written as flags_driver writes it."""
    values = flags.FlagValues()
    flags.DEFINE_integer('steps', 10, '', flag_values=values,
                         lower_bound=-2**63, upper_bound=2**63 - 1)  # integers have 64 bits here
    flags.DEFINE_float('rate', 0.5, '', flag_values=values)
    flags.DEFINE_string('name', 'x', '', flag_values=values)
    flags.DEFINE_boolean('fast', False, '', flag_values=values)
    flags.DEFINE_boolean('nosy', True, '', flag_values=values)
    flags.DEFINE_enum('color', 'green', ['red', 'green', 'blue'], '', flag_values=values)
    flags.DEFINE_multi_string('file', [], '', flag_values=values)
    flags.DEFINE_multi_integer('size', [], '', flag_values=values)
    values.set_gnu_getopt(True)
    try:
        rest = values(['program', *words])[1:]
    except (flags.Error, ValueError):
        return 'refused'
    columns = [values.steps, repr(values.rate), values.name, int(values.fast), int(values.nosy),
               values.color, ''.join(f'{item},' for item in values.file),
               ''.join(f'{item},' for item in values.size), ''.join(f'{item},' for item in rest)]
    return '|'.join(str(column) for column in columns)


def main():
    draw = random.Random(20)
    cases = [[word] for word in WORDS]
    cases += [[draw.choice(WORDS) for _ in range(draw.randint(1, 4))] for _ in range(20000)]
    with tempfile.TemporaryDirectory() as folder:
        driver = compile_driver('flags_driver', pathlib.Path(folder))
        text = ''.join('\t'.join(case) + '\n' for case in cases)
        found = subprocess.run([driver], input=text, check=True, text=True,
                               capture_output=True).stdout.split('\n')[:-1]
    assert len(found) == len(cases)
    expected = [parse(case) for case in cases]
    wrong = [row for row in zip(cases, found, expected) if row[1] != row[2]]
    wrong.sort(key=lambda row: len(row[0]))
    for case, ours, theirs in wrong[:10]:
        print(f'{case}\n    Tilth: {ours}\n    absl:  {theirs}')
    refused = expected.count('refused')
    print(f'{len(cases)} command lines, of which absl refuses {refused}; {len(wrong)} differ')
    return 1 if wrong or not 0 < refused < len(cases) else 0


if __name__ == '__main__':
    sys.exit(main())
