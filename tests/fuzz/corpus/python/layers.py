from copy import deepcopy
from lib import Layer
from libai.config import LazyCall as L
from omegaconf import OmegaConf
layers = OmegaConf.create()
layers.first = L(Layer)(units=8)
layers.second = deepcopy(layers.first)
layers.second.units //= 2
