"""Tilth's gin writes what gin-config writes, byte for byte, and refuses what it refuses.

Each case is a set of gin files, flags and calls. It runs through gin-config in this process and through
gin_driver.c, which is compiled here against the library that was built; the operative configuration and
the whole configuration of both must be the same. The cases are written by hand and drawn at random
(with a fixed seed).
"""

import enum
import importlib.util  # gin-config uses it without importing it
import logging
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import types

import gin

from driver import compile_driver

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ['TILTH']).resolve().parent
INFINITY = float('inf')


# --- the toys of tests/desc/gin_toys.h ----------------------------------------------------------------

def use(reference):
    """Calls what can be called."""
    if callable(reference):
        reference()


def use_all(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            use_all(item)
    else:
        use(value)


@gin.configurable(module='encoders')
def build_encoder(encoder_cls=None):
    return encoder_cls()


@gin.configurable(module='nlp.networks')
def EncoderScaffold(layers=2, hidden=768, dropout=0.1, activation='gelu', name=None, sizes=[128, 128],
                    seed=None, hidden_cls=None, init=None):
    for _ in range(layers):
        use(hidden_cls)
    use(init)
    return object()


@gin.configurable(module='nlp.layers')
def TransformerScaffold(attention_cls=None, feedforward_cls=None, inner=3072):
    use(attention_cls)
    use(feedforward_cls)
    return object()


@gin.configurable(module='nlp.layers')
def TalkingHeadsAttention(num_heads=12, dropout=0.0):
    return object()


@gin.configurable('Attention', module='nlp.layers')
def attention_a(num_heads=12, dropout=0.0):
    return object()


@gin.configurable('Attention', module='vision')
def attention_b(num_heads=12, dropout=0.0):
    return object()


@gin.configurable(module='nlp.layers')
def GatedFeedforward(dropout=0.0, apply_output_layer_norm=True):
    return object()


@gin.configurable(module='toys')
def show(value=None, other=None):
    use_all(value)
    use_all(other)
    return object()


@gin.configurable(module='toys')
def Zero():
    return object()


@gin.configurable('zero', module='toys')
def lower_zero():
    return object()


@gin.configurable(module='toys', denylist=['secret'])
def strict(size=gin.REQUIRED, secret=7, low=-INFINITY, high=INFINITY, tiny=5e-324, large=1e22, mode='slow',
           words=["it's", 'a "word"']):
    return object()


@gin.constants_from_enum(module='toys')
class Colour(enum.Enum):
    RED = 'RED'
    GREEN = 'GREEN'


for module in ('toys', 'a', 'a.toys', 'b', 'b.toys', 'a.b', 'a.b.toys'):
    sys.modules[module] = types.ModuleType(module)


# --- the two sides ------------------------------------------------------------------------------------

def peer(case, folder):
    """What gin-config writes; None when it refuses."""
    gin.clear_config()
    prefixes = gin.config._LOCATION_PREFIXES  # there is no way to remove one again
    saved = prefixes[:]
    prefixes.extend(str(folder / path) for path in case.get('paths', ()))
    try:
        gin.parse_config_files_and_bindings([str(folder / 'main.gin')], list(case.get('params', ())))
        for scope, name, given in case['calls']:
            with gin.config_scope(scope):
                function = gin.get_configurable(name)
                function(**{key: 0 for key in given})
        return gin.operative_config_str() + '----\n' + gin.config_str()
    except Exception as error:  # whatever it is, it is a refusal
        logging.debug('gin-config: %s', error)
        return None
    finally:
        prefixes[:] = saved


def ours(driver, case, folder):
    """What Tilth writes; None when it refuses. Its words are the second value."""
    command = [driver, str(folder / 'main.gin')]
    command += [f'--param={param}' for param in case.get('params', ())]
    command += [f'--path={folder / path}' for path in case.get('paths', ())]
    for scope, name, given in case['calls']:
        command.append((f'{scope}|' if scope else '') + ','.join([name, *given]))
    done = subprocess.run(command, capture_output=True)
    if done.returncode not in (0, 2):
        sys.exit(f'gin_driver ended with {done.returncode}: {done.stderr.decode()}')
    return done.stdout.decode() if done.returncode == 0 else None, done.stderr.decode()


# --- cases written by hand ----------------------------------------------------------------------------

def case(text, *calls, files=None, **more):
    """Calls are 'name', 'scope|name' or 'name,given'."""
    parsed = []
    for call in calls:
        scope, _, rest = call.rpartition('|')
        name, *given = rest.split(',')
        parsed.append((scope, name, given))
    return {'text': text, 'files': files or {}, 'calls': parsed, **more}


LONG = 'the quick brown fox jumps over the lazy dog, ' * 4
TALKING = '''
import toys
build_encoder.encoder_cls = @EncoderScaffold
EncoderScaffold.hidden_cls = @TransformerScaffold
TransformerScaffold.attention_cls = @TalkingHeadsAttention
TransformerScaffold.feedforward_cls = @GatedFeedforward
'''

AGREE = {
    'nothing': case('# nothing\n'),
    'talking_gated_encoder': case(TALKING, 'build_encoder'),
    'block': case('TalkingHeadsAttention:  # a comment\n\n  # and another\n  num_heads = 4\n'
                  '  dropout = 0.5\nGatedFeedforward.dropout = .25', 'TalkingHeadsAttention',
                  'GatedFeedforward'),
    'scoped block': case('a/b/TalkingHeadsAttention:\n\tnum_heads = 4\n', 'a/b|TalkingHeadsAttention',
                         'a|TalkingHeadsAttention'),
    'indented text': case('    Zero = 1\n    show.value = %Zero\n\n  # less\n    show.other = 2\n', 'show'),
    'scopes': case('EncoderScaffold.hidden = 1\na/EncoderScaffold.hidden = 2\n'
                   'a/b/EncoderScaffold.hidden = 3\na/EncoderScaffold.dropout = 0.3\n'
                   'b/EncoderScaffold.hidden = 4\n', 'EncoderScaffold', 'a|EncoderScaffold',
                   'a/b|EncoderScaffold', 'a/c|EncoderScaffold', 'b|EncoderScaffold', 'x|a/EncoderScaffold'),
    'late macros': case('show.value = [%x, %deep/y]\nx = 1\nx = {"a": %deep/y}\ndeep/y = 2.50\n', 'show'),
    'macros of the long form': case('x/macro.value = 1\ny/gin.macro:\n  value = 2\n'
                                    'show.value = [%x, @y/macro(), @y/gin.macro()]', 'show'),
    'unused macros': case('unused = 1\nused = 2\nshow.value = %used\n', 'show'),
    'a macro that calls': case('model = @TalkingHeadsAttention()\nshow.value = [%model, %model]\n'
                               'model/TalkingHeadsAttention.num_heads = 3\n', 'show'),
    'constants': case('show.value = [%RED, %toys.Colour.GREEN, %Colour.RED]\nx = %GREEN\n'
                      'show.other = [%x]\n', 'show'),
    'references': case('EncoderScaffold.hidden_cls = @a/TransformerScaffold\n'
                       'EncoderScaffold.init = @b/Zero()\n'
                       'TransformerScaffold.attention_cls = @nlp.layers.Attention\n'
                       'a/TransformerScaffold.inner = 7\n', 'EncoderScaffold', 's|EncoderScaffold'),
    'references in containers': case('show.value = [@Zero, (@Zero(),), {"k": @s/Zero()}]\n', 'show'),
    'singleton': case('shared/gin.singleton.constructor = @TalkingHeadsAttention\n'
                      'EncoderScaffold.init = @shared/gin.singleton()\n'
                      'show.value = [@shared/singleton(), @shared/singleton()]\n'
                      'shared/TalkingHeadsAttention.num_heads = 5\n', 'EncoderScaffold', 'show'),
    'ambiguous names': case('layers.Attention.num_heads = 1\nvision.Attention.num_heads = 2\n',
                            'nlp.layers.Attention', 'vision.Attention'),
    'case': case('', 'toys.zero', 'toys.Zero', 'Zero', 'B|Zero', 'a|zero', 'b|Zero'),
    'given': case('TalkingHeadsAttention.num_heads = 4\n', 'TalkingHeadsAttention,num_heads',
                  'a|TalkingHeadsAttention,dropout', 'b|TalkingHeadsAttention,dropout,num_heads'),
    'given once': case('', 'TalkingHeadsAttention,num_heads', 'TalkingHeadsAttention,dropout'),
    'required': case('strict.size = %gin.REQUIRED\nstrict.size = 3\n', 'strict'),
    'required given': case('', 'strict,size,mode'),
    'infinite': case('strict.size = 1\nstrict.low = 1e999\nstrict.high = -1e5\nshow.value = [1, [1e999]]\n',
                     'strict', 'show'),
    'params': case('EncoderScaffold.hidden = 1\nsize = 3\nEncoderScaffold.layers = %size\n',
                   'EncoderScaffold', params=['EncoderScaffold.hidden = 9', 'size=4', 'a/show.value="x"']),
    'includes': case("include 'first.gin'\nshow.value = 1\ninclude 'second.gin'\nimport toys\n", 'show',
                     files={'first.gin': 'show.value = 2\nshow.other = %x\nimport a.toys\n',
                            'sub/second.gin': 'x = 3\nshow.value = 4\nfrom b import toys\n'},
                     paths=['', 'sub']),
    'imports': case('import toys\nimport a.toys\nimport b.toys\nfrom a import toys\n'
                    'from a.b import toys as t\n', 'Zero'),
    'aliases': case('import b.toys as a\nimport a.toys\nimport a.b.toys\n', 'Zero'),
    'keywords as names': case('import = 1\ninclude = 2\nfrom = 3\nshow.value = [%import, %include, %from]',
                              'show'),
    'joined lines': case('show.value = \\\n    1\nshow.other \\\n = [1, # one\n\n  2,\n]\n', 'show'),
    'adjacent strings': case('show.value = "a" \'b\' r"\\n" """c\nd"""\nshow.other = ["x"\n "y", "z"]',
                             'show'),
    'parentheses': case('show.value = [(), (1), (1,), (1, 2), ("a" "b"), ((3)), ((3,),)]', 'show'),
    'numbers': case('show.value = [0x1F, 0o17, 0b101, 1_000_000, 1_0.0_1, -5, - 6, 1., .5, 1e5, 1E-7, 00, '
                    '-0, -0.0, 123456789012345678901234567890, 1e16, 1e15, 123456.789, 0.0001, 0.00001]',
                    'show'),
    'words': case('show.value = [True, False, None]\nshow.other = (None, {"a": True})', 'show'),
    'escapes': case(r'''show.value = ['\n\t\\\'"', "\x41\u00e9\U0001F600", '\101', r'\d', '\q', "it's", """'"''" """,
                        '\x01\x7f', 'é\u200b\xa0', "a\
b"]''', 'show'),
    'dicts': case('show.value = {"b": 1, "a": 2, 3: {}, 1.5: [], True: (), None: 0, "b": 9}\n'
                  'show.other = {10: 1, 9: 2, -1: 3, 1: 4, True: 5, 1.0: 6, 2.0: 7, 2: 8}', 'show'),
    'width': case('\n'.join(f'show.value = "{"x" * n}"\nm{n} = "{"y" * n}"\n' for n in range(50, 90))
                  + '\nshow.other = [' + ', '.join(f'%m{n}' for n in range(50, 90)) + ']', 'show'),
    'long text': case(f'show.value = "{LONG}"\nshow.other = ["{LONG}", {{"key": "{LONG}"}}]\nm = "{LONG}"',
                      'show'),
    'lines': case('show.value = "' + 'one\\ntwo three\\r\\n\\n' * 6 + '"\nx = "\\n' + 'w' * 90 + '"', 'show'),
    'long lists': case(f'show.value = {list(range(40))}\n'
                       f'show.other = {{"first": {list(range(30))}, "second": {tuple("abcdefghijklmnop")}}}',
                       'show'),
    'long names': case('a_long_scope/another_long_scope/EncoderScaffold.activation = "abcdefghijklmnop"\n'
                       'a_long_scope/another_long_scope/EncoderScaffold.name = "abcdefghijklmnopqrs"\n',
                       'a_long_scope/another_long_scope|EncoderScaffold'),
    'carriage returns': case('show.value = 1\r\nTalkingHeadsAttention:\r\n  num_heads = 2\r\n', 'show'),
}

REFUSED = {
    'unknown configurable': case('Encoder.hidden = 1'),
    'unknown block': case('Encoder:\n  hidden = 1'),
    'unknown parameter': case('EncoderScaffold.width = 1'),
    'denied parameter': case('strict.secret = 1'),
    'ambiguous name': case('Attention.num_heads = 1'),
    'unknown reference': case('EncoderScaffold.hidden_cls = @Transformer'),
    'overridden unknown reference': case('EncoderScaffold.init = @Nope\nEncoderScaffold.init = @Zero'),
    'ambiguous reference': case('EncoderScaffold.hidden_cls = @Attention'),
    'undefined macro': case('EncoderScaffold.hidden = %nope'),
    'undefined scoped macro': case('a = 1\nEncoderScaffold.hidden = %a/b'),
    'uncalled macro': case('x = 1\nEncoderScaffold.init = @x/gin.macro'),
    'required': case('strict.size = %gin.REQUIRED'),
    'required macro': case('x = %gin.REQUIRED\nshow.value = %x'),
    'required and not bound': case('', 'strict'),
    'unknown module': case('import nowhere.to.be.found'),
    'no file': case("include 'nowhere.gin'"),
    'params': case('', params=['EncoderScaffold.hidden 1']),
    'include of no string': case('include 5'),
    'an argument of itself': case('EncoderScaffold.init = @EncoderScaffold()', 'EncoderScaffold'),
    'a macro of itself': case('x = %y\ny = %x\nshow.value = %x', 'show'),
    **{f'syntax: {text}': case(text) for text in (
        'show.value', 'show.value =', 'show.value = x', 'show.value = 1 2', 'show.value = [1 2]',
        'show.value = [1', 'show.value = 1]', 'show.value = {1}', 'show.value = {1: 2 3: 4}', 'show.value = {1:}',
        'show.value = [,]', 'show.value = (,)', 'show.value = "a', "show.value = 'a\nb'", 'show.value = """a',
        'show.value = 1 +1', 'show.value = +1', 'show.value = --1', 'show.value = -"a"', 'show.value = -True',
        'show.value = 012', 'show.value = 1__0', 'show.value = 1_', 'show.value = 0x', 'show.value = 0b2',
        'show.value = 1e', 'show.value = true', 'show.value = null', 'show.value = @', 'show.value = @1',
        'show.value = @a.b/', 'show.value = %', 'show.value = @Zero(1)', 'show.value = @Zero(', 'show .value = 1',
        'show. value = 1', 'a /show.value = 1', 'a//show.value = 1', '/show.value = 1', 'a.b/show.value = 1',
        'show.value == 1', 'show.value = 1; show.other = 2', 'show:', 'show:\nvalue = 1', 'show:\n  value: 1',
        'show:\n  value = 1\n other = 2', 'show:\n  show.value = 1', 'show:\n  value = 1\n    other = 2', 'show: value = 1',
        'import', 'import a/toys', 'import "toys"', 'from a import', 'from a toys', 'import toys as', 'import a toys',
        '1 = 2', '@show.value = 1', '%x = 1', 'show.value = 1 \\ \n', 'show.value = f"a"', 'show.value = "\\xg"',
        "show.value = '\\u12'", 'show..value = 1', '.value = 1', 'show.value = $', 'show.value = ..')},
}

# gin-config takes these and Tilth does not: its parameters have types, and it has no bytes or complex
# numbers. The other way round there is nothing.
STRICTER = {
    'type': case('EncoderScaffold.hidden = "wide"', 'EncoderScaffold'),
    'range': case('EncoderScaffold.dropout = 2', 'EncoderScaffold'),
    'null': case('EncoderScaffold.activation = None', 'EncoderScaffold'),
    'number for a string': case('EncoderScaffold.activation = 5', 'EncoderScaffold'),
    'bytes': case('show.value = b"a"', 'show'),
    'complex': case('show.value = 1j', 'show'),
    'name of a character': case('show.value = "\\N{BULLET}"', 'show'),
    'tuple as key': case('show.value = {(1, 2): 3}', 'show'),
    'lone surrogate': case('show.value = "\\ud800"'),
    'NUL': case('show.value = "\\x00"', 'show'),
    'singleton without constructor': case('show.value = @x/gin.singleton()'),
}


# --- cases drawn at random ----------------------------------------------------------------------------

class Draw:
    """Random values and configurations that both sides must take."""

    CHARACTERS = 'abcdefghijk   \'"\\\n\t.,é√\u200b😀\x07'

    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self):
        length = self.random.choice((0, 1, 5, 20, 60, 75, 200))
        return ''.join(self.random.choices(self.CHARACTERS, k=length))

    def number(self):
        return self.random.choice((
            self.random.randint(-100, 100), self.random.getrandbits(70), self.random.random(),
            self.random.uniform(-1, 1) * 10 ** self.random.randint(-20, 20), True, False, None,
            float(self.random.randint(-5, 5))))

    def value(self, depth=3):
        kind = self.random.randrange(6 if depth else 2)
        if kind == 0:
            return self.text()
        if kind == 1:
            return self.number()
        count = self.random.choice((0, 1, 2, 3, 8, 20) if depth > 1 else (0, 1, 2, 5))
        if kind < 4:
            items = [self.value(depth - 1) for _ in range(count)]
            return items if kind == 2 else tuple(items)
        return {self.value(0): self.value(depth - 1) for _ in range(count)}

    def values(self, count=400):
        lines = [f'm{i} = {self.value()!r}' for i in range(count)]
        lines.append('show.value = [' + ', '.join(f'%m{i}' for i in range(count)) + ']')
        return case('\n'.join(lines), 'show')

    def scope(self):
        return '/'.join(self.random.choices(('a', 'b', 'B', 'c'), k=self.random.choice((0, 0, 1, 2))))

    def scoped(self, name):
        scope = self.scope()
        return f'{scope}/{name}' if scope else name

    def argument(self, later):
        """A reference to something that comes later, so that nothing is an argument of itself."""
        if not later or self.random.random() < 0.2:
            return self.random.choice(('None', '%nothing'))
        call = self.random.choice(('', '()'))
        return '@' + self.scoped(self.random.choice(later)) + call

    def config(self):
        order = ['show', 'EncoderScaffold', 'TransformerScaffold', 'TalkingHeadsAttention', 'Zero']
        lines = ['nothing = None', 'size = 3', 'a/size = 4']
        for _ in range(self.random.randint(3, 25)):
            i = self.random.randrange(4)
            later = order[i + 1:]
            binding = self.random.choice({
                'show': [f'value = [{self.argument(later)}, {self.argument(later)}]', 'other = {"k": %a/size}',
                         f'value = {self.value(1)!r}'],
                'EncoderScaffold': [f'hidden_cls = {self.argument(later)}', f'init = {self.argument(later)}',
                                    'layers = %size', 'layers = 1', f'activation = {self.text()!r}'],
                'TransformerScaffold': [f'attention_cls = {self.argument(later)}', 'inner = %size',
                                        f'feedforward_cls = {self.argument(later)}'],
                'TalkingHeadsAttention': ['num_heads = %a/size', 'dropout = 0.125'],
            }[order[i]])
            lines.append(self.scoped(order[i]) + '.' + binding)
        self.random.shuffle(lines)
        calls = [f'{self.scope()}|{self.scoped(name)}' for name in self.random.choices(order, k=4)]
        return case('\n'.join(lines), *calls)


