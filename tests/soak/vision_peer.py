"""What others say of a detector and a segmenter: pycocotools of boxes, numpy of the classes of pixels.

    vision_peer.py boxes TRUTHS.json DETECTIONS.json
    vision_peer.py pixels TRUTHS.json FOLDER

FOLDER is that of `tilth predict --pictures`: the classes of the pixels of record N are in a file ...N.labels.png. Prints
a line for each number.
"""
import contextlib
import io
import json
import pathlib
import re
import sys

import numpy as np
from PIL import Image
from pycocotools.coco import COCO

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'interop'))
from coco_sets import original  # pylint: disable=wrong-import-position


def boxes(truths, found):
    if not json.loads(pathlib.Path(found).read_text()):
        return {'AP': 0, 'AP50': 0}  # pycocotools wants one at least
    stats = original(truths, found)[0].stats
    return {'AP': stats[0], 'AP50': stats[1]}


def true_maps(truths):
    """Shapes in the order in which they were drawn: the later ones are on top."""
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(truths))
    for image in coco.dataset['images']:
        classes = np.zeros((image['height'], image['width']), np.int64)
        for one in sorted(coco.imgToAnns[image['id']], key=lambda a: a['id']):
            classes[coco.annToMask(one) == 1] = one['category_id']
        yield classes


def pixels(truths, folder):
    truth = list(true_maps(truths))
    files = sorted(pathlib.Path(folder).rglob('*.labels.png'), key=lambda path: int(re.findall(r'\d+', path.name)[-1]))
    assert len(files) == len(truth), f'{len(files)} maps of {len(truth)} pictures'
    count = 1 + max(t.max() for t in truth)
    confusion = np.zeros((count, count), np.int64)
    for wanted, file in zip(truth, files):
        got = np.asarray(Image.open(file)).astype(np.int64)
        assert got.shape == wanted.shape and got.max() < count, file
        confusion += np.bincount((wanted * count + got).ravel(), minlength=count * count).reshape(count, count)
    common = np.diag(confusion)
    iou = common / (confusion.sum(0) + confusion.sum(1) - common)
    return {'mean_iou': iou.mean(), 'worst_iou': iou.min()}


if __name__ == '__main__':
    for name, value in {'boxes': boxes, 'pixels': pixels}[sys.argv[1]](*sys.argv[2:]).items():
        print(f'{name} {value:.9f}')
