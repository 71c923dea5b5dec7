/* Configurations in Python: each construct against the same in YAML, each refusal with its line,
 * files that import each other, and memory that runs out. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/desc/python.h>
#include <tilth/desc/yaml.h>

#include "desc/arena.h"

static const tl_python_file shipped[] = {
    {"common/train.py",
     "from omegaconf import DictConfig\n"
     "train = DictConfig(dict(iter=10, amp=dict(enabled=False)))\n_hidden = dict()\nnumber = 3\n"},
    {"common/models/small.py", "model = dict(depth=2)\n"},
    {"common/models/large.py", "from .small import model\nmodel.depth = 8\n"},
    {"common/up.py", "from .models.large import model\nfrom ...outside import x\n"},
    {"common/circle.py", "from .circle import x\n"},
};
static const tl_python_options options = {.shipped = shipped, .shipped_count = TL_COUNT(shipped)};

static const tl_value *yaml(const char *text)
{
    const tl_value *v = NULL;
    assert_ok(tl_yaml_parse(&v, arena, text, strlen(text), "t.yaml"));
    return v;
}

static const tl_value *read_text(const char *text)
{
    const tl_value *v = NULL;
    assert_ok(tl_python_parse(&v, arena, text, strlen(text), "t.py", &options));
    return v;
}

static void show(tl_str *out, const tl_value *v)
{
    assert_ok(tl_yaml_write_value(out, v));
}

/* The text binds what the YAML text says. */
static void gives(const char *text, const char *expected)
{
    const tl_value *found = read_text(text), *wanted = yaml(expected);
    if (tl_value_equal(found, wanted)) return;
    tl_str shown = TL_STR_INIT;
    show(&shown, found);
    fail_msg("%s\n    gives\n%s\n    not\n%s", text, tl_str_text(&shown), expected);
}

/* `x = TEXT` */
static void value_is(const char *text, const char *expected)
{
    gives(tl_arena_printf(arena, "c = {'x': %s}\n", text),
          tl_arena_printf(arena, "c: {x: %s}\n", expected));
}

static void refuses(const char *text, tl_status code, const char *message)
{
    const tl_value *v = NULL;
    tl_error_clear();
    tl_status st = tl_python_parse(&v, arena, text, strlen(text), "t.py", &options);
    if (st != code || !strstr(tl_error_message(), message))
        fail_msg("%.80s\n    gave %s: %s\n    not %s: %s", text, tl_status_name(st),
                 st == TL_OK ? "" : tl_error_message(), tl_status_name(code), message);
}

/* --- values ----------------------------------------------------------------------------------- */

static void test_literals(void **state)
{
    static const struct {
        const char *text, *yaml;
    } rows[] = {
        {"1", "1"},
        {"-3", "-3"},
        {"0x1f", "31"},
        {"1_000", "1000"},
        {"1e-5", "1.0e-05"},
        {"1.", "1.0"},
        {".5", "0.5"},
        {"1e999", ".inf"},
        {"float('inf')", ".inf"},
        {"float('-inf')", "-.inf"},
        {"True", "true"},
        {"False", "false"},
        {"None", "null"},
        {"'a'", "'a'"},
        {"\"it's\"", "\"it's\""},
        {"'''two\nlines'''", "\"two\\nlines\""},
        {"r'\\d'", "'\\d'"},
        {"'\\x41\\u00e9\\n'", "\"A\\u00e9\\n\""},
        {"'one ' \"two\" 'three'", "'one twothree'"},
        {"'1'", "'1'"},
        {"[]", "[]"},
        {"[1, 'a', [None]]", "[1, a, [null]]"},
        {"(1, 2)", "[1, 2]"},
        {"(1,)", "[1]"},
        {"()", "[]"},
        {"(1)", "1"},
        {"{}", "{}"},
        {"{'a': 1, 'b': {'c': 2,},}", "{a: 1, b: {c: 2}}"},
        {"{'a': 1, 'a': 2}", "{a: 2}"},
        {"dict(a=1, b=dict())", "{a: 1, b: {}}"},
        {"dict({'a': 1}, b=2)", "{a: 1, b: 2}"},
        {"{**{'a': 1}, 'b': 2, **dict(a=3)}", "{a: 3, b: 2}"},
        {"list((1, 2))", "[1, 2]"},
        {"tuple([1, 2])", "[1, 2]"},
        {"int(224 * 0.45)", "100"},
        {"int(-2.5)", "-2"},
        {"float(3)", "3.0"},
    };
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rows); i++) value_is(rows[i].text, rows[i].yaml);
}

