"""`tilth find_lr` of the experiment `mock`, computed once more with NumPy: rates, losses, means, the suggestion.

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


def main():
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
