#!/usr/bin/env python3
"""Writes vision_inputs.bin: what Model Garden's decoders and parsers make of small records.

    TF_USE_LEGACY_KERAS=1 python tests/golden/vision_inputs.py   # with tf-models-official 2.20.0, TensorFlow 2.20

Records of detection and segmentation, and what becomes of them in training and in evaluation; boxes that move with
their pictures; ids of pictures. What is drawn at random is put to what a case needs. Readers are
tests/zoo/test_detection_inputs.c, tests/zoo/test_segmentation_inputs.c and tests/data/test_augment_boxes.c; the file is
rows of {name, type, shape, values}, as those of metrics.py.
"""
import functools
import os
import pathlib
import struct

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from official.vision.configs import semantic_segmentation as segmentation_config  # noqa: E402
from official.vision.dataloaders import retinanet_input  # noqa: E402
from official.vision.dataloaders import segmentation_input  # noqa: E402
from official.vision.dataloaders import tf_example_decoder  # noqa: E402
from official.vision.ops import augment  # noqa: E402
from official.vision.ops import preprocess_ops  # noqa: E402

rng = np.random.default_rng(23)
rows = []
KINDS = {'float32': 0, 'float64': 1, 'int64': 2, 'uint8': 3}


def put(name, values):
    values = np.array(values, order='C')
    if values.dtype in (bool, np.int32):
        values = values.astype(np.int64)
    label = name.encode()
    rows.append(struct.pack('<I', len(label)) + label
                + struct.pack('<II', KINDS[values.dtype.name], values.ndim)
                + struct.pack(f'<{values.ndim}q', *values.shape) + values.tobytes())


def feature(value):
    value = value if isinstance(value, list) else [value]
    if value and isinstance(value[0], (bytes, str)):
        value = [v.encode() if isinstance(v, str) else v for v in value]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if value and isinstance(value[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))