static void test_arithmetic(void **state)
{
    static const struct {
        const char *text, *yaml;
    } rows[] = {
        {"1 + 2 * 3", "7"},
        {"(1 + 2) * 3", "9"},
        {"5 / 300", "0.016666666666666666"},
        {"4 / 2", "2.0"},
        {"7 // 2", "3"},
        {"-7 // 2", "-4"},
        {"-7 % 3", "2"},
        {"7 % -3", "-2"},
        {"-9223372036854775807 - 1", "-9223372036854775808"},
        {"(-9223372036854775807 - 1) % -1", "0"},
        {"2 ** 10", "1024"},
        {"-2 ** 2", "-4"},
        {"2 ** -1", "0.5"},
        {"2 ** 3 ** 2", "512"},
        {"(-1) ** 1000000001", "-1"},
        {"1 ** 4000000000000000000", "1"},
        {"0 ** 0", "1"},
        {"0.1 + 0.2", "0.30000000000000004"},
        {"7.5 // 2", "3.0"},
        {"-7.5 % 2", "0.5"},
        {"1e308 * 10", ".inf"},
        {"True + 1", "2"},
        {"--3", "3"},
        {"+True", "1"},
        {"+-0.0", "-0.0"},
        {"5e-4 * 1024 / 512", "0.001"},
        {"'a' + 'b'", "ab"},
        {"'ab' * 2", "abab"},
        {"2 * [1, 2]", "[1, 2, 1, 2]"},
        {"[1] * -1", "[]"},
        {"[1] + [2]", "[1, 2]"},
        {"(1,) + (2,)", "[1, 2]"},
    };
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rows); i++) value_is(rows[i].text, rows[i].yaml);
}

/* --- statements ------------------------------------------------------------------------------- */

static void test_statements(void **state)
{
    (void)state;
    gives("'''What it is for.'''\n# a comment\na = dict(x=1)  # behind\n", "a: {x: 1}");
    gives("a = dict(\n    x=1,  # one\n\n    y=2,\n)\n", "a: {x: 1, y: 2}");
    gives("n = 1 + \\\n    2\na = dict(x=n)\n", "a: {x: 3}");
    gives("n = 1; a = dict(x=n); pass\n", "a: {x: 1}");
    gives("n = 2\nn *= 8\nn -= 1\na = {'n': n}\na['n'] //= 2\n", "a: {n: 7}");
    gives("t = 1, 2\na = {'t': t}", "a: {t: [1, 2]}");
    gives("a = {'x': [1, 2]}\na['x'][-1] = 3\na['y'] = 4\n", "a: {x: [1, 3], y: 4}");
}

static void test_delete(void **state)
{
    (void)state;
    gives("a = dict(x=1, y=[1, 2])\nb = dict()\ndel a['x']\ndel a['y'][0]\ndel b\n", "a: {y: [2]}");
    gives("from omegaconf import DictConfig\na = DictConfig(dict(x=1, y=2))\ndel a.x\n",
          "a: {y: 2}");
}

/* Only names of dicts and configurations that do not begin with '_' are taken. */
static void test_what_is_taken(void **state)
{
    (void)state;
    gives("a = 1\nb = [1]\n_c = dict()\nd = dict()\nimport os\nfrom x import y\n", "d: {}");
    gives("", "{}");
}

static void test_lazy_calls(void **state)
{
    (void)state;
    gives("from libai.config import LazyCall as L\n"
          "from libai.models import VisionTransformer\n"
          "from flowvision import transforms\n"
          "import torch.nn as nn\nimport oneflow.optim\n"
          "model = L(VisionTransformer)(depth=12, cfg=dict(a=(1, 2)))\n"
          "model.depth = 24\nmodel.cfg.b = transforms.Mode.BICUBIC\n"
          "aug = dict(t=[L(transforms.ToTensor)(), L(nn.Dropout)(p=0.5)])\n"
          "optim = L(oneflow.optim.AdamW)(**dict(lr=1e-3))\n"
          "named = L('a.b.C')(x=1)\n",
          "model: {depth: 24, cfg: {a: [1, 2], b: flowvision.transforms.Mode.BICUBIC},\n"
          "        _target_: libai.models.VisionTransformer}\n"
          "aug: {t: [{_target_: flowvision.transforms.ToTensor}, "
          "{p: 0.5, _target_: torch.nn.Dropout}]}\n"
          "optim: {lr: 0.001, _target_: oneflow.optim.AdamW}\n"
          "named: {x: 1, _target_: a.b.C}\n");
}

