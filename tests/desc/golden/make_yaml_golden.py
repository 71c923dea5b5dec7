#!/usr/bin/env python3
"""Makes what the YAML tests compare with, by PyYAML (any 6.x):

    python3 tests/desc/golden/make_yaml_golden.py

  tests/data/yaml/expected/NAME.json   what is in tests/data/yaml/NAME, as Model Garden loads it but
                                       without that loader's slips (value.h says which)
  tests/desc/golden/layout.json        data that shows the layout of files
  tests/desc/golden/layout.yaml        the same as Model Garden would write it
  tests/desc/golden/sample.yaml        a filled struct of tests/desc/sample.h, likewise
"""
import json
import pathlib
import re

import yaml

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent.parent / "data" / "yaml"


class Loader(yaml.SafeLoader):
    """FullLoader's types, `1e-4`, `1.0e6` and `None`; no dates, no 10:30."""


Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rsplit(":", 1)[1] not in ("timestamp", "int", "float", "null")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for tag, pattern, first in (
    ("int", r"[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)", "-+0123456789"),
    ("float", r"[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+"
              r"|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))|\.(nan|NaN|NAN)", "-+0123456789."),
    ("null", r"~|null|Null|NULL|None|", ["~", "n", "N", ""]),
):
    Loader.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(f"^({pattern})$"), list(first))


def construct_tuple(loader, node):
    return loader.construct_sequence(node, deep=True)


Loader.add_constructor("tag:yaml.org,2002:python/tuple", construct_tuple)
Loader.add_constructor("tag:yaml.org,2002:python/unicode", yaml.SafeLoader.construct_yaml_str)


def keys_are_text(loader, node):
    """Tilth keeps keys as they are written."""
    loader.flatten_mapping(node)
    return {key.value: loader.construct_object(value, deep=True) for key, value in node.value}


Loader.add_constructor("tag:yaml.org,2002:map", keys_are_text)


class Dumper(yaml.Dumper):
    """As Model Garden sets it up: lists in one line. Aliases do not occur in its files."""

    def ignore_aliases(self, data):
        return True


Dumper.add_representer(
    list,
    lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True),
)


def dump(data):
    # Model Garden leaves allow_unicode off, so that é is written "\xE9"; Tilth writes é.
    return yaml.dump(data, Dumper=Dumper, default_flow_style=False, allow_unicode=True)


LAYOUT = {
    "a_struct": {"name": "x", "empty": {}, "deeper": {"deepest": {"n": 1}}},
    "bools": [True, False],
    "floats": [0.1, 1.0, 1e-05, 1e16, 1e22, 123456789.125, -0.0, 5e-324, 1.5e-7, 1e15, 0.0001],
    "ints": [0, -1, 9223372036854775807],
    "nothing": None,
    "list_of_structs": [{"b": 1, "a": [1, 2]}, {}, {"name": "x", "z": None}],
    "list_of_lists": [[], [1, [2]], [[]]],
    "empty_list": [],
    "empty_string": "",
    "long_list": list(range(1000, 1060)),
    "long_strings": [("word" + str(i)) * 3 for i in range(30)],
    "long_structs": [{"name": "layer_%d" % i, "units": i * 100, "kernel": [3, 3]} for i in range(6)],
    "long_text": "words in a sentence that goes on " * 10,
    "long_text_with_marks": "it's a: text, with 'marks' " * 8,
    "long_word": "x" * 300,
    "k" * 130: "a key that is too long to stand on one line with its value",
    "key with blanks": 1,
    "key: with colon": 2,
    "12": "a key that looks like a number",
    "true": "a key that looks like a bool",
    "strings_like_others": {
        name: name for name in (
            "1", "-1", "1.5", "0x10", "010", "true", "no", "Off", "null", "~", "Null", "1_000",
            "2001-01-01", "2001-12-14t21:59:43.10-05:00", "10:30", "1:30.5", ".inf", "-.inf", ".nan",
            "1.0e-05", "=", "<<", "y", "n", "plain", "a b", "a:b", "a: b", "a #b", "a#b", "#a", "- a",
            "-a", "? a", "?a", ": a", ":a", "[a", "]a", "{a", "}a", "a]", "a, b", "a,b", "&a", "*a",
            "!a", "|a", ">a", "'a", '"a', "%a", "@a", "`a", " a", "a ", "  ", "---", "...", "--- a",
            "...a", "it's", 'say "x"', "\\n", "gs://a/b", "/a/b-*.x", "a\tb", "\ta", "é", "мир",
            "世界", "a\u00a0b", "-", "?", ":", ",", "!", "a:", ":a:", "key=value", "{}", "[]", "100%",
            "t", "T", "z", "1.2.3", "1-2", "5.0.0", "+", ".", "..", "-1-", "2001-x", "e", "12-14", "a_b",
        )
    },
    "texts_with_lines": {
        "one": "a\nb", "two": "a\n\nb", "end": "a\n", "start": "\na", "only": "\n", "both": "a\n b\n",
        "blank_before": "a \nb", "blank_behind": "a\n b", "tab": "a\n\tb", "many": "a\nb\nc\n\n\nd",
    },
    "controls": ["\x00x"[1:], "\x07", "\x1b[0m", "\x7f", "\ufeffbom", "a\rb"],
}

SAMPLE = {
    "flag": False, "count": -5, "rate": 1e-05, "name": "1e5x", "note": "", "color": "off",
    "maybe_flag": True, "maybe_count": None, "maybe_rate": 2.0, "flags": [], "counts": [3, 2], "maybe_counts": [],
    "rates": [0.5, float("inf"), float("nan")], "names": ["", "null", "x, y"], "colors": ["red", None],
    "origin": {"x": 0.0, "y": 1.5, "label": "origin"}, "target": {"x": 1.0, "y": 1.5, "label": "true"},
    "corner": None,
    "layers": [
        {"name": "dense", "units": 8, "kernel": [3, 3], "origin": None, "bias": True},
        {"name": "conv", "units": 16, "kernel": [], "origin": {"x": 0.0, "y": 0.0, "label": "here"},
         "bias": False},
    ],
    "optimizer": {"type": "adam",
                  "adam": {"beta": 0.999, "clip": 1.0, "center": {"x": 0.0, "y": 1.5, "label": "c"}}},
    "extra": {"b": [1, {"z": 1, "d": None}], "a": "yes"}, "setting": 3,
    "model": {"name": "m", "units": 8, "kernel": [3, 3], "origin": None, "bias": True},
}


def main():
    (DATA / "expected").mkdir(exist_ok=True)
    for path in sorted(DATA.glob("*.*")):
        text = path.read_bytes()
        data = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader)
        text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
        (DATA / "expected" / (path.name + ".json")).write_text(text + "\n", encoding="utf-8")
    (HERE / "layout.json").write_text(json.dumps(LAYOUT, indent=0, sort_keys=True) + "\n")
    (HERE / "layout.yaml").write_text(dump(LAYOUT), encoding="utf-8")
    (HERE / "sample.yaml").write_text(dump(SAMPLE), encoding="utf-8")


main()
