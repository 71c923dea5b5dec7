# Each construct once.
'''A docstring.'''
from __future__ import annotations
import lib.deep.module as deep, other
import lib.deep
from copy import deepcopy
from lib.parts import (
    Layer,
    mode as choose,  # with an alias
)
from libai.config import LazyCall as L, get_config
from omegaconf import DictConfig, ListConfig, OmegaConf

SIZE = 224; HALF = SIZE // 2
names = "a" 'b' """c
d"""
_private = dict(hidden=True)
numbers = dict(
    ints=[0, -1, 0x1F, 0o17, 0b11, 1_000],
    floats=(1., .5, 1e-5, 5 / 300, 1e16, 123456789.125, float("inf"), -0.0),
    sums=[1 + 2 * 3 - 4, (1 + 2) * 3, 2 ** 10, 2 ** -1, -7 // 2, -7 % 3, 7.5 // 2, -7.5 % 2, -2 ** 2],
    flags={"yes": True, "no": False, "none": None},
    joined=[1] * 3 + [2], text="=" * 3 + "ab",
    size=int(SIZE * 0.45), half=float(HALF),
)
words = {
    "names": names,
    "raw": r"\d+\.py",
    "escapes": "tab\t\x41\u00e9\101",
    "looks": ["1", "null", "true", "1e5", "~", "", " x ", "a: b", "#"],
}
layers = OmegaConf.create()
layers.first = L(Layer)(units=SIZE, mode=choose("fast", strict=True))
layers.second = deepcopy(layers.first)
layers.second.units //= 2
layers.third = L(deep.Layer)(**dict(units=1), parts=[L(other.Part)(), L("lib.Part")(size=(1, 2))])
layers.third.parts[-1].size = \
    [3, 4]
layers.kind = lib.deep.Kind.LARGE
shared = dict(x=1)
alias = shared
alias["x"] = 2
copied = DictConfig(shared)
shared["x"] = 3
copied.update({"y": [1, 2]}, z=None)
del copied.y[0]
removed = dict(a=1, b=2)
del removed["a"]
several = ListConfig([1, dict(a=2)])
several[1].a = 5
merged = {**shared, "x": 4, **dict(w=5)}
train = get_config("common/train.py").train
train.amp.enabled = True
pass