static void test_calls_that_are_kept(void **state)
{
    (void)state;
    gives("from a import Loss, mode\nc = dict(loss=Loss(), m=mode('bicubic', size=2))\n",
          "c: {loss: {_target_: a.Loss}, m: {_target_: a.mode, _args_: [bicubic], size: 2}}");
    gives("from x import F\na = {'x': 1}\na['b'] = F(a)\na['x'] = 2\n",
          "a: {x: 2, b: {_target_: x.F, _args_: [{x: 1}]}}");
}

/* Dicts are shared, configurations hold copies. */
static void test_sharing(void **state)
{
    (void)state;
    gives("a = dict(x=1)\nb = a\nb['x'] = 2\nc = dict(a=a)\na['x'] = 3\n",
          "{a: {x: 3}, b: {x: 3}, c: {a: {x: 3}}}");
    gives("from omegaconf import DictConfig\n"
          "a = dict(x=1)\nb = DictConfig(dict(a=a))\na['x'] = 2\nc = b.a\nc.x = 3\n"
          "d = DictConfig(dict())\nd.b = b\nb.a.x = 4\n",
          "{a: {x: 2}, b: {a: {x: 4}}, c: {x: 4}, d: {b: {a: {x: 3}}}}");
    gives("from copy import deepcopy\na = dict(x=[1])\nb = deepcopy(a)\nb['x'][0] = 2\n",
          "{a: {x: [1]}, b: {x: [2]}}");
}

static void test_update(void **state)
{
    (void)state;
    gives("from omegaconf import OmegaConf\n"
          "a = OmegaConf.create()\na.x = dict(y=1, z=2)\na.update(dict(x=dict(y=3)), w=4)\n"
          "b = dict(q=1)\nb.update({'q': 2})\nb.update(b)\n",
          "{a: {x: {y: 3}, w: 4}, b: {q: 2}}");
}

static void test_get_config(void **state)
{
    (void)state;
    gives("from libai.config import get_config\n"
          "train = get_config('common/train.py').train\ntrain.iter = 20\n"
          "model = get_config('common/models/large.py').model\n",
          "{train: {iter: 20, amp: {enabled: false}}, model: {depth: 8}}");
    gives("from .common.models.large import model as m\nfrom .common.train import train, number\n"
          "m.depth += number\n",
          "{train: {iter: 10, amp: {enabled: false}}, m: {depth: 11}}");
}

