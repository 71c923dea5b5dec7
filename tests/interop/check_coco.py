"""`tilth eval_coco`, the masks of io/coco/rle.h and the files that io/coco writes beside pycocotools: random objects,
detections and masks; the speed.

Where compilers fuse products and sums (all machines but x86-64), pycocotools rounds some edges of polygons another way
than it does on x86-64, and than we do: there one polygon in a thousand may differ by a pixel in a column.
"""
import contextlib
import io
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from coco_sets import original, polygon, random_set, twelve, write
from driver import compile_driver

TILTH = os.environ['TILTH']
SETS, MASK_SETS, MASKS, FILE_SETS = 200, 40, 3000, 40
MOST = 1e-10  # that a number may differ by


def ours(*words, threads=2):
    done = subprocess.run([TILTH, 'eval_coco', *map(str, words)], text=True, capture_output=True,
                          env={**os.environ, 'TILTH_NUM_THREADS': str(threads)})
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def compare(folder, truths, found, kind, most):
    """The largest difference of all numbers."""
    files = write(folder / 'truths.json', truths), write(folder / 'found.json', found)
    flags = ['--segm'] * (kind == 'segm') + [f'--max_detections={most}']
    evaluated, said = original(*files, kind, most)
    here = json.loads(ours(*files, *flags, '--json'))
    worst = np.abs(np.subtract(here['stats'], twelve(evaluated))).max()
    if most == 100:
        worst = max(worst, np.abs(np.subtract(here['stats'], evaluated.stats)).max())
        lines = ours(*files, *flags)
        assert lines == said, f'{lines}\n{said}'
    for k, row in enumerate(here['per_category']):
        assert row['id'] == evaluated.params.catIds[k]
        names = [name for name in row if name.startswith('A')]
        assert len(names) == 12
        worst = max(worst, np.abs(np.subtract([row[n] for n in names], twelve(evaluated, slice(k, k + 1)))).max())
    return worst


def check_sets(folder):
    worst, detections = {'bbox': 0.0, 'segm': 0.0}, 0
    for i in range(SETS + MASK_SETS):
        rng = np.random.default_rng(i)
        kind = 'bbox' if i < SETS else 'segm'
        many = i % 10 == 0
        truths, found = random_set(rng, int(rng.integers(1, 3 if many else 9)), int(rng.integers(1, 5)),
                                   60 if many else 8, (1000 if kind == 'bbox' else 100) if many else 25, kind == 'segm')
        if not found:
            continue  # pycocotools wants at least one
        detections = max(detections, len(found))
        off = compare(folder, truths, found, kind, int(rng.choice([100, 100, 10, 300])))
        worst[kind] = max(worst[kind], off)
        if not off <= MOST:
            print(f'set {i} ({kind}): a number differs by {off:g}')
            return False
    print(f'{SETS} sets of boxes, {MASK_SETS} of masks, up to {detections} detections: numbers differ by at most '
          f'{worst["bbox"]:.1g} and {worst["segm"]:.1g}')
    return True