def record(**features):
    named = {k.replace('__', '/'): feature(v) for k, v in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString(deterministic=True)


def put_record(name, data):
    put(name, np.frombuffer(data, np.uint8))


def picture(height, width, channels=3):
    """Waves, so that JPEG keeps most of them, and some noise."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (3 + c) + c) * np.cos(y / (4 + c)) for c in range(channels)]
    return np.clip(np.stack(planes, -1) + rng.integers(-20, 20, (height, width, channels)), 0, 255).astype(np.uint8)


def png(pixels):
    return tf.io.encode_png(pixels if pixels.ndim == 3 else pixels[..., None]).numpy()


# --- detection ---------------------------------------------------------------------------------------------------------

BOXES = np.array([[.1, .2, .6, .7], [-.2, .4, .3, 1.3], [.5, .5, .5, .9], [.25, .05, .95, .45], [.7, .6, .9, .95]],
                 np.float32)
SIZE = (13, 19)


def detection_record(encoded, boxes=BOXES, **more):
    sides = {f'image__object__bbox__{n}': [float(v) for v in boxes[:, k]]
             for k, n in enumerate(('ymin', 'xmin', 'ymax', 'xmax'))}
    fields = dict(image__encoded=encoded, image__source_id='4711', image__height=SIZE[0], image__width=SIZE[1],
                  image__object__class__label=[3, 1, 2, 5, 4], image__object__attribute__colour=[7, 8, 9, 10, 11])
    fields.update(sides)
    fields.update(more)
    return record(**fields)


class Seen:
    """In the place of the labeler of anchors: keeps what it is given."""

    def label_anchors(self, anchors, boxes, classes, attributes):
        self.boxes, self.classes, self.attributes = boxes.numpy(), classes.numpy()[:, 0], attributes
        return {}, {}, {}, None, None


def parser(size, level, **args):
    return retinanet_input.Parser(output_size=list(size), min_level=3, max_level=level, num_scales=1,
                                  aspect_ratios=[1.], anchor_size=4., dtype='float32', **args)


def parse_detection(name, data, size, level, training, flip=False, **args):
    decoder = tf_example_decoder.TfExampleDecoder(attribute_names=['colour'])
    seen = Seen()
    original = preprocess_ops.random_horizontal_flip
    preprocess_ops.random_horizontal_flip = functools.partial(original, prob=2. if flip else -1.)
    decoded = decoder.decode(data)
    p = parser(size, level, aug_rand_hflip=flip, **args)
    image, labels = (p._parse_train_data if training else p._parse_eval_data)(decoded, anchor_labeler=seen)
    preprocess_ops.random_horizontal_flip = original
    put(f'{name}/image', image.numpy())
    put(f'{name}/image_info', labels['image_info'].numpy())
    put(f'{name}/boxes', seen.boxes)
    put(f'{name}/classes', seen.classes)
    put(f'{name}/colour', np.asarray(seen.attributes['colour'], np.int64))
    for key, value in labels.get('groundtruths', {}).items():
        if key != 'attributes':
            put(f'{name}/groundtruth/{key}', np.asarray(value))


def detection():
    pixels = picture(*SIZE)
    whole = detection_record(png(pixels), image__object__is_crowd=[0, 0, 0, 1, 0],
                             image__object__area=[10., 20., 0., 31.5, 7.])
    plain = detection_record(png(pixels))
    jpeg = tf.io.encode_jpeg(picture(*SIZE), quality=95).numpy()
    put_record('detection/whole', whole)
    put_record('detection/plain', plain)
    put_record('detection/jpeg', detection_record(jpeg))
    put_record('detection/empty', record(image__encoded=png(pixels), image__source_id=''))
    parse_detection('detection/train', whole, (24, 32), 3, True)
    parse_detection('detection/flipped', whole, (24, 32), 3, True, flip=True)
    parse_detection('detection/small', whole, (24, 32), 3, True, aug_scale_min=.7, aug_scale_max=.7)
    parse_detection('detection/crowds', whole, (24, 32), 3, True, skip_crowd_during_training=False)
    parse_detection('detection/stretched', plain, (21, 30), 4, True, keep_aspect_ratio=False)
    parse_detection('detection/unpadded', plain, (21, 30), 4, True, pad=False)
    parse_detection('detection/compressed', detection_record(jpeg), (24, 32), 3, True)
    parse_detection('detection/eval', whole, (21, 30), 4, False, max_num_instances=7)
    parse_detection('detection/eval_plain', plain, (21, 30), 4, False, max_num_instances=4)
    # Of what becomes larger than the input a random part is seen: here is all of it.
    normal = preprocess_ops.normalize_image(tf.constant(pixels))
    large = preprocess_ops.resize_and_crop_image(normal, (240, 320), None, .15, .15)[0]
    put('detection/large', large.numpy())


def ids():
    lengths = list(range(0, 140)) + [191, 192, 193, 255, 256, 257, 1000]
    data = rng.integers(0, 256, 1000).astype(np.uint8)
    put('ids/bytes', data)
    put('ids/lengths', np.array(lengths, np.int64))
    put('ids/ids', np.array([int(tf_example_decoder._generate_source_id(data[:n].tobytes()).numpy()) for n in lengths],
                            np.int64))


# --- boxes that move -----------------------------------------------------------------------------------------------------

def moved():
    boxes = np.concatenate([rng.random((12, 2)) * .5, rng.random((12, 2)) * .5 + .5], 1).astype(np.float32)
    boxes[0] = 0, 0, 1, 1
    boxes[1] = 0, .9, .05, 1
    boxes[2] = .98, 0, 1, .02
    put('moved/boxes', boxes)
    image = tf.zeros((37, 53, 3), tf.uint8)
    for i, degrees in enumerate((-30., -7.5, 0., 12., 30.)):
        put(f'moved/rotate/{i}', augment.rotate_with_bboxes(image, boxes, degrees, [128] * 3)[1].numpy())
    for i, level in enumerate((-.3, -.05, 0., .1, .3)):
        for k, name in enumerate(('y', 'x')):
            put(f'moved/shear_{name}/{i}', augment.shear_with_bboxes(image, boxes, level, [128] * 3, k == 1)[1].numpy())
    for i, pixels in enumerate((-60., -20.5, 0., 7., 45.)):
        for k, name in enumerate(('y', 'x')):
            put(f'moved/translate_{name}/{i}',
                augment.translate_bbox(image, boxes, pixels, [128] * 3, k == 1)[1].numpy())
    # A part of the picture: which boxes are kept, and where they are in it.
    put('moved/cropped/window', np.array([5, 8, 20, 31], np.int64))  # y, x, height, width of 37 x 53
    window = np.array([5 / 37, 8 / 53, 25 / 37, 39 / 53], np.float32)
    kept = augment.filter_boxes_by_ioa(tf.constant(boxes), tf.constant(window)[None, None], .3)
    put('moved/cropped/boxes', augment.crop_normalized_boxes(kept, (37, 53), (20, 31), (5, 8)).numpy())


# --- segmentation ----------------------------------------------------------------------------------------------------

def segmentation_record(size, **more):
    labels = rng.integers(0, 6, (size[0] // 3 + 1, size[1] // 3 + 1)).repeat(3, 0).repeat(3, 1)[:size[0], :size[1]]
    labels[0, :3] = 255
    fields = dict(image__encoded=png(picture(*size)), image__height=size[0], image__width=size[1])
    fields['image__segmentation__class__encoded'] = png(labels.astype(np.uint8))
    fields.update(more)
    return record(**fields)


def parse_segmentation(name, data, size, training, flip=False, features=(), **args):
    more = [segmentation_config.DenseFeatureConfig(feature_name=n, num_channels=1, mean=[40.], stddev=[30.])
            for n in features]
    decoded = segmentation_input.Decoder(additional_dense_features=more).decode(data)
    original = preprocess_ops.random_horizontal_flip
    preprocess_ops.random_horizontal_flip = functools.partial(original, prob=2. if flip else -1.)
    p = segmentation_input.Parser(output_size=list(size), aug_rand_hflip=flip, additional_dense_features=more, **args)
    image, labels = (p._parse_train_data if training else p._parse_eval_data)(decoded)
    preprocess_ops.random_horizontal_flip = original
    put(f'{name}/image', image.numpy())
    put(f'{name}/masks', labels['masks'].numpy().astype(np.float32))
    put(f'{name}/valid_masks', labels['valid_masks'].numpy())
    put(f'{name}/image_info', labels['image_info'].numpy())


def short_size():
    """A picture whose label has a row less than the picture itself."""
    for height in range(5, 40):
        for width in range(height, 40):
            scale = np.float32(min(np.float32(24) / np.float32(height), np.float32(32) / np.float32(width)))
            new = np.round(np.float32(height) * scale)
            if int(np.float32(new) / np.float32(height) * np.float32(height)) < new:
                return height, width
    raise SystemExit('no size found')


def segmentation():
    plain = segmentation_record(SIZE)
    depth = segmentation_record(SIZE, depth=png(picture(*SIZE, 1)))
    short = segmentation_record(short_size())
    put_record('segmentation/plain', plain)
    put_record('segmentation/depth', depth)
    put_record('segmentation/short', short)
    parse_segmentation('segmentation/train', plain, (24, 32), True)
    parse_segmentation('segmentation/flipped', plain, (24, 32), True, flip=True)
    parse_segmentation('segmentation/small', plain, (24, 32), True, aug_scale_min=.7, aug_scale_max=.7)
    parse_segmentation('segmentation/centered', plain, (24, 40), True, aug_scale_min=.7, aug_scale_max=.7,
                       centered_crop=True)
    parse_segmentation('segmentation/stretched', plain, (22, 30), True, preserve_aspect_ratio=False)
    parse_segmentation('segmentation/cropped', plain, (20, 28), True, crop_size=[20, 28], aug_scale_min=.8,
                       aug_scale_max=.8)
    parse_segmentation('segmentation/matting', plain, (24, 32), True, gt_is_matting_map=True)
    parse_segmentation('segmentation/layers', depth, (24, 32), True, features=['depth'])
    parse_segmentation('segmentation/short', short, (24, 32), True)
    parse_segmentation('segmentation/eval', plain, (24, 32), False)
    parse_segmentation('segmentation/eval_matting', plain, (24, 32), False, gt_is_matting_map=True)
    parse_segmentation('segmentation/eval_whole', plain, (24, 32), False, resize_eval_groundtruth=False,
                       groundtruth_padded_size=[16, 25])


if __name__ == '__main__':
    ids()
    detection()
    moved()
    segmentation()
    path = pathlib.Path(__file__).with_suffix('.bin')
    path.write_bytes(b''.join(rows))
    print(f'{path.name}: {len(rows)} rows, {path.stat().st_size} bytes')