/* Each value knows where it was written. */
static void test_places(void **state)
{
    (void)state;
    const tl_value *v = read_text("a = dict(\n  x=1,\n)\nb = dict(x=a['x'])\n");
    const tl_value *x = tl_value_get(tl_value_get(v, "a"), "x");
    assert_int_equal(x->place.line, 2);
    assert_int_equal(x->place.column, 5);
    assert_string_equal(x->place.source, "t.py");
    v = read_text("from .common.models.large import model\n");
    x = tl_value_get(tl_value_get(v, "model"), "depth");
    assert_string_equal(x->place.source, "shipped/common/models/large.py");
    assert_int_equal(x->place.line, 2);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void test_what_is_a_program(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"a = 1\nif a:\n    b = 2\n", "t.py:2:1: 'if' at the beginning of a statement"},
        {"for i in x:\n  pass\n", "t.py:1:1: 'for' at the beginning"},
        {"def f():\n  pass\n", "'def' at the beginning"},
        {"class A:\n  pass\n", "'class' at the beginning"},
        {"with x:\n  pass\n", "'with' at the beginning"},
        {"@f\n", "'@' at the beginning"},
        {"a = lambda: 1\n", "t.py:1:5: 'lambda'"},
        {"a = [x for x in y]\n", "nothing above binds the name 'x'"},
        {"y = [1]\na = [y for x in y]\n", "t.py:2:8: 'for'"},
        {"a = 1 if True else 2\n", "t.py:1:7: 'if'"},
        {"a = 1 == 1\n", "t.py:1:7: '=='"},
        {"a = 1 < 2\n", "'<'"},
        {"a = True and False\n", "'and'"},
        {"a = not True\n", "'not'"},
        {"a = f'{1}'\n", "t.py:1:5: an f-string"},
        {"a = b'x'\n", "a bytes string"},
        {"a = {1, 2}\n", "a set"},
        {"a = [1, 2][0:1]\n", "a slice"},
        {"b = 0\na = b = 1\n", "a second '='"},
        {"a, b = 1, 2\n", "',' behind the name"},
        {"a: int = 1\n", "':' behind the name"},
        {"a = [*b]\n", "'*' before an item"},
        {"a = dict(*b)\n", "'*' before an argument"},
        {"from x import *\n", "'import *'"},
        {"from . import x\n", "an import of a folder"},
        {"a = 1\na\n", "an expression whose value is not used"},
        {"import os\nos.system('x')\n", "t.py:2:1: an expression whose value is not used"},
        {"a = dict()\na.keys()\n", "the call of 'keys' of a dict"},
        {"a = [1]\na.append(2)\n", "the call of 'append' of a list"},
        {"a = 1 << 2\n", "'<<'"},
        {"a = ~1\n", "'~'"},
        {"import os\nos.x = 1\n", "a change of something imported"},
        {"from x import F\na = F()\na.x = 1\n", "a change of what an imported call gives"},
        {"from x import F\na = F().x\n", "an attribute of what an imported call gives"},
        {"a = ...\n", "'...'"},
        {"a = 'a' % 1\n", "'%' between a string and an integer"},
        {"a = [1] - [1]\n", "'-' between a list and a list"},
        {"a = [1] + (1,)\n", "'+' between a list and a tuple"},
        {"a = -'x'\n", "'-' before a string"},
        {"a = [1]\na += [2]\n", "'+=' for a list"},
        {"from libai.config import LazyConfig\na = LazyConfig.load('x.py')\n",
         "libai.config.LazyConfig.load(...)"},
        {"from omegaconf import OmegaConf\na = OmegaConf.merge(1)\n",
         "omegaconf.OmegaConf.merge(...)"},
        {"from omegaconf import DictConfig\na = DictConfig(dict(x='${b}'))\n", "the interpolation"},
    };
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_status code = strstr(rows[i].message, "binds the name") ? TL_ENOTFOUND : TL_EUNSUPPORTED;
        refuses(rows[i].text, code, rows[i].message);
        if (code == TL_EUNSUPPORTED)
            assert_non_null(strstr(tl_error_message(), "is not understood: a configuration "));
    }
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *message;
        tl_status code;
    } rows[] = {
        {"a = x\n", "t.py:1:5: nothing above binds the name 'x'", TL_ENOTFOUND},
        {"train = dict()\na = dict(x=tran)\n", "did you mean 'train'?", TL_ENOTFOUND},
        {"a = dict(x=1)\na.x = 2\n", "t.py:2:3: a dict has no attribute 'x'; write [\"x\"]",
         TL_EINVAL},
        {"a = dict(x=1)\nb = a.x\n", "a dict has no attribute 'x'", TL_EINVAL},
        {"a = 1\na.x = 2\n", "an integer has no attributes", TL_EINVAL},
        {"from .common.train import train\na = train.itre\n",
         "t.py:2:11: the configuration has no key 'itre', did you mean 'iter'?", TL_ENOTFOUND},
        {"a = dict(x=1)['y']\n", "a dict has no key 'y'", TL_ENOTFOUND},
        {"a = [1][1]\n", "there is no item 1: a list has 1", TL_ENOTFOUND},
        {"a = [1]['x']\n", "a list is indexed by an integer, found a string", TL_EINVAL},
        {"a = (1,)\na[0] = 2\n", "a tuple has no items that could be set", TL_EINVAL},
        {"a = {1: 2}\n", "keys are strings here, found an integer", TL_EUNSUPPORTED},
        {"a = dict(x=1, x=2)\n", "the argument 'x' is given twice", TL_EINVAL},
        {"a = dict(x=1, **dict(x=2))\n", "the argument 'x' is given twice", TL_EINVAL},
        {"a = dict(x=1, 2)\n", "without a name behind one with a name", TL_EINVAL},
        {"a = {**1}\n", "'**' wants a dict, found an integer", TL_EINVAL},
        {"a = 1()\n", "an integer cannot be called", TL_EINVAL},
        {"a = int('x')\n", "int wants a number, found a string", TL_EINVAL},
        {"a = int(1e30)\n", "needs more than 64 bits", TL_ELIMIT},
        {"a = int(float('nan'))\n", "this float is no integer", TL_EINVAL},
        {"a = float('x')\n", "float wants a number", TL_EINVAL},
        {"a = 1 / 0\n", "t.py:1:7: a division by zero", TL_EINVAL},
        {"a = 1 // 0\n", "a division by zero", TL_EINVAL},
        {"a = 1.0 % 0\n", "a division by zero", TL_EINVAL},
        {"a = 0 ** -1\n", "a division by zero", TL_EINVAL},
        {"a = (-2) ** 0.5\n", "a root of a negative number", TL_EUNSUPPORTED},
        {"from libai.config import LazyCall\na = LazyCall(x=1)\n", "LazyCall takes no argument 'x'",
         TL_EINVAL},
        {"from libai.config import LazyCall\nfrom a import B\na = LazyCall(B)(1)\n",
         "takes arguments with names alone", TL_EINVAL},
        {"from libai.config import LazyCall\na = LazyCall(1)\n",
         "LazyCall wants something that is imported", TL_EINVAL},
        {"from libai.config import LazyCall\nfrom a import B\na = dict(x=LazyCall(B))\n",
         "t.py:3:20: LazyCall(a.B) must be called", TL_EINVAL},
        {"a = (1\n", "the bracket that opens here is never closed", TL_EINVAL},
        {"a = 'x\n", "never closed", TL_EINVAL},
        {"a = [1 2]\n", "expected ',' between items, found '2'", TL_EINVAL},
        {"a = \n", "expected a value, found the end of the line", TL_EINVAL},
        {"a = 1 2\n", "expected the end of the statement, found '2'", TL_EINVAL},
        {"  a = 1\n", "this line is indented", TL_EINVAL},
        {"None = 1\n", "'None' at the beginning", TL_EUNSUPPORTED},
        {"import\n", "expected the name of a module", TL_EINVAL},
        {"from .common.train import trian\n", "common.train has no 'trian', did you mean 'train'?",
         TL_ENOTFOUND},
        {"from .common.trian import x\n", "no configuration 'common/trian.py' is shipped",
         TL_ENOTFOUND},
        {"from libai.config import get_config\na = get_config('common/trian.py')\n",
         "did you mean 'common/train.py'?", TL_ENOTFOUND},
        {"del a\n", "there is no 'a' to delete", TL_ENOTFOUND},
        {"a += 1\n", "there is no 'a' yet", TL_ENOTFOUND},
        {"a = 1__0\n", "'_' may stand between two digits only", TL_EINVAL},
        {"a = '\\N{DASH}'\n", "are not known", TL_EINVAL},
        {"a = \xff\n", "is not UTF-8", TL_EINVAL},
        {"from .common.up import x\n",
         "leaves the shipped configurations, and nothing is read outside of it", TL_EINVAL},
    };
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rows); i++)
        refuses(rows[i].text, rows[i].code, rows[i].message);
}