# --- imports that load a plug-in ------------------------------------------------------------------------

PLUGIN = '''
#include <tilth/desc/gin.h>
typedef struct args { int64_t size; } args;
static const tl_field fields[] = {TL_F(args, size, .i = 1, .help = "size"), TL_F_END};
static const tl_desc desc = {.name = "Thing", .help = "args", .size = sizeof(args), .fields = fields};
static tl_status call(void **out, tl_gin *gin, const void *a) { (void)gin, (void)a, *out = 0; return TL_OK; }
static const tl_configurable_class thing = {
    .cls = TL_CONFIGURABLE("extra.Thing", &desc, .help = "a thing"), .call = call};
static tl_entry entries[] = {{&tl_kind_configurable, &thing.cls}};
TL_EXPORT extern const tl_module tl_module_main;
const tl_module tl_module_main = {TL_MODULE_HEAD("extra"), entries, TL_COUNT(entries)};
'''


def check_plugin(folder):
    """What is wrong with `import`, when the module is a shared object in TILTH_PLUGIN_PATH."""
    source, library = folder / 'plugin.c', folder / 'libtilth-extra.so'
    source.write_text(PLUGIN)
    subprocess.run([os.environ.get('CC', 'cc'), '-std=c17', '-shared', '-fPIC', f'-I{ROOT / "include"}',
                    str(source), '-o', str(library)], check=True)
    library.chmod(0o755)
    for path, binding, code, words in (
            (folder, 'Thing.size = 3', 0, ''),
            (folder, 'Thing.size = "x"', 2, 'expected an integer'),
            (folder, 'Thing.sise = 3', 2, "did you mean 'size'?"),
            (HERE, 'Thing.size = 3', 2, 'libtilth-extra.so')):
        done = subprocess.run(
            [os.environ['TILTH'], 'params', '--experiment=mock', '--gin_params=import my.extra',
             f'--gin_params={binding}'], text=True, capture_output=True,
            env={**os.environ, 'TILTH_PLUGIN_PATH': str(path)})
        if done.returncode != code or words not in done.stderr:
            yield f'import with {binding}: exit code {done.returncode}: {done.stderr}'


