#!/usr/bin/env python3
"""Writes coco.json: random objects and detections, and the numbers of pycocotools for them.

    python tests/golden/coco.py      # with pycocotools 2.0.11, numpy 2.4.6 from PyPI

The reader is tests/nn/test_coco.c. The sets are those of tests/interop/coco_sets.py, whose check compares many more.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'interop'))

from coco_sets import original, random_set, twelve, write  # noqa: E402


def main():
    sets = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for seed in range(21):
            rng = np.random.default_rng(1000 + seed)
            kind = 'segm' if seed >= 14 else 'bbox'
            truths, found = random_set(rng, int(rng.integers(1, 6)), int(rng.integers(1, 4)), 5,
                                       8 if kind == 'segm' else 25, kind == 'segm')
            if not found:
                continue
            most = [100, 300, 10][seed % 3]
            evaluated, lines = original(write(folder / 'truths.json', truths), write(folder / 'found.json', found), kind,
                                        most)
            sets.append({'kind': kind, 'most': most, 'truths': truths, 'found': found, 'stats': twelve(evaluated),
                         'lines': lines,
                         'categories': [twelve(evaluated, slice(k, k + 1)) for k in range(len(truths['categories']))]})
    (HERE / 'coco.json').write_text(json.dumps(sets, separators=(',', ':')) + '\n')


if __name__ == '__main__':
    main()
