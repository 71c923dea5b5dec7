#!/usr/bin/env python3
"""Writes coco_evaluator.json: two batches as Model Garden's COCOEvaluator takes them, and what it tells.

    python tests/golden/coco_evaluator.py      # with tf-models-official 2.20.0 from PyPI

The reader is tests/nn/test_coco_evaluator.c. Its ground truth has PNG files as masks; ours has pixels, which are
written here as runs. Places beyond num_detections are empty.
"""
import io
import json
import os
import pathlib

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'

import numpy as np
import tensorflow as tf
from official.vision.evaluation import coco_evaluator
from official.vision.ops import mask_ops
from PIL import Image
from pycocotools import mask as masks

HERE = pathlib.Path(__file__).resolve().parent
BATCH, FOUND, TRUTHS, SIDE = 2, 8, 5, 6
rng = np.random.default_rng(11)


def text(pixels):
    return masks.encode(np.asfortranarray(pixels.astype(np.uint8)))['counts'].decode()


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, 'PNG')
    return file.getvalue()


def make_batch(first):
    sizes = rng.integers(40, 150, (BATCH, 2))
    scale = np.stack([128 / sizes.max(1)] * 2, 1)
    truth = {'source_id': np.arange(first, first + BATCH), 'height': sizes[:, 0], 'width': sizes[:, 1],
             'num_detections': rng.integers(2, TRUTHS + 1, BATCH)}
    boxes = np.zeros((BATCH, TRUTHS, 4), np.float32)
    shapes = np.zeros((BATCH, TRUTHS), object)
    runs = []
    for j in range(BATCH):
        runs.append([])
        for k in range(TRUTHS):
            size = rng.uniform(8, sizes[j] * 0.8)
            corner = rng.uniform(0, sizes[j] - size)
            boxes[j, k] = [*corner, *(corner + size)]
            y, x = np.mgrid[:sizes[j, 0], :sizes[j, 1]]
            middle = corner + size / 2
            pixels = ((y - middle[0]) / size[0]) ** 2 + ((x - middle[1]) / size[1]) ** 2 < 0.25
            shapes[j, k] = png(pixels)
            runs[-1].append(text(pixels))
    truth |= {'boxes': boxes, 'classes': rng.integers(1, 4, (BATCH, TRUTHS)),
              'is_crowds': (rng.random((BATCH, TRUTHS)) < 0.2).astype(np.int32)}
    found = {'source_id': truth['source_id'], 'num_detections': rng.integers(5, FOUND + 1, BATCH),
             'image_info': np.stack([sizes, [[128, 128]] * BATCH, scale, [[0, 0]] * BATCH], 1).astype(np.float32)}
    places = np.zeros((BATCH, FOUND, 4), np.float32)
    classes, scores = np.zeros((BATCH, FOUND), np.int32), np.zeros((BATCH, FOUND), np.float32)
    probabilities = np.zeros((BATCH, FOUND, SIDE, SIDE), np.float32)
    for j in range(BATCH):
        for k in range(found['num_detections'][j]):
            near = rng.integers(truth['num_detections'][j])
            places[j, k] = (boxes[j, near] + rng.normal(0, 2, 4)) * np.tile(scale[j], 2)
            classes[j, k] = truth['classes'][j, near] if rng.random() < 0.8 else rng.integers(1, 5)
            scores[j, k] = np.round(rng.random(), 2)
            y, x = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE - 0.5
            probabilities[j, k] = np.round(1 / (1 + np.exp(40 * (y * y + x * x - 0.22))), 3)
    found |= {'detection_boxes': places, 'detection_classes': classes, 'detection_scores': scores,
              'detection_masks': probabilities}
    return truth, found, shapes, runs


def pasted(found):
    boxes = found['detection_boxes'] / np.tile(found['image_info'][:, 2:3], (1, 1, 2))
    boxes = np.stack([boxes[..., 1], boxes[..., 0], boxes[..., 3] - boxes[..., 1], boxes[..., 2] - boxes[..., 0]], -1)
    return [[text(m > 0) for m in mask_ops.paste_instance_masks(
        found['detection_masks'][j], boxes[j], *found['image_info'][j, 0].astype(int))[:found['num_detections'][j]]]
        for j in range(BATCH)]


def tell(batches, **settings):
    evaluator = coco_evaluator.COCOEvaluator(annotation_file='', **settings)
    for truth, found, shapes, _ in batches:
        # What the evaluator does in TensorFlow with strings, done here with the arrays that it makes of them.
        evaluator._convert_to_numpy = lambda t, f: (t, {k: np.array(v) for k, v in f.items()})
        evaluator.update_state(truth | ({'masks': shapes} if settings['include_mask'] else {}), dict(found))
    return {name: float(value) for name, value in evaluator.result().items()}


def plain(arrays):
    return {name: value.tolist() for name, value in arrays.items()}


def main():
    tf.get_logger().setLevel('ERROR')
    batches = [make_batch(101), make_batch(7)]
    rows = [{'truth': plain(truth), 'masks': runs, 'found': plain(found), 'pasted': pasted(found)}
            for truth, found, _, runs in batches]
    told = {'boxes': tell(batches, include_mask=False), 'masks': tell(batches, include_mask=True)}
    (HERE / 'coco_evaluator.json').write_text(json.dumps({'batches': rows, 'told': told}, separators=(',', ':')) + '\n')


if __name__ == '__main__':
    main()
