from omegaconf import DictConfig, ListConfig
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
