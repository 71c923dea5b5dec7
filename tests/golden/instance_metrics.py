#!/usr/bin/env python3
"""Writes instance_metrics.json: batches as Model Garden's InstanceMetrics takes them, and what its Mask R-CNN task tells
of them, by boxes and by masks.

    python tests/golden/instance_metrics.py      # with tf-models-official 2.20.0 from PyPI

The reader is tests/nn/test_instance_metrics.c.
"""
import json
import os
import pathlib
import types

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'

import numpy as np
from official.vision.evaluation import instance_metrics
from official.vision.tasks import maskrcnn

HERE = pathlib.Path(__file__).resolve().parent
BATCH, FOUND, TRUTHS, CLASSES = 2, 9, 6, 5
rng = np.random.default_rng(3)


def disc(height, width, sharp):
    y, x = (np.mgrid[:height, :width] + 0.5) / np.array([height, width]).reshape(2, 1, 1) - 0.5
    return np.round(1 / (1 + np.exp(sharp * (y * y + x * x - rng.uniform(0.15, 0.3)))), 3)


def make_batch(large):
    """`large`: boxes do not fit into the grid of masks. Some places are padding, some detections have a class that
    does not count, scores repeat in no image."""
    boxes = np.full((BATCH, TRUTHS, 4), -1.0)
    classes = np.full((BATCH, TRUTHS), -1)
    crowds = np.zeros((BATCH, TRUTHS), int)
    scale = np.round(rng.uniform(0.4, 2, (BATCH, 2)), 3)
    found = {'detection_boxes': np.zeros((BATCH, FOUND, 4)), 'detection_classes': np.zeros((BATCH, FOUND), int),
             'detection_scores': np.zeros((BATCH, FOUND)), 'detection_masks': np.zeros((BATCH, FOUND, 6, 6))}
    masks = np.full((BATCH, TRUTHS, 5, 7), -1.0)
    for i in range(BATCH):
        for k in range(rng.integers(3, TRUTHS + 1)):
            size = rng.uniform(10, 700 if large else 90, 2)
            corner = rng.uniform(0, 400 if large else 50, 2)
            boxes[i, k] = np.round([*corner, *(corner + size)], 2)
            classes[i, k] = rng.integers(1, CLASSES - 1)  # the last class never occurs
            crowds[i, k] = rng.random() < 0.25
            masks[i, k] = disc(5, 7, 30)
        scores = rng.permutation(1001)[:FOUND] / 1000
        for k in range(FOUND - 1):
            near = rng.integers((classes[i] > 0).sum())
            shift = rng.normal(0, 0.06, 4) * np.tile(boxes[i, near, 2:] - boxes[i, near, :2], 2)
            found['detection_boxes'][i, k] = np.round((boxes[i, near] + shift) * np.tile(scale[i], 2), 2)
            found['detection_classes'][i, k] = classes[i, near] if rng.random() < 0.8 else rng.integers(0, CLASSES)
            found['detection_scores'][i, k] = scores[k]
            found['detection_masks'][i, k] = disc(6, 6, 30)
    info = np.zeros((BATCH, 4, 2))
    info[:, 2] = scale
    return {'boxes': boxes, 'classes': classes, 'is_crowds': crowds, 'masks': masks, 'image_info': info}, found


def told(metric, use_masks):
    """As the task tells it."""
    task = types.SimpleNamespace(instance_box_perclass_metrics=metric, instance_mask_perclass_metrics=metric,
                                 task_config=types.SimpleNamespace(
                                     per_category_metrics=True, model=types.SimpleNamespace(num_classes=CLASSES)))
    logs = {}
    maskrcnn.MaskRCNNTask._reduce_instance_metrics(task, logs, use_masks=use_masks)
    return {name: float(value) for name, value in logs.items()}


def main():
    batches = [make_batch(large) for large in (False, False, True)]
    results = []
    for use_masks in (False, True):
        metric = instance_metrics.InstanceMetrics(num_classes=CLASSES, use_masks=use_masks,
                                                  iou_thresholds=np.arange(0.5, 1.0, step=0.05))
        for truth, found in batches:
            metric.update_state({k: np.asarray(v, np.int32 if k in ('classes', 'is_crowds') else np.float32)
                                 for k, v in truth.items()},
                                {k: np.asarray(v, np.int32 if 'classes' in k else np.float32)
                                 for k, v in found.items()})
        results.append(told(metric, use_masks))
    text = {'batches': [{'truth': {k: v.tolist() for k, v in t.items()}, 'found': {k: v.tolist() for k, v in f.items()}}
                        for t, f in batches], 'results': results}
    (HERE / 'instance_metrics.json').write_text(json.dumps(text, separators=(',', ':')) + '\n')
    print(results)


if __name__ == '__main__':
    main()
