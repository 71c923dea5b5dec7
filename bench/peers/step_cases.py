"""The cases of bench/models.c, by their names: (kind, settings, shape of the input, number of labels, classes)."""
import numpy as np

ENCODER = dict(vocabulary=8192, time=128, size=256, layers=4, heads=4, causal=False)
GPT2 = dict(vocabulary=50304, time=256, size=768, layers=12, heads=12, causal=True)
CASES = {
    'tiny mlp 16-32-32-2 B32': ('mlp', [16, 32, 32, 2], (32, 16), 32, 2),
    'mlp784-128-10 B32': ('mlp', [784, 128, 10], (32, 784), 32, 10),
    'mlp784-256-256-10 B128': ('mlp', [784, 256, 256, 10], (128, 784), 128, 10),
    'lenet28 B128': ('lenet', None, (128, 28, 28, 1), 128, 10),
    'resnet18-cifar B64': ('resnet', None, (64, 32, 32, 3), 64, 10),
    'encoder L4 C256 T128 B16 V8192': ('lm', ENCODER, (16, 128), 16 * 128, 8192),
    'gpt2-124M B1 T256': ('lm', GPT2, (1, 256), 256, 50304),
}


def data(kind, shape, labels, classes):
    rng = np.random.default_rng(0)
    x = rng.integers(0, classes, shape) if kind == 'lm' else rng.normal(size=shape).astype(np.float32)
    return x, rng.integers(0, classes, labels)
