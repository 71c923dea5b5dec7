"""Configurations in Python give what Python itself makes of them.

Python executes each file with OmegaConf's own DictConfig and with LazyCall and get_config as LiBai describes them;
python_driver.c, which is compiled here, reads the same file without Python. The two trees must be equal, types
included. The files are those that ship, whole configurations of tests/desc/python/data, and random programs of the
grammar. Of random programs that Python refuses ours must be refused too; those that only ours refuses must name a limit
or something that is not understood, and be few.
"""

import builtins
import importlib.util
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import types

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf

from driver import compile_driver

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SEED, PROGRAMS = 20240917, 6000


# --- the same in Python -------------------------------------------------------------------------------

class Symbol:
    """Whatever a library has: known by its dotted name, and callable."""

    def __init__(self, name):
        self.__dict__['_name'] = name

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return Symbol(f'{self._name}.{name}')

    def __setattr__(self, name, value):
        raise AttributeError(name)

    def __call__(self, *unnamed, **named):
        return Object(self._name, unnamed, named)

    def __deepcopy__(self, memo):
        return self


class Object:
    """What a call of something imported gives: its arguments as they were then."""

    def __init__(self, name, unnamed, named):
        self.value = plain({'_target_': name, **({'_args_': list(unnamed)} if unnamed else {}), **named})


class LazyCall:
    def __init__(self, target):
        if not isinstance(target, (Symbol, str)):
            raise TypeError(target)
        self.target = target

    def __call__(self, **named):
        return DictConfig({**named, '_target_': self.target}, flags={'allow_objects': True})


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return Symbol(f'{self.__name__}.{name}')


def config_of(value):
    return DictConfig(value, flags={'allow_objects': True}) if isinstance(value, dict) else value


def permissive(value=None):
    return OmegaConf.create({} if value is None else value, flags={'allow_objects': True})


def taken(names):
    return {name: config_of(value) for name, value in names.items()
            if isinstance(value, (DictConfig, ListConfig, dict)) and not name.startswith('_')}


class Peer:
    """Executes files below a root."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def get_config(self, path):
        return DictConfig(taken(self.execute(self.root / 'shipped' / path)), flags={'allow_objects': True})

    def library(self, name):
        module = Module(name)
        if name in ('libai.config', 'libai.config.lazy'):
            module.LazyCall, module.get_config = LazyCall, self.get_config
        if name == 'omegaconf':  # ours lets every configuration hold what is imported
            module.DictConfig = module.ListConfig = permissive
            module.OmegaConf = types.SimpleNamespace(create=permissive)
        return module

    def import_(self, name, names=None, locals_=None, fromlist=(), level=0):
        if level == 0:
            if name == 'copy':
                return self.builtin_import(name, names, locals_, fromlist, level)
            return self.library(name) if fromlist else Symbol(name.split('.')[0])
        file = pathlib.Path(names['__file__']).parent
        for _ in range(level - 1):
            file = file.parent
        file = file.joinpath(*name.split('.')).with_suffix('.py')
        if not file.exists():
            raise ImportError(file)
        module = types.ModuleType(name)
        found = self.execute(file)
        for wanted in fromlist:
            if wanted not in found:
                raise ImportError(wanted)
            setattr(module, wanted, config_of(found[wanted]))
        return module

    def execute(self, path):
        names = {'__file__': str(path), '__name__': 'configuration', '__package__': 'p'}
        self.builtin_import = builtins.__import__
        inner = dict(vars(builtins))
        inner['__import__'] = self.import_
        names['__builtins__'] = inner
        # `import a.b as c` asks for the attribute b of what the import gives.
        exec(compile(pathlib.Path(path).read_text(), str(path), 'exec'), names)
        return names

    def tree(self, path):
        return {name: plain(value) for name, value in taken(self.execute(path)).items()}


def plain(value):
    if isinstance(value, (DictConfig, dict)):
        return {key: plain(value[key]) for key in value}
    if isinstance(value, (ListConfig, list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Object):
        return value.value
    if isinstance(value, Symbol):
        return value._name
    assert value is None or isinstance(value, (bool, int, float, str)), type(value)
    return value


def equal(a, b):
    """The same, types included; NaN is NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b


class Loader(yaml.SafeLoader):
    """Numbers as YAML 1.2 has them: 1e-05 is one."""


