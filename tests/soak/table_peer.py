#!/usr/bin/env python3
"""The experiment `table`, as it comes, beside scikit-learn's networks and linear models, on the same rows.

    python tests/soak/table_peer.py TILTH [SEEDS]

Each table is split into rows to learn from and rows that nobody sees before the end. Ours is given the first as a CSV file
and nothing else; so it also has to hold out a part of them by itself. Ends with 1 when ours is more than MARGIN below the
better of the two peers in the mean over the seeds.
"""
import csv
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

warnings.filterwarnings('ignore')
MARGIN = 0.02  # of accuracy, or of r2


def people(rng, count=4000):
    """Numbers that lean far to one side, categories that matter, a rare one, holes."""
    age = rng.uniform(18, 80, count)
    income = rng.lognormal(10, 1, count)
    job = rng.choice(['clerk', 'nurse', 'teacher', 'pilot', 'judge'], count, p=[.4, .3, .2, .095, .005])
    town = rng.choice([f'town {i}' for i in range(30)], count)
    worth = {'clerk': 0, 'nurse': .5, 'teacher': 1, 'pilot': 2, 'judge': 3}
    luck = {f'town {i}': np.sin(i) for i in range(30)}
    score = (.05 * (age - 45) + np.log(income / 2e4) + [worth[j] for j in job] + 2 * np.array([luck[t] for t in town])
             - 1 + rng.logistic(0, .7, count))
    holes = rng.random(count) < .1
    rows = np.empty((count, 4), object)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = age.round(1), income.round(), job, town
    rows[holes, 1] = np.nan
    return rows, np.where(score > 0, 'yes', 'no'), [2, 3]


def houses(rng, count=3000):
    """Prices as those of Californian houses: products, places, a skewed target."""
    x = np.column_stack([rng.lognormal(1.2, .5, count), rng.uniform(1, 52, count), rng.lognormal(1.6, .3, count),
                         rng.lognormal(7, .8, count), rng.uniform(32, 42, count), rng.uniform(-124, -114, count)])
    coast = np.exp(-np.abs(x[:, 4] - 37 + .9 * (x[:, 5] + 119)))
    price = x[:, 0] * (20 + 40 * coast) + 0.4 * x[:, 1] + 5 * np.log(x[:, 3]) + rng.normal(0, 8, count)
    return x.round(3).astype(object), price.round(2), []


def tables(seed):
    rng = np.random.default_rng(seed)
    for name in ('iris', 'wine', 'breast_cancer', 'digits'):
        d = getattr(datasets, f'load_{name}')()
        yield name, d.data.astype(object), np.array([f'class {i}' for i in d.target]), [], True
    d = datasets.load_diabetes()
    yield 'diabetes', d.data.astype(object), d.target, [], False
    x, y = datasets.make_friedman1(2000, 10, noise=1, random_state=seed)
    yield 'friedman', x.astype(object), y, [], False
    yield ('houses', *houses(rng), False)
    yield ('people', *people(rng), True)


def write(path, x, y):
    with open(path, 'w', newline='') as f:
        w = csv.writer(f)
        w.writerow([f'feature {i}' for i in range(x.shape[1])] + ['target'])
        for row, target in zip(x, y):
            w.writerow(['' if v != v else v for v in row] + [target])


def ours(program, folder, seed, train, test, metric):
    write(folder / 'train.csv', *train)
    write(folder / 'test.csv', *test)
    run = folder / 'run'
    common = [f'--model_dir={run}', '--verbosity=-1']
    subprocess.run([program, 'train', '--experiment=table', '--mode=train_and_eval', *common, f'tilth.seed={seed}',
                    f'task.train_data.input_path={folder}/train.csv'], check=True, stdout=subprocess.PIPE)
    found = []
    for checkpoint in ('best', 'latest'):
        said = subprocess.run([program, 'eval', f'--checkpoint={checkpoint}', *common,
                               f'task.validation_data.input_path={folder}/test.csv'], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        found.append(next(float(line.split()[1]) for line in said.splitlines() if line.startswith(metric + ' ')))
    return found


def peers(seed, train, test, categories, classes):
    numbers = [i for i in range(train[0].shape[1]) if i not in categories]
    for net in (True, False):
        if classes:
            last = MLPClassifier(random_state=seed, max_iter=500) if net else LogisticRegression(max_iter=2000)
        else:
            last = MLPRegressor(random_state=seed, max_iter=500) if net else RidgeCV()
        look = make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            (OneHotEncoder(handle_unknown='ignore'), categories))
        yield make_pipeline(look, last).fit(*train).score(*test)


def main():
    program, seeds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    only = sys.argv[3:]
    found = {}
    for seed in range(1, seeds + 1):
        for name, x, y, categories, classes in tables(seed):
            if only and name not in only:
                continue
            parts = train_test_split(x, y, test_size=.2, random_state=seed, stratify=y if classes else None)
            train, test = (parts[0], parts[2]), (parts[1], parts[3])
            with tempfile.TemporaryDirectory() as folder:
                mine = ours(program, pathlib.Path(folder), seed, train, test, 'accuracy' if classes else 'r2')
            found.setdefault(name, []).append([*mine, *peers(seed, train, test, categories, classes)])
    failed = False
    print(f'{"table":15s} {"best":>8s} {"latest":>8s} {"sk net":>8s} {"sk line":>8s}')
    for name, rows in found.items():
        means = np.mean(rows, axis=0)
        bad = means[0] < max(means[2], means[3]) - MARGIN
        failed |= bad
        print(f'{name:15s} ' + ' '.join(f'{m:8.4f}' for m in means) + ('  <- worse' if bad else ''))
    sys.exit(int(failed))


main()