def mask_questions(rng):
    """Lines for the driver, and the answers of pycocotools."""
    questions, answers = [], []

    def ask(question, answer):
        questions.append(question)
        answers.append(answer)

    def shape(rle):
        box = ' '.join(f'{x:g}' for x in masks.toBbox(rle))
        return f'{rle["counts"].decode()} {int(masks.area(rle))} {box}'

    for _ in range(MASKS // 3):
        height, width = (int(x) for x in rng.integers(1, 60, 2))
        size, made = f'{height} {width}', []
        for _ in range(3):
            if rng.random() < 0.7:
                corners = polygon(rng, *rng.uniform(-20, 40, 2), *rng.uniform(1, 70, 2))
                if rng.random() < 0.2:
                    corners += corners[:2]
                rle = masks.frPyObjects([corners], height, width)[0]
                ask(f'polygon {size} {len(corners) // 2} {" ".join(map(repr, corners))}', shape(rle))
            else:
                pixels = (rng.random((height, width)) < rng.choice([0, 0.1, 0.5, 0.9, 1])).astype(np.uint8)
                rle = masks.encode(np.asfortranarray(pixels))
                ask(f'pixels {size} {"".join(map(str, pixels.ravel()))}', shape(rle))
            made.append(rle)
        texts = [rle['counts'].decode() for rle in made]
        for name, both in ('union', False), ('common', True):
            ask(f'{name} {size} 3 {" ".join(texts)}', masks.merge(made, intersect=both)['counts'].decode())
        for crowd in 0, 1:
            iou = masks.iou([made[0]], [made[1]], [crowd])[0, 0]
            ask(f'iou {size} {crowd} {texts[0]} {texts[1]}', f'{iou:.17g}')
    return questions, answers


def is_rounding(question, answer, here):
    """Of a polygon, and the two masks differ by a pixel here and there."""
    what, height, width, *_ = question.split()
    a, b = (masks.decode({'size': [int(height), int(width)], 'counts': x.split()[0]}) for x in (answer, here))
    return what == 'polygon' and (a != b).sum(0).max() <= 1


def check_masks(driver):
    questions, answers = mask_questions(np.random.default_rng(0))
    said = subprocess.run([driver], input='\n'.join(questions) + '\n', text=True, check=True,
                          capture_output=True).stdout.splitlines()
    wrong = [(q, a, s) for q, a, s in zip(questions, answers, said, strict=True) if a != s]
    fused = [row for row in wrong if platform.machine() != 'x86_64' and is_rounding(*row)]
    for question, answer, here in wrong[:5]:
        print(f'{question}\n    pycocotools: {answer}\n    here:        {here}')
    print(f'{len(questions)} questions about masks, {len(wrong)} answers differ, {len(fused)} of them by rounding')
    return len(wrong) == len(fused) <= len(questions) / 1000


def check_files(folder, driver):
    """Files that we wrote say to pycocotools what those say that we read."""
    written = folder / 'written'
    written.mkdir()
    objects = 0
    for i in range(FILE_SETS):
        rng = np.random.default_rng(1000 + i)
        truths, found = random_set(rng, int(rng.integers(1, 6)), int(rng.integers(1, 5)), 8, 25, True)
        if not found:
            continue
        files = write(folder / 'truths.json', truths), write(folder / 'found.json', found)
        subprocess.run([driver, 'write', *files, written], check=True)
        with contextlib.redirect_stdout(io.StringIO()):
            there = COCO(str(folder / 'truths.json'))
            here = COCO(str(written / 'truths.json'))
            pairs = [(there, here), (there.loadRes(str(folder / 'found.json')), here.loadRes(str(written / 'found.json')))]
        for a, b in pairs:
            assert [c['id'] for c in a.dataset['categories']] == [c['id'] for c in b.dataset['categories']]
            sizes = [[(x['id'], x['height'], x['width']) for x in s.dataset['images']] for s in (a, b)]
            assert sizes[0] == sizes[1]
            objects += len(a.dataset['annotations'])
            for x, y in zip(a.dataset['annotations'], b.dataset['annotations'], strict=True):
                for key in 'image_id', 'category_id', 'bbox', 'area', 'iscrowd', 'score':
                    assert np.array_equal(x.get(key), y.get(key)), (i, key, x, y)
                if 'segmentation' in x:
                    assert (a.annToMask(x) != b.annToMask(y)).sum(0).max() <= (platform.machine() != 'x86_64'), (i, x, y)
        scores = [original(*paths, 'segm')[0].stats for paths in (files, (written / 'truths.json', written / 'found.json'))]
        assert np.abs(np.subtract(*scores)).max() <= MOST
    print(f'{FILE_SETS} files of annotations and results, {objects} objects: written again they say the same')
    return True


def check_speed(folder, driver, kind, images, found):
    rng = np.random.default_rng(7)
    truths, results = random_set(rng, images, 80 if kind == 'bbox' else 20, 15, found, kind == 'segm')
    files = write(folder / 'truths.json', truths), write(folder / 'found.json', results)
    start = time.perf_counter()
    evaluated, _ = original(*files, kind)
    there = time.perf_counter() - start
    start = time.perf_counter()
    alone = COCOeval(evaluated.cocoGt, evaluated.cocoDt, kind)
    with contextlib.redirect_stdout(io.StringIO()):
        alone.evaluate()
        alone.accumulate()
        alone.summarize()
    there_alone = time.perf_counter() - start
    times = []
    for _ in range(3):
        start = time.perf_counter()
        here = json.loads(ours(*files, '--json', *['--segm'] * (kind == 'segm'), threads=1))
        times.append(time.perf_counter() - start)
    here_alone = float(subprocess.run([driver, kind, *files], check=True, capture_output=True, text=True).stdout)
    ratio = there / min(times)
    off = np.abs(np.subtract(here['stats'], evaluated.stats)).max()
    print(f'{kind}: {images} images, {len(results)} detections: pycocotools {there:.2f} s, here {min(times):.2f} s on one '
          f'thread, with files and start: {ratio:.0f} times as fast; without them {there_alone / here_alone:.0f} times; '
          f'numbers differ by {off:.1g}')
    return off <= MOST


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('coco_driver', folder)
        good = [check_masks(driver), check_sets(folder), check_files(folder, driver), check_speed(folder, driver, 'bbox', 500, 200),
                check_speed(folder, driver, 'segm', 200, 60)]
    return 0 if all(good) else 1


if __name__ == '__main__':
    sys.exit(main())
