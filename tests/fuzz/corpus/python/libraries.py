from __future__ import annotations
import lib.deep.module as deep, other
import lib.deep
from lib.parts import (
    Layer,
    mode as choose,  # with an alias
)
from libai.config import LazyCall as L
a = dict(kind=lib.deep.Kind.LARGE, f=choose("fast", strict=True))
b = L(deep.Layer)(**dict(units=1), parts=[L(other.Part)(), L("lib.Part")(size=(1, 2))])
b.parts[-1].size = \
    [3, 4]
