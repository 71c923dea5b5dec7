"""Training in stages beside a second implementation of it, in PyTorch.

The peer below is written from the description of Model Garden's progressive trainer, and knows nothing of ours: a policy of
three stages, of which each has a model and an optimizer of its own. Stages change at the ends of loops; the new optimizer
comes first, then the new model, which takes over the weights of the same name and shape; slots and schedules begin anew. Both
train a small network, which grows, from the same first weights on the same pictures. They tell the same numbers, step by step
and under the same tags, also when loops reach over the edges of stages, and end with the same weights and slots.
"""

import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from driver import with_torch

with_torch(__file__)

import numpy as np
import safetensors.numpy
import torch
import yaml

TILTH = os.environ['TILTH']
SIZE, CLASSES, COUNT, SMOOTHING = 6, 4, 48, 0.1
MEAN, DEVIATION = 120.0, 60.0

# What a stage trains, how long, and with what.
STAGES = [
    {'steps': 8, 'units': [16], 'optimizer': ('sgd', {'momentum': 0.9}), 'rate': ('constant', 0.05)},
    {'steps': 7, 'units': [16, 12], 'optimizer': ('adam', {}), 'rate': ('cosine', 0.01)},
    {'steps': 10, 'units': [16, 12], 'optimizer': ('sgd', {'momentum': 0.5}), 'rate': ('cosine', 0.02)},
]
STEPS = sum(stage['steps'] for stage in STAGES)
DECAY_STEPS = 10


# --- the peer -----------------------------------------------------------------------------------------

class Network:
    """Dense layers with relu, and a head."""

    def __init__(self, units, weights):
        self.names = [f'backbone/dense_{i + 1}/{part}' for i in range(len(units)) for part in ('kernel', 'bias')]
        self.names += ['head/kernel', 'head/bias']
        self.weights = {name: weights(name).clone().requires_grad_() for name in self.names}

    def __call__(self, x):
        for kernel, bias in zip(self.names[:-2:2], self.names[1:-2:2]):
            x = torch.relu(x @ self.weights[kernel] + self.weights[bias])
        return x @ self.weights['head/kernel'] + self.weights['head/bias']


class Optimizer:
    """Keras's, with slots and a count that begin at zero."""

    def __init__(self, kind, settings, rate):
        self.kind, self.settings, self.schedule = kind, settings, rate
        self.iterations, self.slots = 0, {}

    def rate(self):
        kind, first = self.schedule
        if kind == 'constant':
            return first
        return first * 0.5 * (1 + math.cos(math.pi * min(self.iterations, DECAY_STEPS) / DECAY_STEPS))

    def slot(self, name, of, like):
        return self.slots.setdefault((name, of), torch.zeros_like(like))

    def apply(self, weights, gradients):
        rate = self.rate()
        self.iterations += 1
        with torch.no_grad():
            for (name, w), g in zip(weights.items(), gradients):
                if self.kind == 'sgd':
                    v = self.slot('momentum', name, w)
                    v.mul_(self.settings['momentum']).sub_(rate * g)
                    w.add_(v)
                    continue
                m, v, t = self.slot('m', name, w), self.slot('v', name, w), self.iterations
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                w.sub_(rate * math.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * m / (v.sqrt() + 1e-7))


class Policy:
    """Which stage a step is of, and how one stage becomes the next."""

    def __init__(self, new_weights):
        self.new_weights, self.stage = new_weights, 0
        self.optimizer = self.get_optimizer(0)
        self.model = self.get_model(0, None)

    def compute_stage(self, step):
        for number, stage in enumerate(STAGES):
            step -= stage['steps']
            if step < 0:
                return number
        return len(STAGES) - 1

    def get_optimizer(self, number):
        stage = STAGES[number]
        return Optimizer(*stage['optimizer'], stage['rate'])

    def get_model(self, number, old):
        fresh = self.new_weights[number]

        def weight(name):
            w = torch.from_numpy(fresh[name]).double()
            had = old.weights.get(name) if old else None
            return had.detach() if had is not None and had.shape == w.shape else w
        return Network(STAGES[number]['units'], weight)

    def update(self, step):
        wanted = self.compute_stage(step)
        if wanted != self.stage:
            self.stage = wanted
            self.optimizer = self.get_optimizer(wanted)
            self.model = self.get_model(wanted, self.model)


def loss_of(scores, labels):
    targets = torch.full((len(labels), CLASSES), SMOOTHING / CLASSES, dtype=torch.float64)
    targets[torch.arange(len(labels)), labels] += 1 - SMOOTHING
    return -(targets * torch.log_softmax(scores, 1)).sum(1).mean()


def train(policy, pictures, labels, loop):
    """What each loop tells, by its last step."""
    told, step = {}, 0
    while step < STEPS:
        losses, right, ends = [], [], min(step + loop, STEPS)
        while step < ends:
            scores = policy.model(pictures)
            loss = loss_of(scores, labels)
            gradients = torch.autograd.grad(loss, list(policy.model.weights.values()))
            right.append((scores.argmax(1) == labels).double().mean().item())
            policy.optimizer.apply(policy.model.weights, gradients)
            losses.append(loss.item())
            step += 1
        # Read before the stage changes: the rate is the old optimizer's next one.
        told[step] = {'training_loss': np.mean(losses), 'accuracy': np.mean(right),
                      'learning_rate': policy.optimizer.rate(), 'stage': policy.stage}
        policy.update(step)
    return told


# --- ours ---------------------------------------------------------------------------------------------

def write_idx(path, values):
    path.write_bytes(struct.pack('>HBB', 0, 8, values.ndim) + struct.pack(f'>{values.ndim}I', *values.shape) +
                     values.astype(np.uint8).tobytes())