static void test_bombs(void **state)
{
    (void)state;
    refuses("a = [0] * 10**9\n", TL_ELIMIT, "t.py:1:9: this list has more than");
    refuses("a = {'x': [[0] * 1000] * 1000}\n", TL_ELIMIT, "made and copied");
    refuses("a = 'x' * 10**9\n", TL_ELIMIT, "this string has more than");
    refuses("a = 10 ** 10 ** 10\n", TL_ELIMIT, "needs more than 64 bits");
    refuses("a = 10.0 ** 1000\n", TL_ELIMIT, "too large for a float");
    refuses("a = 9223372036854775807 + 1\n", TL_ELIMIT, "needs more than 64 bits");
    refuses("a = 9223372036854775808\n", TL_ELIMIT, "needs more than 64 bits");
    refuses("a = 9007199254740993 / 3\n", TL_ELIMIT, "integers above 2**53");
    refuses("a = {}\na['a'] = a\n", TL_EUNSUPPORTED, "cannot be put into itself");
    refuses("a = {}\nb = [a]\na['b'] = b\n", TL_EUNSUPPORTED, "cannot be put into itself");
    refuses("from .common.circle import x\n", TL_EINVAL, "circle.py imports itself");
    // Doubling, in each way that there is.
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "a0 = [1]\n");
    for (int i = 1; i < 40; i++) tl_str_addf(&text, "a%d = [a%d, a%d]\n", i, i - 1, i - 1);
    tl_str_add(&text, "b = dict(a=a39)\n");
    refuses(tl_str_text(&text), TL_ELIMIT, "made and copied");
    tl_str_deinit(&text);
    tl_str_add(&text, "a = 'x'\n");
    for (int i = 1; i < 60; i++) tl_str_add(&text, "a = a + a\n");
    refuses(tl_str_text(&text), TL_ELIMIT, "this string has more than");
    tl_str_deinit(&text);
    tl_str_add(&text, "a = [1]\n");
    for (int i = 1; i < 200; i++) tl_str_add(&text, "a = [a]\n");
    tl_str_add(&text, "b = dict(a=a)\n");
    refuses(tl_str_text(&text), TL_ELIMIT, "nested more than");
    tl_str_deinit(&text);
    tl_str_add(&text, "a = ");
    for (int i = 0; i < 100000; i++) tl_str_add(&text, "-");
    refuses(tl_str_text(&text), TL_ELIMIT, "nested too deeply");
    tl_str_deinit(&text);
    tl_str_add(&text, "a = ");
    for (int i = 0; i < 100000; i++) tl_str_add(&text, "(");
    refuses(tl_str_text(&text), TL_ELIMIT, "nested more than");
    tl_str_deinit(&text);
    for (int i = 0; i < 40000; i++) tl_str_addf(&text, "a%d = 1\n", i);
    refuses(tl_str_text(&text), TL_ELIMIT, "finding names takes too long");
    tl_str_deinit(&text);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_status run_text(const char *text)
{
    tl_arena *own;
    const tl_value *v = NULL;
    TL_TRY(tl_arena_new(&own));
    tl_status st = tl_python_parse(&v, own, text, strlen(text), "t.py", &options);
    tl_arena_free(&own);
    return st;
}

