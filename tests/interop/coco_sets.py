"""Random objects and detections in the format of COCO, and what pycocotools says about them."""
import contextlib
import io
import json

import numpy as np
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def polygon(rng, x, y, width, height):
    """A star around the middle of a box; sometimes its corners are whole pixels."""
    count = int(rng.integers(3, 12))
    angle = np.sort(rng.uniform(0, 2 * np.pi, count))
    radius = rng.uniform(0.3, 1.0, count) / 2
    corners = np.stack([x + width * (0.5 + radius * np.cos(angle)), y + height * (0.5 + radius * np.sin(angle))], 1)
    return (np.rint(corners) if rng.random() < 0.3 else np.round(corners, 2)).ravel().tolist()


def as_text(rle):
    return {'size': rle['size'], 'counts': rle['counts'].decode()}


def as_counts(rle):
    pixels = masks.decode(rle).ravel(order='F')
    edges = np.flatnonzero(np.diff(pixels)) + 1
    counts = np.diff(np.concatenate([[0], edges, [pixels.size]])).tolist()
    return {'size': rle['size'], 'counts': ([0] if pixels[0] else []) + counts}


def segmentation(rng, box, height, width, crowd=False):
    found = [polygon(rng, *box) for _ in range(rng.integers(1, 4))]
    kind = rng.random()
    if kind < 0.5 and not crowd:
        return found
    rle = masks.merge(masks.frPyObjects(found, height, width))
    return as_counts(rle) if crowd or kind < 0.7 else as_text(rle)


def random_set(rng, images, categories, most_truths, most_found, with_masks=False):
    """{annotation file}, [results]. Scores repeat, boxes repeat, some images and categories are empty."""
    truths = {'images': [], 'annotations': [], 'categories': []}
    found = []
    ids = rng.permutation(10 * images)[:images]
    classes = np.sort(rng.permutation(3 * categories)[:categories] + 1).tolist()
    truths['categories'] = [{'id': k, 'name': f'class {k}'} for k in classes]
    for image in ids.tolist():
        height, width = (int(x) for x in rng.integers(40, 400, 2))
        truths['images'].append({'id': image, 'height': height, 'width': width})
        boxes = []
        for _ in range(0 if rng.random() < 0.15 else int(rng.integers(0, most_truths + 1))):
            size = np.exp(rng.uniform(np.log(3), np.log(300), 2)).clip(2, [width, height])
            box = [float(rng.uniform(0, width - size[0])), float(rng.uniform(0, height - size[1])), *size.tolist()]
            box = np.rint(box).tolist() if rng.random() < 0.5 else np.round(box, 2).tolist()
            crowd = int(rng.random() < 0.15)
            one = {'id': len(truths['annotations']) + 1, 'image_id': image, 'category_id': int(rng.choice(classes)),
                   'bbox': box, 'iscrowd': crowd, 'area': box[2] * box[3] * float(rng.choice([1, 0.7]))}
            if with_masks:
                one['segmentation'] = segmentation(rng, box, height, width, crowd)
            truths['annotations'].append(one)
            boxes.append((box, one['category_id'], one.get('segmentation')))
        for _ in range(0 if rng.random() < 0.15 else int(rng.integers(0, most_found + 1))):
            box, category, shape = boxes[rng.integers(len(boxes))] if boxes and rng.random() < 0.7 else (
                rng.uniform([0, 0, 3, 3], [100, 100, 150, 150]).round(3).tolist(), int(rng.choice([*classes, 999])), None)
            kind = rng.random()
            if kind > 0.1:
                box, shape = (np.array(box) + rng.normal(0, 0.08, 4) * np.tile(np.abs(box[2:]), 2)).round(3).tolist(), None
            if kind > 0.8:
                category = int(rng.choice(classes))
            score = float(np.round(rng.random(), int(rng.choice([1, 2, 6]))))
            one = {'image_id': image, 'category_id': category, 'score': score}
            if with_masks:
                one['segmentation'] = shape or segmentation(rng, box, height, width)
                if isinstance(one['segmentation'], list) or not isinstance(one['segmentation']['counts'], str):
                    # loadRes of pycocotools takes texts only
                    rle = masks.frPyObjects(one['segmentation'], height, width)
                    one['segmentation'] = as_text(masks.merge(rle) if isinstance(rle, list) else rle)
            else:
                one['bbox'] = box
            found.append(one)
    return truths, [found[i] for i in rng.permutation(len(found))]


def mean(values):
    values = values[values > -1]
    return float(values.mean()) if values.size else -1.0


def twelve(evaluated, category=slice(None)):
    """The numbers of summarize, but AP for any number of detections; all, or those of one category."""
    precision = evaluated.eval['precision'][:, :, category]
    recall = evaluated.eval['recall'][:, category]
    return ([mean(precision[..., 0, 2]), mean(precision[0, ..., 0, 2]), mean(precision[5, ..., 0, 2])]
            + [mean(precision[..., a, 2]) for a in (1, 2, 3)] + [mean(recall[..., 0, m]) for m in (0, 1, 2)]
            + [mean(recall[..., a, 2]) for a in (1, 2, 3)])


def original(truth_file, found_file, kind='bbox', most=100):
    """The COCOeval of pycocotools after summarize, and the lines that it prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()):
        truths = COCO(str(truth_file))
        found = truths.loadRes(str(found_file))
        evaluated = COCOeval(truths, found, kind)
        evaluated.params.maxDets = [1, 10, most]
        evaluated.evaluate()
        evaluated.accumulate()
        with contextlib.redirect_stdout(said):
            evaluated.summarize()
    return evaluated, said.getvalue()


def write(path, value):
    path.write_text(json.dumps(value))
    return path
