"""Writes tests/golden/coco_records: a small COCO folder, and the records that Model Garden's create_coco_tf_record makes
of it with masks, in two shards; and the annotation file that its COCOEvaluator makes of these records; and
a picture of classes of Pascal VOC. Run with tf-models-official 2.20 and pycocotools."""
import json
import pathlib
import shutil
import sys

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / 'coco_records'


def picture(rng, height, width, grey=False):
    """Smooth, so that the file is small."""
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    image = small.resize((width, height), Image.BICUBIC)
    return image.convert('L') if grey else image


def annotations():
    """Good ones of every kind, and all kinds that are left out."""
    def one(number, image, category, box, segmentation, crowd=0, area=None):
        return {'id': number, 'image_id': image, 'category_id': category, 'bbox': box, 'iscrowd': crowd,
                'area': box[2] * box[3] * 0.625 if area is None else area, 'segmentation': segmentation}

    star = [5.5, 2.25, 20.75, 8.5, 30.0, 3.1, 28.4, 20.2, 9.9, 21.7]
    crowd = {'size': [30, 40], 'counts': [5, 7, 20, 100, 30, 55, 400, 83, 500]}
    return [
        one(1, 42, 3, [5.5, 2.25, 24.5, 19.45], [star]),
        one(2, 42, 18, [0, 0, 40, 30], [[0, 0, 10, 0, 10, 10, 0, 10], [20.5, 12.5, 40, 12.5, 40, 30, 20.5, 30]]),
        one(3, 42, 1, [0, 0, 40, 30], crowd, crowd=1, area=245),
        one(4, 42, 1, [10, 5, 0, 7], [[10, 5, 10, 12, 11, 12]]),       # no width
        one(5, 42, 1, [10, 5, 7, -2], [[10, 5, 10, 12, 11, 12]]),      # no height
        one(6, 42, 1, [30, 5, 10.5, 7], [[30, 5, 40, 12, 31, 12]]),    # beyond the right side
        one(7, 7, 3, [-2.5, -1, 12, 9], [[-2.5, -1, 9.5, 0, 9.5, 8, 0, 7]]),  # begins before the image: kept
        one(8, 7, 1, [10, 20, 5, 14.01], [[10, 20, 15, 20, 15, 34]]),  # beyond the lower side
        one(9, 8, 1, [10, 20, 5, 50], [[10, 20, 15, 20, 15, 34]]),     # the only one of its image
        one(10, 99, 1, [0, 0, 5, 5], [[0, 0, 5, 0, 5, 5]]),            # of no image of the list
        one(11, 7, 18, [12.3, 3.7, 15.9, 20.2], [[12.3, 3.7, 28.2, 5, 20, 23.9]]),
    ]


def voc_classes():
    """A picture of classes as Pascal VOC has it, with its palette: pixel x of row y has the class 5 y + x, the last
    one is not known."""
    classes = np.arange(20, dtype=np.uint8).reshape(4, 5)
    classes[3, 4] = 255
    image = Image.fromarray(classes, 'P')
    palette = []
    for number in range(256):
        rgb = [0, 0, 0]
        for bit in range(8):
            rgb[bit % 3] |= (number >> bit & 1) << 7 - bit // 3
        palette += rgb
    image.putpalette(palette)
    image.save(FOLDER / 'voc.png')


def main():
    from absl import flags
    from official.vision.data import create_coco_tf_record as original
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / 'images' / 'more').mkdir(parents=True)
    rng = np.random.default_rng(5)
    sizes = {42: (30, 40, 'a.jpg'), 7: (34, 29, 'grey.jpg'), 8: (21, 33, 'c.jpg'), 12: (18, 24, 'more/d.jpg')}
    images = []
    for number, (height, width, name) in sizes.items():
        picture(rng, height, width, name == 'grey.jpg').save(FOLDER / 'images' / name, quality=70)
        images.append({'id': number, 'height': height, 'width': width, 'file_name': name})
    categories = [{'id': 1, 'name': 'person'}, {'id': 3, 'name': 'Auto für alle'}, {'id': 18, 'name': 'dog'}]
    with open(FOLDER / 'annotations.json', 'w') as f:
        json.dump({'info': {}, 'images': images, 'annotations': annotations(), 'categories': categories}, f, indent=1)
    flags.FLAGS(['x', '--num_processes=0'])
    original._create_tf_record_from_coco_annotations(
        str(FOLDER / 'annotations.json'), [str(FOLDER / 'images')], str(FOLDER / 'original'), 2,
        object_annotations_file=str(FOLDER / 'annotations.json'), include_masks=True)
    voc_classes()
    from official.vision.evaluation import coco_utils
    coco_utils.scan_and_generator_annotation_file(
        str(FOLDER / 'original-*'), 'tfrecord', -1, True, str(FOLDER / 'original.json'))


if __name__ == '__main__':
    sys.exit(main())