Loader.yaml_implicit_resolvers = {k: [r for r in v if r[0] != 'tag:yaml.org,2002:float']
                                  for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver('tag:yaml.org,2002:float', __import__('re').compile(
    r'^[-+]?(\.inf|[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?)$|^\.nan$'), list('-+.0123456789'))


def ours(driver, root, files):
    """[(status, tree or message)] of files."""
    results = []
    for start in range(0, len(files), 500):
        done = subprocess.run([driver, str(root), *map(str, files[start:start + 500])], capture_output=True)
        assert done.returncode == 0, done.stderr
        for part in done.stdout.decode().split('=== ')[1:]:
            status, text = part.split('\n', 1)
            results.append((status, yaml.load(text, Loader) or {} if status == 'ok' else text.strip()))
    assert len(results) == len(files), (len(results), len(files))
    return results


# --- random programs ----------------------------------------------------------------------------------

class Writer:
    """A program of the grammar; what it says may be wrong, in the same way for both."""

    def __init__(self, rng):
        self.r, self.lines, self.configs, self.dicts, self.numbers = rng, [], [], [], []

    def number(self, depth=0):
        r = self.r
        kind = r.randrange(9 if depth < 3 else 4)
        if kind == 0:
            return str(r.choice([0, 1, 2, 3, 7, 10, 255, 1024, 10 ** 6, 2 ** 40, 2 ** 62]))
        if kind == 1:
            return r.choice(['0.5', '1e-3', '3.0', '1_000', '0x1f', '0b101', '.25', '1e16', '1e300', '0.1', '2.'])
        if kind == 2 and self.numbers:
            return r.choice(self.numbers)
        if kind in (2, 3):
            return r.choice(['True', 'False', '-3', '-0.0', '5'])
        if kind == 4:
            return f'({self.number(depth + 1)})'
        if kind == 5:
            return f'{r.choice("-+")}{self.number(depth + 1)}'
        if kind == 6:
            return f'{r.choice(["int", "float"])}({self.number(depth + 1)})'
        if r.random() < 0.15:  # Python computes powers of any size
            return f'{self.number(depth + 2)} ** {r.choice(["0", "1", "2", "3", "-1", "0.5", "-2"])}'
        operator = r.choice(['+', '-', '*', '/', '//', '%', '+', '*'])
        return f'{self.number(depth + 1)} {operator} {self.number(depth + 1)}'

    def text(self):
        r = self.r
        parts = [r.choice(["'a'", '"it\'s"', "'\\n\\x41'", "r'\\d'", "'''x\ny'''", "'\u00e9'", "'1'", "'None'", "''",
                           "'a.b'", "'\\u4e2d'", "'yes'", "'#'"]) for _ in range(r.choice([1, 1, 1, 2]))]
        joined = ' '.join(parts)
        return r.choice([joined, joined, f'{joined} + {self.r.choice(parts)}', f'{parts[0]} * {r.randrange(-1, 4)}'])

    def value(self, depth=0):
        r = self.r
        kind = r.randrange(12 if depth < 3 else 5)
        if kind < 2:
            return self.number()
        if kind == 2:
            return self.text()
        if kind == 3:
            return r.choice(['None', 'True', 'False'])
        if kind == 4:
            return r.choice(self.configs + self.dicts + ['lib.Mode.FAST', 'Thing'])
        if kind in (5, 6):
            items = ', '.join(self.value(depth + 1) for _ in range(r.randrange(4)))
            return r.choice([f'[{items}]', f'({items},)' if items else '()', f'list([{items}])', f'tuple([{items}])'])
        if kind == 7:
            return '{' + ', '.join(f"'{self.key()}': {self.value(depth + 1)}" for _ in range(r.randrange(4))) + '}'
        if kind == 8:
            return f'dict({self.arguments(depth)})'
        if kind == 9:
            return f'LazyCall({r.choice(["lib.Layer", "Thing", repr("a.b.C")])})({self.arguments(depth)})'
        if kind == 10:
            return f'Thing({self.arguments(depth)})'
        return f'[{self.number()}] {r.choice(["+ [1]", "* 2", "+ []"])}'

    def key(self):
        return self.r.choice(['a', 'b', 'c', 'depth', 'lr'])

    def arguments(self, depth):
        r = self.r
        keys = r.sample(['a', 'b', 'c', 'depth', 'lr'], r.randrange(4))
        parts = [f'{k}={self.value(depth + 1)}' for k in keys]
        if self.dicts and r.random() < 0.2:
            parts.append(f'**{r.choice(self.dicts)}')
        return ', '.join(parts)

    def place(self):
        """Something that can be assigned to, and may exist."""
        r = self.r
        base = r.choice(self.configs) if self.configs and r.random() < 0.7 else r.choice(self.dicts or ['none'])
        for _ in range(r.choice([1, 1, 2])):
            if base.split('.')[0].split('[')[0] in self.configs and r.random() < 0.6:
                base += f'.{self.key()}'
            else:
                base += r.choice([f"['{self.key()}']", '[0]', '[-1]'] if r.random() < 0.3 else [f"['{self.key()}']"])
        return base

    def statement(self, i):
        r = self.r
        kind = r.randrange(13)
        if kind < 2:
            self.lines.append(f'n{i} = {self.number()}')
            self.numbers.append(f'n{i}')
        elif kind < 4:
            self.lines.append(f'd{i} = dict({self.arguments(0)})')
            self.dicts.append(f'd{i}')
        elif kind < 6:
            made = r.choice([f'DictConfig(dict({self.arguments(0)}))', f'LazyCall(Thing)({self.arguments(0)})',
                             'OmegaConf.create()', "get_config('common/base.py').train",
                             f'deepcopy({r.choice(self.configs)})'])
            self.lines.append(f'c{i} = {made}')
            self.configs.append(f'c{i}')
        elif kind == 6:
            self.lines.append(f'from .part import model as m{i}, plain as p{i}, size as s{i}')
            self.configs += [f'm{i}', f'p{i}']
            self.numbers.append(f's{i}')
        elif kind == 7:
            self.lines.append(f'{r.choice(self.configs)}.update({r.choice(["", "dict(depth=1), "])}{self.key()}='
                              f'{self.value()})')
        elif kind == 8 and r.random() < 0.4:
            self.lines.append(f'del {self.place()}')
        elif kind == 9 and self.numbers:
            self.lines.append(f'{r.choice(self.numbers)} {r.choice(["+=", "-=", "*=", "//=", "/="])} {self.number()}')
        else:
            self.lines.append(f'{self.place()} = {self.value()}' + r.choice(['', '', '  # why', ' \\\n    + 1']
                                                                          if r.random() < 0.2 else ['']))

    def program(self):
        self.lines += ['"""What it is for."""', 'from copy import deepcopy', 'import lib', 'from lib.parts import Thing',
                       'from libai.config import LazyCall, get_config', 'from omegaconf import DictConfig, OmegaConf',
                       "base = DictConfig(dict(a=dict(b=1), c=[1, 2], depth=3))", "raw = dict(a={'b': 1}, lr=[1])"]
        self.configs, self.dicts = ['base'], ['raw']
        for i in range(self.r.randrange(1, 9)):
            self.statement(i)
        return '\n'.join(self.lines) + '\n'


# --- checks -------------------------------------------------------------------------------------------

def check_whole(driver, root):
    files = sorted(p for p in (root / 'shipped').rglob('*.py')) + sorted((root / 'data').glob('*.py'))
    peer = Peer(root)
    assert len(files) > 12, files
    for file, (status, found) in zip(files, ours(driver, root, files)):
        assert status == 'ok', (file, found)
        wanted = peer.tree(file)
        assert equal(wanted, found), f'{file}\n{wanted}\n{found}'
    return len(files)


def check_random(driver, root):
    rng, peer = random.Random(SEED), Peer(root)
    (root / 'part.py').write_text('from omegaconf import DictConfig\nmodel = DictConfig(dict(depth=2, a=[1]))\n'
                                  'plain = dict(lr=0.5, b={})\nsize = 3\n')
    (root / 'shipped/common/base.py').write_text('train = dict(a=1, b=dict(c=2.5), lr=None)\n')
    files, both, neither, stricter = [], 0, 0, []
    for i in range(PROGRAMS):
        files.append(root / f'random{i}.py')
        files[-1].write_text(Writer(rng).program())
    for file, (status, found) in zip(files, ours(driver, root, files)):
        try:
            wanted = peer.tree(file)
        except Exception as error:  # whatever Python and OmegaConf object to
            wanted = error
        if isinstance(wanted, Exception):
            assert status != 'ok', f'{file.read_text()}\nPython refuses it ({wanted!r}), and ours gives\n{found}'
            neither += 1
        elif status != 'ok':
            assert status in ('unsupported', 'limit'), f'{file.read_text()}\n{status}: {found}\nPython gives {wanted}'
            stricter.append(found)
        else:
            assert equal(wanted, found), f'{file.read_text()}\n{wanted}\n{found}'
            both += 1
    return both, neither, stricter


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        driver = compile_driver('python_driver', folder)
        shutil.copytree(ROOT / 'configs/libai', root / 'shipped')
        shutil.copytree(ROOT / 'tests/desc/python/data', root / 'data')
        whole = check_whole(driver, root)
        both, neither, stricter = check_random(driver, root)
    print(f'{whole} whole configurations; of {PROGRAMS} random programs {both} are equal, {neither} are refused by both, '
          f'{len(stricter)} by ours alone')
    kinds = {}
    for message in stricter:
        kind = message.split(': ', 1)[-1][:60]
        kinds[kind] = kinds.get(kind, 0) + 1
    for kind, count in sorted(kinds.items(), key=lambda item: -item[1])[:12]:
        print(f'{count:5d}  {kind}')
    assert both > PROGRAMS // 4 and len(stricter) < PROGRAMS // 4
    return 0


if __name__ == '__main__':
    sys.exit(main())