/* A text with most of the grammar, and some that are wrong. */
static void test_memory(void **state)
{
    static const char *const texts[] = {
        "'What it is.'\nfrom libai.config import LazyCall as L, get_config\n"
        "from omegaconf import DictConfig\nfrom copy import deepcopy\nimport a.b as c, d\n"
        "from .common.models.large import model\nt = get_config('common/train.py').train\n"
        "x = DictConfig(dict(a=[1, 2.5, 'x' 'y' * 2], b={'k': None, **dict(j=True)}, e=(1,)))\n"
        "x.a[0] += 3 ** 2\nx.update(dict(n=t), l=L(c.D)(u=deepcopy(x)))\ndel x.b\n"
        "y = dict(o=d.f(1, [2], k=x), s=[1] * 3 + list((2, 3)), i=int(2.5), f=float('inf'))\n",
        "a = dict(x=1)\na.x = 2\n",
        "a = [1, 2\n",
        "a = f'x'\n",
        "from .common.trian import x\n",
        "from .common.circle import x\n",
        "from .common.train import train\na = train.itre\n",
    };
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(texts); i++) {
        int64_t before = tl_alloc_calls();
        tl_status expected = run_text(texts[i]);
        int64_t calls = tl_alloc_calls() - before;
        assert_true((expected == TL_OK) == (i == 0));
        for (int64_t nth = 1; nth <= calls; nth += test_failure_step(nth)) {
            tl_alloc_fail_at(nth, 1);
            tl_error_clear();
            tl_status st = run_text(texts[i]);
            tl_alloc_fail_at(0, 0);
            // A message that could not be put together is cut, and the failure stays what it is.
            if (st != TL_ENOMEM && (i == 0 || st != expected))
                fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                         tl_error_message());
        }
        assert_int_equal(run_text(texts[i]), expected);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static char folder[TEMPORARY_PATH];

static int make_folder(void **state)
{
    return mkdtemp(temporary(folder, "tilth-test-python")) ? begin(state) : -1;
}

static int remove_folder(void **state)
{
    (void)end(state);
    return remove_tree(folder);
}

