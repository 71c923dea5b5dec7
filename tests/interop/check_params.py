"""What `tilth params` writes, read by PyYAML, is what Model Garden writes.

The experiments that are here must equal Model Garden's own files, alone and with the file on top; the others must be
refused with the command that lists those that are. The runtime and trainer sections of all of them, put on top of
`mock`, must come back as they were.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / 'data' / 'configs'
SECTIONS = ('runtime', 'trainer')


class Loader(yaml.SafeLoader):
    """Also takes the tuples of Python, which Model Garden writes with a tag of their own."""


Loader.add_constructor('tag:yaml.org,2002:python/tuple',
                       lambda loader, node: loader.construct_sequence(node, deep=True))


def tilth(*words):
    return subprocess.run([os.environ['TILTH'], *words], text=True, capture_output=True)


def params(*flags):
    """The configuration that the program writes; its complaints end the check."""
    done = tilth('params', *flags)
    if done.returncode != 0:
        sys.exit(f'tilth params {" ".join(flags)} ended with {done.returncode}:\n{done.stderr}')
    return yaml.load(done.stdout, Loader)


def differences(found, expected, path=''):
    """Lines that say where two configurations differ. 1 and 1.0 are the same, 1 and true are not."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted(found.keys() | expected.keys()):
            where = f'{path}.{key}' if path else key
            if key not in found:
                yield f'{where} is missing'
            elif key not in expected:
                yield f'{where} is not in the original'
            else:
                yield from differences(found[key], expected[key], where)
    elif found != expected or isinstance(found, bool) != isinstance(expected, bool):
        yield f'{path} is {found!r}, in the original {expected!r}'


def check(name, found, expected):
    """True when nothing differs."""
    lines = list(differences(found, expected))
    for line in lines:
        print(f'{name}: {line}')
    return not lines


def check_sections(path, folder):
    """Runtime and trainer of one of the original's experiments, on top of mock."""
    original = yaml.load(path.read_text(), Loader)
    expected = {section: original[section] for section in SECTIONS}
    changes = pathlib.Path(folder) / path.name
    changes.write_text(yaml.dump(expected))
    found = params('--experiment=mock', f'--config_file={changes}')
    return check(path.stem, {section: found[section] for section in SECTIONS}, expected)


def check_experiment(path, shipped):
    """Equal to the original's file, or refused: by name where it is known, else with where the others are listed."""
    name = path.stem.replace('__', '/')
    flag = f'--experiment={name}'
    done = tilth('params', flag)
    if name not in shipped:
        said = (f"there is no experiment '{name}'", '`list experiments`')
    elif done.returncode == 2:
        said = (f"experiment '{name}' is not here yet",)
    else:
        original = yaml.load(path.read_text(), Loader)
        return (check(name, params(flag), original)
                and check(path.name, params(flag, f'--config_file={path}'), original))
    right = done.returncode == 2 and all(words in done.stderr for words in said)
    if not right:
        print(f'tilth params {flag} ended with {done.returncode}: {done.stderr}')
    return right


def main():
    files = sorted(CONFIGS.glob('*.yaml'))
    if len(files) != 41:
        sys.exit(f'{CONFIGS} holds {len(files)} files, not 41')
    shipped = tilth('list', 'experiments', '--names').stdout.split()
    results = [check_experiment(path, shipped) for path in files]
    with tempfile.TemporaryDirectory() as folder:
        results += [check_sections(path, folder) for path in files]
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
