"""Runs every check_*.py beside this file with TILTH, the path of the program, in its environment.

A check is a script that ends with 0 when what it looked at is right. Names on the command line choose
some of them: `run.py yaml` runs check_yaml.py.
"""

import os
import pathlib
import subprocess
import sys
import time

SECONDS = 600  # more than that is a check that hangs


def run(check):
    """True when the check passes; what it said is shown when it does not."""
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, check], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
        said, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as timeout:
        said, code = timeout.stdout or '', f'none after {SECONDS} s'
        if isinstance(said, bytes):  # text=True does not reach this far
            said = said.decode(errors='replace')
    verdict = 'ok' if code == 0 else f'FAILED (exit code {code})'
    if code == 0 and said.startswith('SKIPPED: '):  # what it compares with is not there
        verdict = said.splitlines()[0]
    print(f'{check.stem}: {verdict}, {time.monotonic() - start:.1f} s', flush=True)
    if code != 0:
        print(said, flush=True)
    return code == 0


def main(names):
    program = os.environ.get('TILTH', '')
    if not os.access(program, os.X_OK):
        sys.exit(f"run.py: TILTH is '{program}', not the path of the program")
    folder = pathlib.Path(__file__).resolve().parent
    checks = sorted(folder.glob('check_*.py'))
    unknown = sorted(set(names) - {check.stem.removeprefix('check_') for check in checks})
    if unknown:
        sys.exit(f"run.py: no check is called {', '.join(unknown)}")
    if names:
        checks = [check for check in checks if check.stem.removeprefix('check_') in names]
    results = [run(check) for check in checks]
    print(f'{results.count(True)} passed, {results.count(False)} failed')
    if not results:
        sys.exit('run.py: there are no checks')
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