static void write_file(const char *name, const char *text)
{
    char *path = tl_path_join(arena, folder, name);
    assert_ok(tl_mkdirs(tl_path_dirname(arena, path)));
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

static tl_status read_at(const tl_value **out, const char *name, const char *root)
{
    tl_python_options o = options;
    o.root = root;
    return tl_python_read(out, arena, tl_path_join(arena, folder, name), &o);
}

static void test_files(void **state)
{
    (void)state;
    write_file("c/main.py", "from .parts.model import model\nfrom ..top import train as t\n"
                            "from .common.train import train\nmodel.depth += 1\nt.x = 2\n");
    write_file("c/parts/model.py", "from .base import model\nmodel.depth *= 2\n");
    write_file("c/parts/base.py", "model = dict(depth=3)\n");
    write_file("top.py", "train = dict(x=1)\n");
    const tl_value *v = NULL;
    assert_ok(read_at(&v, "c/main.py", folder));
    assert_true(tl_value_equal(
        v, yaml("{model: {depth: 7}, t: {x: 2}, train: {iter: 10, amp: {enabled: false}}}")));
    // Without a root it is the folder of the file, which is not below the working directory.
    assert_fails(read_at(&v, "c/main.py", NULL), TL_EINVAL, "main.py:2:1: this import leaves");
    assert_fails(read_at(&v, "c/none.py", folder), TL_ENOTFOUND, "none.py");
    write_file("c/wrong.py", "a = dict()\nfrom .nothing import x\n");
    assert_fails(read_at(&v, "c/wrong.py", folder), TL_ENOTFOUND, "wrong.py:2:1: there is no file");
    write_file("c/one.py", "from .two import x\n");
    write_file("c/two.py", "\nfrom .one import x\n");
    assert_fails(read_at(&v, "c/one.py", folder), TL_EINVAL, "one.py imports itself, by way of");
    write_file("c/bad.py", "from .worse import x\n");
    write_file("c/worse.py", "x = 1\nwhile x:\n  pass\n");
    assert_fails(read_at(&v, "c/bad.py", folder), TL_EUNSUPPORTED, "worse.py:2:1: 'while'");
    assert_non_null(strstr(tl_error_message(), "(imported at "));
    // A link that leads outside is outside.
    assert_int_equal(symlink("/etc/hostname", tl_path_join(arena, folder, "c/link.py")), 0);
    write_file("c/linked.py", "from .link import x\n");
    assert_fails(read_at(&v, "c/linked.py", folder), TL_EINVAL, "this import leaves");
    write_file("c/climb.py", "from ....a import x\n");
    assert_fails(read_at(&v, "c/climb.py", folder), TL_EINVAL, "this import leaves");
}

static void test_too_many_files(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++)
        write_file(tl_arena_printf(arena, "d/f%d.py", i),
                   tl_arena_printf(arena, "from .f%d import x\n", i + 1));
    write_file("d/f40.py", "x = 1\n");
    const tl_value *v = NULL;
    assert_fails(read_at(&v, "d/f0.py", folder), TL_ELIMIT, "imported more than 32 deep");
    write_file("d/leaf.py", "x = 1\n");
    tl_str text = TL_STR_INIT;
    for (int i = 0; i < 300; i++) tl_str_add(&text, "from .leaf import x\n");
    write_file("d/wide.py", tl_str_text(&text));
    tl_str_deinit(&text);
    assert_fails(read_at(&v, "d/wide.py", folder), TL_ELIMIT, "more than 256 files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_literals, begin, end),
        cmocka_unit_test_setup_teardown(test_arithmetic, begin, end),
        cmocka_unit_test_setup_teardown(test_statements, begin, end),
        cmocka_unit_test_setup_teardown(test_delete, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_taken, begin, end),
        cmocka_unit_test_setup_teardown(test_lazy_calls, begin, end),
        cmocka_unit_test_setup_teardown(test_calls_that_are_kept, begin, end),
        cmocka_unit_test_setup_teardown(test_sharing, begin, end),
        cmocka_unit_test_setup_teardown(test_update, begin, end),
        cmocka_unit_test_setup_teardown(test_get_config, begin, end),
        cmocka_unit_test_setup_teardown(test_places, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_a_program, begin, end),
        cmocka_unit_test_setup_teardown(test_mistakes, begin, end),
        cmocka_unit_test_setup_teardown(test_bombs, begin, end),
        cmocka_unit_test_setup_teardown(test_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_files, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_too_many_files, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
