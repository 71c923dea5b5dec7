"""`tilth export` from outside: the weights as `safetensors` reads them, put through the network by NumPy, answer images that PIL
has made as `tilth predict` does; and so does what docs/export.md says for PyTorch, run as it stands there.
"""
import json
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


def from_docs():
    """What the page defines for PyTorch; None where there is no PyTorch."""
    page = (pathlib.Path(__file__).resolve().parents[2] / 'docs/export.md').read_text()
    code = page.split('```python\n')[1].split('```')[0]
    names = {}
    try:
        exec(compile(code, 'docs/export.md', 'exec'), names)
    except ModuleNotFoundError as missing:
        if missing.name != 'torch':
            raise
        return None
    return names['Exported']


def stripes(rng, size, i):
    y, x = np.mgrid[:size[0], :size[1]]
    lean = np.pi * (i % 4) / 4
    wave = 128 + 18 * np.sin(2 * np.pi * (y * np.cos(lean) - x * np.sin(lean)) / 7 + i)
    return (wave + rng.integers(-64, 64, wave.shape)).clip(0, 255).astype(np.uint8)


def check_torch(at, exported, model, files, most=2e-5):
    """The page answers these files as `tilth predict` does, up to `most`."""
    lines = tilth('predict', f'--model_dir={model}', '--json', '--top=4', *files).splitlines()
    ours = exported(at / 'out')
    for file, line in zip(files, lines, strict=True):
        told = json.loads(line)
        assert told['file'] == file and told['top'][0]['class'] == told['class'], line
        theirs = ours.predict(file)
        assert sorted(theirs) == sorted(one['class'] for one in told['top'])
        for one in told['top']:
            assert abs(theirs[one['class']] - one['probability']) < most, (line, theirs)


def grey_files(at):
    """Images that are cut and made smaller, or larger, too."""
    rng = np.random.default_rng(2)
    files = []
    for i, size in enumerate([(16, 16), (24, 40), (61, 33), (9, 12)]):
        files.append(str(at / f'any{i}.png'))
        Image.fromarray(stripes(rng, size, i)).save(files[-1])
    return files


def check_methods(at, exported, files):
    for method in ('nearest', 'area', 'bicubic'):
        run = at / method
        tilth('train', '--experiment=vision/local', '--mode=train', f'--model_dir={run}', 'tilth.seed=1',
              'trainer.train_steps=20', f'task.validation_data.tf_resize_method={method}',
              'task.validation_data.center_crop_fraction=0.95')
        tilth('export', f'--model_dir={run}', f'--to={at}/out')
        check_torch(at, exported, run, files)


def photo(rng, size, i):
    shades = np.stack([stripes(rng, size, i + k) for k in range(3)], -1)
    return Image.fromarray(shades).resize((2 * size[1], 2 * size[0]), Image.Resampling.BICUBIC)


def check_photos(at, exported):
    """A run of `images`: photos are brought down before all else; some are turned, and JPEG is decoded to another size."""
    rng = np.random.default_rng(3)
    for i in range(24):
        place = at / 'photos' / f'class {i % 2}'
        place.mkdir(parents=True, exist_ok=True)
        photo(rng, (80, 90), i % 2).save(place / f'{i}.png')
    tilth('train', '--experiment=images', '--mode=train', f'--model_dir={at}/images',
          f'task.train_data.input_path={at}/photos', 'trainer.train_steps=20', 'tilth.seed=1')
    tilth('export', f'--model_dir={at}/images', f'--to={at}/out')
    assert json.loads((at / 'out/preprocessing.json').read_text())['shorter_side'] > 0
    files, turned = [], Image.Exif()
    turned[0x112] = 6
    for i, size in enumerate([(80, 90), (35, 35), (21, 30), (151, 74), (301, 333), (400, 700)]):
        files.append(str(at / f'photo{i}.png'))
        photo(rng, size, i).save(files[-1], exif=turned if i == 3 else Image.Exif())
    check_torch(at, exported, at / 'images', files, 2e-4)  # a mean that lies between two bytes may go to either
    for i, size in enumerate([(40, 60), (151, 74), (301, 333)]):
        files[i] = str(at / f'photo{i}.jpg')
        photo(rng, size, i).save(files[i], quality=95, exif=turned if i == 1 else Image.Exif())
    check_torch(at, exported, at / 'images', files[:3], 2e-2)


def main():
    exported = from_docs()
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
        files, shares = [], []
        for i in range(6):
            pixels = stripes(rng, (16, 16), i)
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
        assert (at / 'out/classes.txt').read_text().splitlines() == names
        if exported is None:
            print('SKIPPED: the page for PyTorch, which is not installed; NumPy agrees')
            return
        files = grey_files(at)
        check_torch(at, exported, at / 'run', files)
        check_torch(at, exported, at / 'out', files)
        tilth('train', '--experiment=vision/local', '--mode=train', f'--model_dir={at}/norm', 'tilth.seed=1',
              'trainer.train_steps=20', 'task.model.backbone.cnn={filters: [4, 8], batch_norm: true, units: []}')
        tilth('export', f'--model_dir={at}/norm', f'--to={at}/out')
        check_torch(at, exported, at / 'norm', files)
        check_methods(at, exported, files)
        check_photos(at, exported)


main()
