"""`tilth board` shows the same scalars as TensorBoard's reader, of the same folders: a run of ours, one that went back, one that
PyTorch's writer made, and one that TensorFlow's made as Model Garden does (.venv-tf).
"""
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

TILTH = os.environ['TILTH']
ROOT = pathlib.Path(__file__).resolve().parents[2]

TENSORFLOW = '''
import sys, tensorflow as tf
for part, count in (("train", 400), ("validation", 20)):
    with tf.summary.create_file_writer(f"{sys.argv[1]}/{part}").as_default():
        for i in range(count):
            tf.summary.scalar("loss", 1.0 / (i + 1), step=i * 5)
            tf.summary.scalar("accuracy", tf.constant(i / 400.0, tf.float64), step=i * 5)
            tf.summary.scalar("count", tf.constant(i, tf.int32), step=i * 5)
'''

TORCH = '''
import math, sys
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(f"{sys.argv[1]}/a") as w:
    for i in range(3000):
        w.add_scalar("noise/x", math.sin(i) * 10 ** (i % 9 - 4), i)
    w.add_scalar("noise/x", float("nan"), 3000)
    w.add_scalar("noise/x", float("inf"), 3001)
with SummaryWriter(f"{sys.argv[1]}/b") as w:
    for i in range(100):
        w.add_scalar("loss", i, i)
with SummaryWriter(f"{sys.argv[1]}/b", purge_step=50) as w:  # a start voids what came after
    for i in range(50, 80):
        w.add_scalar("loss", -i, i)
'''


def make_ours(folder):
    command = [TILTH, 'train', '--experiment=vision/local', '--mode=train_and_eval', f'--model_dir={folder}', 'tilth.threads=1',
               'trainer.summary_interval=10', 'trainer.steps_per_loop=10']
    subprocess.run([*command, 'trainer.train_steps=100'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([*command, 'trainer.train_steps=160'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_with(module, script, folder):
    """False when no environment has it: on x86-64 PyTorch is in those of its own, and writes with our TensorBoard."""
    packages = os.pathsep.join(p for p in sys.path if p.endswith('site-packages')) if module == 'torch' else ''
    for python in (sys.executable, *(ROOT / f'.venv-{name}/bin/python' for name in ('torch', 'hf', 'tf'))):
        if os.path.exists(python) and subprocess.run([python, '-c', f'import {module}'], stderr=subprocess.DEVNULL).returncode == 0:
            subprocess.run([python, '-c', script, folder], check=True, env={**os.environ, 'PYTHONPATH': packages}, stderr=subprocess.DEVNULL)
            return True
    return False


def theirs(folder):
    """(path, tag) to a list of (step, value)."""
    out = {}
    for path in sorted({p.parent for p in pathlib.Path(folder).rglob('*tfevents*')}):
        reader = EventAccumulator(str(path), size_guidance={'scalars': 0, 'tensors': 0})
        reader.Reload()
        for tag in reader.Tags()['scalars']:
            out[str(path.relative_to(folder)), tag] = [(e.step, e.value) for e in reader.Scalars(tag)]
        for tag in reader.Tags()['tensors']:
            if reader.SummaryMetadata(tag).plugin_data.plugin_name == 'scalars':
                out[str(path.relative_to(folder)), tag] = [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in reader.Tensors(tag)]
    return out


def ask(url, what, **args):
    with urllib.request.urlopen(f'{url}api/{what}?{urllib.parse.urlencode(args)}') as answer:
        return json.load(answer)


def ours(folder):
    process = subprocess.Popen([TILTH, 'board', folder], stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r'http://\S+', process.stdout.readline()).group()
        runs = ask(url, 'runs')
        while not runs['settled']:
            runs = ask(url, 'runs')
        names = {r['id']: r['name'] for r in runs['runs']}
        out = {}
        for tag in ask(url, 'tags'):
            if tag['kind'] != 'numbers' or tag.get('system'):
                continue
            for c in ask(url, 'curves', tag=tag['tag'], points=4096)['curves']:
                path = '/'.join(p for p in (names[c['run']], c['part']) if p)
                out[path, tag['tag']] = list(zip(c['points'][0], map(float, c['points'][2])))
                assert c['count'] == len(c['points'][0]), (path, tag, 'not all points were sent')
        return out
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or a == b or abs(a - b) <= 1e-6 * abs(b)


def main():
    with tempfile.TemporaryDirectory() as folder:
        make_ours(f'{folder}/ours')
        os.makedirs(f'{folder}/garden')
        pathlib.Path(f'{folder}/garden/params.yaml').write_text('trainer: {train_steps: 2000}\n')
        there = {'PyTorch': write_with('torch', TORCH, f'{folder}/torch'), 'TensorFlow': write_with('tensorflow', TENSORFLOW, f'{folder}/garden')}
        expected, found = theirs(folder), ours(folder)
    assert expected.keys() == found.keys(), (sorted(expected.keys() ^ found.keys()))
    points = 0
    for key, curve in expected.items():
        assert [s for s, _ in curve] == [s for s, _ in found[key]], (key, curve[:5], found[key][:5], len(curve), len(found[key]))
        for (step, a), (_, b) in zip(curve, found[key]):
            assert same(b, a), (key, step, a, b)
        points += len(curve)
    missing = [name for name in there if not there[name]]
    print(f'SKIPPED: runs of {" and ".join(missing)}, not installed; ' if missing else '', f'{len(expected)} curves, {points} points are the same', sep='')


sys.exit(main())