# --- running them -------------------------------------------------------------------------------------

def write_files(folder, this):
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in {'main.gin': this['text'], **this['files']}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def first_difference(ours_text, peer_text):
    mine, theirs = ours_text.splitlines(), peer_text.splitlines()
    for i in range(max(len(mine), len(theirs))):
        pair = [lines[i] if i < len(lines) else '(nothing)' for lines in (mine, theirs)]
        if pair[0] != pair[1]:
            return f'line {i + 1}:\n  tilth:      {pair[0]}\n  gin-config: {pair[1]}'
    return 'the ends of the lines'


def judge(driver, folder, name, this, wanted):
    """A line that says what is wrong, or None."""
    write_files(folder, this)
    theirs = peer(this, folder)
    mine, words = ours(driver, this, folder)
    if wanted == 'agree':
        if theirs is None:
            return f'{name}: gin-config refuses it, so the case is wrong'
        if mine is None:
            return f'{name}: Tilth refuses it: {words}'
        return None if mine == theirs else f'{name}: they differ in {first_difference(mine, theirs)}'
    if mine is not None or not words.strip():
        return f'{name}: Tilth does not refuse it'
    if (theirs is None) != (wanted == 'refused'):
        return f'{name}: gin-config does {"not " if theirs is not None else ""}refuse it, so the case is wrong'
    return None


def main():
    logging.getLogger().setLevel(logging.CRITICAL)  # gin-config tells of every path that it tries
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    cases = [(name, this, 'agree') for name, this in AGREE.items()]
    cases += [(name, this, 'refused') for name, this in REFUSED.items()]
    cases += [(name, this, 'stricter') for name, this in STRICTER.items()]
    cases += [(f'values {seed}', Draw(seed).values(), 'agree') for seed in range(rounds // 20)]
    cases += [(f'config {seed}', Draw(seed).config(), 'agree') for seed in range(rounds)]
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        driver = compile_driver('gin_driver', temporary)
        for name, this, wanted in cases:
            said = judge(driver, temporary / 'case', name, this, wanted)
            if said:
                wrong.append(said)
        wrong += check_plugin(temporary)
    for line in wrong:
        print(line)
    print(f'{len(cases) - len(wrong)} of {len(cases)} cases are as they should be')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
