"""The walk of examples/from_model_garden: every command of its README is run, in its order, and says what is quoted.

Fractions may be others than the quoted ones; but the evaluations of the original and ours of the same weights must be
the same. It needs Model Garden, as check_original.py does.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from model_garden import PYTHON

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / 'examples/from_model_garden'
NUMBER = r'-?\d+(?:\.\d+)?(?:e[-+]?\d+)?'


def commands(text):
    """[(command, quoted lines)] of the blocks of code."""
    found = []
    for block in re.findall(r'^```\n(.*?)^```$', text, re.MULTILINE | re.DOTALL):
        for line in block.replace('\\\n', ' ').splitlines():
            if line.startswith('$ '):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
    return found


def plain_lines(text):
    """Without fractions and the width of columns; what Python breaks into lines when it is long is one."""
    text = re.sub(r'\s*\n {2,}(?=[\'{])', ' ', text)
    text = re.sub(r'-?\d+(?:\.\d+)?e[-+]?\d+|-?\d+\.\d+', '#', text)
    return [' '.join(line.split()) for line in text.splitlines()]


def check_quotes(command, quoted, said):
    """Its lines come one behind the other, with anything between them where the quote says '...'."""
    lines, at, jump = plain_lines(said), 0, True
    for line in plain_lines('\n'.join(quoted)):
        wanted, cut = line.removesuffix('...').rstrip(), line.endswith('...')
        places = range(at, len(lines) if jump else min(at + 1, len(lines)))
        place = next((i for i in places if lines[i] == wanted or cut and lines[i].startswith(wanted)), None)
        if line != '...':
            assert place is not None, f'$ {command}\ndoes not say here: {line}\nbut:\n{said[-6000:]}'
            at = place + 1
        jump = cut


def evaluation(said):
    """{name: number} of the last evaluation that was told; empty when there was none."""
    lines = re.findall(rf'^ eval \| step: [^\n]*output:\s*(\{{[^}}]*\}})', said, re.MULTILINE)
    if lines:
        found = re.findall(rf"'(\w+)': (?:np\.float32\()?({NUMBER})", lines[-1])
    else:
        found = re.findall(rf'^(accuracy|validation_loss) +({NUMBER})$', said, re.MULTILINE)
    return {name: float(value) for name, value in found}


def check_same(here, there):
    print(here, there)
    assert abs(here['accuracy'] - there['accuracy']) <= 1e-3, (here, there)
    assert abs(here['validation_loss'] / there['validation_loss'] - 1) <= 1e-3, (here, there)


def main():
    if not PYTHON.exists():
        print('SKIPPED: Model Garden is not installed; `./build.sh interop walk` does that')
        return
    program = pathlib.Path(os.environ['TILTH']).resolve().parent
    environment = {**os.environ, 'PATH': f'{program}:{PYTHON.parent}:{os.environ["PATH"]}', 'TF_USE_LEGACY_KERAS': '1',
                   'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''}
    evaluations = []
    with tempfile.TemporaryDirectory() as name:
        for file in ('pictures.py', 'stripes.yaml'):
            shutil.copy(EXAMPLE / file, name)
        for command, quoted in commands((EXAMPLE / 'README.md').read_text()):
            done = subprocess.run(['bash', '-c', command], cwd=name, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert done.returncode == 0, (command, done.returncode, done.stdout)
            check_quotes(command, quoted, done.stdout)
            if told := evaluation(done.stdout):
                evaluations.append(told)
    first, first_ours, last_ours, last = evaluations
    check_same(first_ours, first)
    check_same(last_ours, last)


if __name__ == '__main__':
    sys.exit(main())