def optimization(stage):
    kind, settings = stage['optimizer']
    schedule, first = stage['rate']
    rate = ({'learning_rate': first} if schedule == 'constant' else
            {'initial_learning_rate': first, 'decay_steps': DECAY_STEPS, 'alpha': 0.0})
    return {'optimizer': {'type': kind, kind: settings}, 'learning_rate': {'type': schedule, schedule: rate},
            'warmup': {'type': None}}


def configuration(folder, loop, rate=None):
    """A batch is all there is, so its order has no say."""
    data = {'file_type': 'idx', 'input_path': f'{folder}/images,{folder}/labels', 'global_batch_size': COUNT,
            'mean': [MEAN], 'stddev': [DEVIATION]}
    stages = []
    for stage in STAGES:
        changed = optimization(stage)
        if rate is not None:
            changed = {'learning_rate': {'type': 'constant', 'constant': {'learning_rate': rate}}}
        stages.append({'num_steps': stage['steps'], 'optimizer_config': changed,
                       'task': {'model': {'input_size': [SIZE, SIZE, 1], 'backbone': {'mlp': {'units': stage['units']}}}}})
    return {
        'task': {'model': {'num_classes': CLASSES, 'input_size': [SIZE, SIZE, 1], 'backbone': {'type': 'mlp'}},
                 'losses': {'label_smoothing': SMOOTHING},
                 'train_data': {**data, 'is_training': True}, 'validation_data': {**data, 'is_training': False}},
        'trainer': {'train_steps': STEPS, 'steps_per_loop': loop, 'summary_interval': loop, 'checkpoint_interval': 1,
                    'max_to_keep': 100, 'progressive': {'stages': stages}},
        'tilth': {'seed': 11}}


def run(folder, name, config, steps=STEPS):
    path = folder / f'{name}.yaml'
    path.write_text(yaml.safe_dump(config))
    done = subprocess.run([TILTH, 'train', '--experiment=progressive/local', '--mode=train', f'--model_dir={folder / name}',
                           f'--config_file={path}', f'trainer.train_steps={steps}'], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (folder / name / 'metrics.jsonl').read_text().splitlines()]
    return {line['step']: line['metrics'] for line in lines if line['event'] == 'train'}


def weights_of(path):
    return safetensors.numpy.load_file(path)


def model_of(path):
    return {name.removeprefix('model/'): w for name, w in weights_of(path).items() if name.startswith('model/')}


def first_weights(folder):
    """Of each stage, before its first step: a checkpoint at an edge is the new stage's, and with a rate of 0 nothing moves."""
    run(folder, 'still', configuration(folder, 1, rate=0.0))
    edges = np.cumsum([0] + [stage['steps'] for stage in STAGES])[:-1]
    return [model_of(folder / 'still' / f'ckpt-{max(1, edge)}.safetensors') for edge in edges]


# --- both ---------------------------------------------------------------------------------------------

def compare(folder, pictures, labels, new, loop):
    policy = Policy(new)
    wanted = train(policy, pictures, labels, loop)
    mine = run(folder, f'loops_of_{loop}', configuration(folder, loop))
    assert list(mine) == list(wanted), (list(mine), list(wanted))
    worst = 0
    for step, numbers in wanted.items():
        left = set(mine[step]) - set(numbers)
        assert set(numbers) <= set(mine[step]) and left <= {'top_2_accuracy'}, (step, set(mine[step]), set(numbers))
        assert mine[step]['stage'] == numbers['stage'], (step, mine[step], numbers)
        assert abs(mine[step]['learning_rate'] - numbers['learning_rate']) <= 1e-7, (step, mine[step], numbers)
        assert abs(mine[step]['accuracy'] - numbers['accuracy']) <= 1e-6, (step, mine[step], numbers)
        apart = abs(mine[step]['training_loss'] - numbers['training_loss'])
        assert apart <= 1e-5, (step, mine[step], numbers)
        worst = max(worst, apart)
    last = weights_of(folder / f'loops_of_{loop}' / f'ckpt-{STEPS}.safetensors')
    assert int(last['optimizer/iterations']) == policy.optimizer.iterations, last['optimizer/iterations']
    assert int(last['stage_id']) == policy.stage, last['stage_id']
    for name, w in policy.model.weights.items():
        assert np.abs(last[f'model/{name}'] - w.detach().numpy()).max() <= 1e-5, name
    for (slot, name), w in policy.optimizer.slots.items():
        assert np.abs(last[f'optimizer/{slot}/{name}'] - w.numpy()).max() <= 1e-5, (slot, name)
    kept = {name for name in last if name.startswith('optimizer/momentum/') or name.startswith('optimizer/m/')}
    assert kept == {f'optimizer/momentum/{name}' for name in policy.model.names}, kept
    print(f'loops of {loop}: {len(wanted)} loops in {len(STAGES)} stages, losses apart by {worst:.1e} at most')


def main():
    rng = np.random.default_rng(5)
    labels = rng.integers(CLASSES, size=COUNT)
    images = np.clip(rng.normal(100, 40, (COUNT, SIZE, SIZE)) + 30 * labels[:, None, None], 0, 255).astype(np.uint8)
    pictures = torch.from_numpy((images.reshape(COUNT, -1).astype(np.float64) - MEAN) / DEVIATION)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_idx(folder / 'images', images)
        write_idx(folder / 'labels', labels)
        new = first_weights(folder)
        for loop in 1, 3:  # 3 reaches over both edges
            compare(folder, pictures, torch.from_numpy(labels), new, loop)


if __name__ == '__main__':
    sys.exit(main())
