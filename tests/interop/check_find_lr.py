"""`tilth find_lr` of the experiment `mock`, computed once more with NumPy: rates, losses, means, the suggestion; and
the noise scale of gradients that `tilth train` tells.

The model is y = w x + b, which is to learn y = x: with e = w - 1, the losses depend on e and b alone, and not on the
sign of both. b begins at 0, so the first loss says what e is.
"""
import json
import os
import subprocess
import tempfile

import numpy as np

LEAST, GREATEST, SMOOTHING = 1e-3, 50.0, 0.9


def search(folder, steps, divergence):
    words = ['find_lr', '--experiment=mock', '--json', f'--steps={steps}', f'--min={LEAST}', f'--max={GREATEST}',
             f'--smoothing={SMOOTHING}', f'--divergence={divergence}', 'tilth.jit=false', 'tilth.seed=3',
             'task.train_data.is_training=false', 'task.train_data.global_batch_size=100',
             'trainer.optimizer_config.optimizer.type=sgd', 'trainer.optimizer_config.optimizer.sgd.decay=0.01']
    done = subprocess.run([os.environ['TILTH'], *words], cwd=folder, check=True, stdout=subprocess.PIPE)
    assert not os.listdir(folder), os.listdir(folder)
    return json.loads(done.stdout)


def simulate(steps, divergence, first_loss):
    x = np.arange(100, dtype=np.float32) / np.float32(100)
    x = x.astype(np.float64)
    e, b, mean, best, points = np.sqrt(first_loss / np.mean(x * x)), 0.0, 0.0, np.inf, []
    rates = LEAST * (GREATEST / LEAST) ** (np.arange(steps) / (steps - 1))
    for i, rate in enumerate(rates):
        error = e * x + b
        loss = np.mean(error ** 2)
        e, b = e - rate * 2 * np.mean(error * x), b - rate * 2 * np.mean(error)
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        smoothed = mean / (1 - SMOOTHING ** (i + 1))
        if i and smoothed > divergence * best:
            return points, True
        best = min(best, smoothed)
        points.append((rate, loss, smoothed))
    return points, False


def suggestion(points):
    first = min(10, len(points) // 10)
    smoothed = np.array([p[2] for p in points])[first:-1]
    slopes = np.gradient(smoothed)[:np.argmin(smoothed) + 1]
    return points[first + int(np.argmin(slopes))][0] if slopes.min() < 0 else None


def noise_scale(steps, batches, size, rate, e, decay=0.99):
    """By McCandlish et al. (2018), appendix A.1, with averages over steps; and the loss of each step."""
    x = (np.arange(100, dtype=np.float32) / np.float32(100)).astype(np.float64)
    b, noise, signal, at, losses = 0.0, 0.0, 0.0, 0, []
    for _ in range(steps):
        grads, loss = [], 0.0
        for _ in range(batches):
            part = x[at:at + size]
            error = e * part + b
            grads.append((2 * np.mean(error * part), 2 * np.mean(error)))
            loss += np.mean(error ** 2) / batches
            at = (at + size) % 100
        grads = np.array(grads)
        mean = grads.mean(0)
        small, large = np.mean(np.sum(grads ** 2, 1)), np.sum(mean ** 2)
        b_small, b_large = size, batches * size
        noise = decay * noise + (small - large) / (1 / b_small - 1 / b_large)
        signal = decay * signal + (b_large * large - b_small * small) / (b_large - b_small)
        e, b = e - rate * mean[0], b - rate * mean[1]
        losses.append(loss)
    return noise / signal, losses


def check_noise(steps, batches, size, rate):
    words = ['train', '--experiment=mock', '--mode=train', '--model_dir=run', 'tilth.jit=false', 'tilth.seed=3',
             'task.train_data.is_training=false', f'task.train_data.global_batch_size={size}',
             f'tilth.gradient_accumulation={batches}', 'tilth.gradient_noise_scale=true',
             f'trainer.train_steps={steps}', 'trainer.steps_per_loop=1', 'trainer.summary_interval=1',
             f'trainer.checkpoint_interval={steps}', 'trainer.optimizer_config.optimizer.type=sgd',
             'trainer.optimizer_config.learning_rate.type=constant',
             f'trainer.optimizer_config.learning_rate.constant.learning_rate={rate}']
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.environ['TILTH'], *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, 'run/metrics.jsonl')) as file:
            told = [json.loads(line) for line in file]
    told = [event['metrics'] for event in told if 'gradient_noise_scale' in event.get('metrics', {})]
    # The losses say how large e was, which the noise scale does not depend on until weights move.
    unit = noise_scale(1, batches, size, rate, 1.0)[1][0]
    e = np.sqrt(told[0]['training_loss'] / unit)
    for step, metrics in enumerate(told, 1):
        wanted, losses = noise_scale(step, batches, size, rate, e)
        assert np.isclose(metrics['gradient_noise_scale'], wanted, rtol=1e-3), (step, metrics, wanted)
        assert np.isclose(metrics['training_loss'], losses[-1], rtol=1e-3), (step, metrics, losses)
    assert len(told) == steps
    print(steps, 'steps of', batches, 'batches: noise scale', told[-1]['gradient_noise_scale'])


def main():
    check_noise(12, 2, 10, 0.05)
    check_noise(9, 4, 25, 0.0)
    for steps, divergence in ((40, 4), (25, 1e6), (30, 2)):
        with tempfile.TemporaryDirectory() as folder:
            told = search(folder, steps, divergence)
        found = [(p['learning_rate'], p['loss'], p['smoothed_loss']) for p in told['points']]
        points, diverged = simulate(steps, divergence, found[0][1])
        assert told['diverged'] == diverged and len(found) == len(points), (len(found), len(points))
        a, b = np.array(found), np.array(points)
        assert np.allclose(a[:, 0], b[:, 0], rtol=1e-12), a[:, 0] / b[:, 0]
        assert np.allclose(a[:, 1:], b[:, 1:], rtol=1e-3, atol=1e-5 * a[0, 1]), a[:, 1:] - b[:, 1:]
        assert np.isclose(told['suggestion'], suggestion(found), rtol=1e-12), (told['suggestion'], suggestion(found))
        print(steps, 'steps:', len(found), 'points, diverged' if diverged else 'points', told['suggestion'])


main()
