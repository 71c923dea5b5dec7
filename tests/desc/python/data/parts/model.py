from ..grammar import layers
from .plain import settings

depth = 6
model = dict(depth=depth, layer=layers.second, note=settings.name)
