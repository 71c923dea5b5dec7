"""`tilth export` from outside: the weights as `safetensors` reads them, put through the network by NumPy, answer images that PIL
has made as `tilth predict` does.
"""
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import yaml
from PIL import Image
from safetensors.numpy import load_file

TILTH = os.environ['TILTH']


def tilth(*words):
    done = subprocess.run([TILTH, *words, '--verbosity=-1'], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def convolve(x, kernel, bias):
    """[height, width, in] by a window of 3 x 3, zeros around it, and what is below 0 cut."""
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    return np.maximum(np.einsum('yxchw,hwco->yxo', windows, kernel) + bias, 0)


def pool(x):
    h, w, c = x.shape
    return x.reshape(h // 2, 2, w // 2, 2, c).max((1, 3))


def answer(weights, pixels):
    x = ((pixels.astype(np.float64) - 128) / 64)[..., None]
    for i in (1, 2):
        x = pool(convolve(x, weights[f'backbone/conv_{i}/kernel'], weights[f'backbone/conv_{i}/bias']))
    x = np.maximum(x.reshape(-1) @ weights['backbone/dense_1/kernel'] + weights['backbone/dense_1/bias'], 0)
    logits = x @ weights['head/kernel'] + weights['head/bias']
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


def main():
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        tilth('train', '--experiment=vision/local', '--mode=train', f'--model_dir={at}/run', 'tilth.seed=1')
        tilth('export', f'--model_dir={at}/run', f'--to={at}/out')
        weights = load_file(at / 'out/model.safetensors')
        config = yaml.safe_load((at / 'out/config.yaml').read_text())
        names = config['task']['class_names']
        assert sorted(weights) == sorted(
            [f'backbone/{layer}/{name}' for layer in ('conv_1', 'conv_2', 'dense_1') for name in ('kernel', 'bias')]
            + ['head/kernel', 'head/bias'])
        rng = np.random.default_rng(1)
        y, x = np.mgrid[:16, :16]
        files, shares = [], []
        for i in range(6):
            lean = np.pi * (i % 4) / 4
            wave = 128 + 18 * np.sin(2 * np.pi * (y * np.cos(lean) - x * np.sin(lean)) / 7 + i)
            pixels = (wave + rng.integers(-64, 64, wave.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(at / f'{i}.png')
            files.append(str(at / f'{i}.png'))
            shares.append(answer(weights, pixels))
        lines = tilth('predict', f'--model_dir={at}/run', '--top=4', *files).splitlines()
        assert len(lines) == len(files)
        for file, wanted, line in zip(files, shares, lines):
            path, told = line.split(': ')
            assert path == file
            told = dict(part.rsplit(' ', 1) for part in told.split(', '))
            for name, share in zip(names, wanted):
                assert abs(float(told[name]) - share) < 6e-4, (line, wanted)


main()
