from .parts.model import model, depth as d
from .parts.plain import settings

model.depth = d * 2
settings.name = settings.name + "!"
