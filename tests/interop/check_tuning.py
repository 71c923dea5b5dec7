"""Weights that thaw step by step, beside PyTorch.

A small network of which the head is trained at first, then more and more (tilth.unfreeze), with Adam and a clipped norm, from
the same first weights on the same pictures. What is frozen has no gradient, counts for no norm, and has slots of zeros; the
number of updates is everybody's, as Keras has it. Losses, weights, slots and averages are the same, also where the training
was interrupted on either side of an edge.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from driver import with_torch

with_torch(__file__)

import numpy as np
import torch
import yaml

from check_progressive import CLASSES, COUNT, SIZE, SMOOTHING, MEAN, DEVIATION, TILTH, Network, Optimizer, loss_of
from check_progressive import model_of, weights_of, write_idx

UNITS, STEPS, RATE, CLIP, DECAY = [16, 12], 14, 0.01, 0.3, 0.9
THAW = [(0, '^head/'), (4, 'dense_2'), (9, '.')]
EDGES = {'head/': 0, 'backbone/dense_2/': 4, 'backbone/dense_1/': 9}  # what that comes to


def configuration(folder, rate):
    data = {'file_type': 'idx', 'input_path': f'{folder}/images,{folder}/labels', 'global_batch_size': COUNT,
            'mean': [MEAN], 'stddev': [DEVIATION]}
    return {
        'task': {'model': {'num_classes': CLASSES, 'input_size': [SIZE, SIZE, 1],
                           'backbone': {'type': 'mlp', 'mlp': {'units': UNITS}}},
                 'losses': {'label_smoothing': SMOOTHING}, 'class_names': [],
                 'train_data': {**data, 'is_training': True}, 'validation_data': {**data, 'is_training': False}},
        'trainer': {'steps_per_loop': 1, 'summary_interval': 1, 'checkpoint_interval': 1, 'max_to_keep': 100,
                    'optimizer_config': {'optimizer': {'type': 'adam', 'adam': {'global_clipnorm': CLIP}},
                                         'ema': {'average_decay': DECAY, 'dynamic_decay': False,
                                                 'trainable_weights_only': False},
                                         'learning_rate': {'type': 'constant', 'constant': {'learning_rate': rate}},
                                         'warmup': {'type': None}}},
        'tilth': {'seed': 11, 'unfreeze': [{'step': step, 'patterns': [pattern]} for step, pattern in THAW]}}


def run(folder, name, config, *ends):
    """Trains up to each of these steps in a process of its own; gives what each step told."""
    path = folder / f'{name}.yaml'
    path.write_text(yaml.safe_dump(config))
    for steps in ends:
        done = subprocess.run([TILTH, 'train', '--experiment=vision/local', '--mode=train', f'--model_dir={folder / name}',
                               f'--config_file={path}', f'trainer.train_steps={steps}'], text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (folder / name / 'metrics.jsonl').read_text().splitlines()]
    return {line['step']: line['metrics']['training_loss'] for line in lines if line['event'] == 'train'}


def train(first, pictures, labels):
    """The peer: losses by step, the network, the optimizer, the averages."""
    model = Network(UNITS, lambda name: torch.from_numpy(first[name]).double())
    optimizer = Optimizer('adam', {}, ('constant', RATE))
    averages = {name: torch.zeros_like(w) for name, w in model.weights.items()}
    losses = {}
    for step in range(STEPS):
        awake = {name: w for name, w in model.weights.items()
                 if next(edge for part, edge in EDGES.items() if name.startswith(part)) <= step}
        loss = loss_of(model(pictures), labels)
        gradients = torch.autograd.grad(loss, list(awake.values()))
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))
        gradients = [g * min(1.0, CLIP / norm.item()) for g in gradients]
        optimizer.apply(awake, gradients)
        for name, w in model.weights.items():
            averages[name].mul_(DECAY).add_((1 - DECAY) * w.detach())
        losses[step + 1] = loss.item()
    return losses, model, optimizer, averages


def main():
    rng = np.random.default_rng(5)
    labels = rng.integers(CLASSES, size=COUNT)
    images = np.clip(rng.normal(100, 40, (COUNT, SIZE, SIZE)) + 30 * labels[:, None, None], 0, 255).astype(np.uint8)
    pictures = torch.from_numpy((images.reshape(COUNT, -1).astype(np.float64) - MEAN) / DEVIATION)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_idx(folder / 'images', images)
        write_idx(folder / 'labels', labels)
        run(folder, 'still', configuration(folder, 0.0), 1)
        first = model_of(folder / 'still' / 'ckpt-1.safetensors')
        losses, model, optimizer, averages = train(first, pictures, torch.from_numpy(labels))
        mine = run(folder, 'whole', configuration(folder, RATE), STEPS)
        assert list(mine) == list(losses), (list(mine), list(losses))
        worst = max(abs(mine[step] - loss) for step, loss in losses.items())
        assert worst <= 1e-5, worst
        last = weights_of(folder / 'whole' / f'ckpt-{STEPS}.safetensors')
        for name, w in model.weights.items():
            assert np.abs(last[f'model/{name}'] - w.detach().numpy()).max() <= 2e-5, name
            assert np.abs(last[f'optimizer/average/{name}'] - averages[name].numpy()).max() <= 2e-5, name
        for (slot, name), w in optimizer.slots.items():
            assert np.abs(last[f'optimizer/{slot}/{name}'] - w.numpy()).max() <= 2e-5, (slot, name)
        assert run(folder, 'cut', configuration(folder, RATE), 3, 4, 5, 9, 10, STEPS) == mine
        here, there = (folder / kind / f'ckpt-{STEPS}.safetensors' for kind in ('whole', 'cut'))
        assert here.read_bytes() == there.read_bytes()
        print(f'{STEPS} steps, {len(THAW) - 1} edges: losses apart by {worst:.1e} at most; interrupted five times: the same bytes')


if __name__ == '__main__':
    sys.exit(main())
