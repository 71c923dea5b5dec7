#!/usr/bin/env python3
"""Writes detection.bin: what Model Garden makes of small detection problems.

    python tests/golden/detection.py    # with tf-models-official 2.20.0, TensorFlow 2.20 from PyPI

Anchors, labels of anchors, losses with their gradients, detections of every version of suppression, crops.
Inputs are float32 that are exact in 16 bits where they may be. The reader is tests/nn/test_detection_golden.c;
the file is rows of {name, type, shape, values}, as those of metrics.py.
"""
import os
import pathlib
import struct

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from official.vision.losses import focal_loss  # noqa: E402
from official.vision.losses import maskrcnn_losses  # noqa: E402
from official.vision.modeling.layers import detection_generator  # noqa: E402
from official.vision.modeling.layers import roi_generator  # noqa: E402
from official.vision.modeling.layers import roi_sampler  # noqa: E402
from official.vision.ops import anchor  # noqa: E402
from official.vision.ops import box_ops  # noqa: E402
from official.vision.ops import spatial_transform_ops  # noqa: E402

rng = np.random.default_rng(11)
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


def normal(*shape, scale=1.0):
    return (np.round(rng.standard_normal(shape) * scale * 256) / 256).astype(np.float32)


def boxes_in(height, width, *shape):
    """Boxes of all sizes inside of an image, on quarters of pixels."""
    low = rng.random(shape + (2,)) * (height, width)
    size = np.exp(rng.random(shape + (2,)) * np.log((height, width)))
    box = np.concatenate([low, np.minimum(low + size, (height, width))], -1)
    return (np.round(box * 4) / 4).astype(np.float32)


def flat(levels):
    return np.concatenate([np.reshape(v, (-1,)) for v in levels.values()])


def make_anchors(lowest, highest, scales, aspects, size, image):
    return anchor.build_anchor_generator(lowest, highest, scales, aspects, size)(image_size=image)


def anchors():
    for i, (args, image) in enumerate([((3, 4, 2, [.5, 1., 2.], 4.), (64, 64)),
                                       ((3, 3, 1, [1.], 4.), (100, 60)),
                                       ((3, 5, 3, [.5, 1., 2.], 3.), (72, 104)),
                                       ((4, 6, 2, [.3, 1.7], 2.5), (333, 77))]):
        put(f'anchors/{i}/args', np.array([args[0], args[1], args[2], args[4], *image], np.float64))
        put(f'anchors/{i}/aspects', np.array(args[3], np.float64))
        put(f'anchors/{i}/boxes', flat(make_anchors(*args, image)).reshape(-1, 4))


def overlaps():
    a, b = boxes_in(40, 50, 2, 6), boxes_in(40, 50, 2, 5)
    a[1, 4:] = -1
    b[0, 3:] = -1
    put('overlaps/a', a)
    put('overlaps/b', b)
    put('overlaps/iou', box_ops.bbox_overlap(a, b).numpy())
    put('overlaps/ioa', box_ops.bbox_intersection_over_area(a, b).numpy())
    put('overlaps/giou', box_ops.bbox_generalized_overlap(tf.constant(a), tf.constant(b)).numpy())
    weights = [10., 10., 5., 5.]
    put('overlaps/code', box_ops.encode_boxes(tf.constant(b[:1]), tf.constant(a[:1, :5]), weights).numpy())
    put('overlaps/decoded', box_ops.decode_boxes(tf.constant(normal(1, 6, 4)), tf.constant(a[:1]), weights).numpy())


def labels():
    boxes = make_anchors(3, 5, 1, [.5, 1., 2.], 3., (96, 64))
    put('labels/args', np.array([3, 5, 1, 3., 96, 64], np.float64))
    for i, (count, match, unmatched, weights) in enumerate(
            [(7, .5, .4, None), (12, .6, .6, [10., 10., 5., 5.]), (1, .5, .5, None), (0, .5, .5, None)]):
        truth = boxes_in(96, 64, count)
        classes = rng.integers(1, 9, (count, 1))
        attributes = normal(count, 2)
        labeler = anchor.AnchorLabeler(match, unmatched, weights)
        cls, box, att, cls_w, box_w = labeler.label_anchors(
            boxes, tf.constant(truth), tf.constant(classes, tf.int32), {'size': tf.constant(attributes)})
        name = f'labels/{i}/'
        put(name + 'thresholds', np.array([match, unmatched], np.float64))
        put(name + 'weights', np.array(weights or [], np.float64))
        put(name + 'boxes', truth)
        put(name + 'classes', classes[:, 0])
        put(name + 'attributes', attributes)
        put(name + 'cls_targets', flat(cls).astype(np.int64))
        put(name + 'box_targets', flat(box).reshape(-1, 4))
        put(name + 'att_targets', flat(att['size']).reshape(-1, 2))
        put(name + 'cls_weights', cls_w.numpy())
        put(name + 'box_weights', box_w.numpy())


def loss(name, values, call):
    """`values` by name; the first is what the gradient is taken by."""
    first = list(values)[0]
    with tf.GradientTape() as tape:
        x = tf.constant(values[first])
        tape.watch(x)
        found = call(x)
    for key, value in values.items():
        put(f'losses/{name}/{key}', value)
    put(f'losses/{name}/loss', found.numpy())
    put(f'losses/{name}/gradient', tape.gradient(found, x).numpy())


def losses():
    scores = rng.integers(-1, 2, (2, 3, 4, 3)).astype(np.float32)
    loss('rpn_score', {'p': normal(2, 3, 4, 3), 'y': scores},
         lambda p: maskrcnn_losses.RpnScoreLoss(16)({'2': p}, {'2': tf.constant(scores)}))
    codes = normal(2, 3, 4, 8, scale=.3) * np.repeat(rng.integers(0, 2, (2, 3, 4, 2)), 4, -1).astype(np.float32)
    loss('rpn_box', {'p': normal(2, 3, 4, 8, scale=.3), 'y': codes},
         lambda p: maskrcnn_losses.RpnBoxLoss(1. / 9.)({'2': p}, {'2': tf.constant(codes)}))
    classes = rng.integers(0, 5, (2, 6)) * rng.integers(0, 2, (2, 6))
    weights = [.5, 2., 1., 1., 3.]
    for name, args, weighted in [('softmax', (False, 1.), False), ('sigmoid', (True, 1.), False),
                                 ('softmax_top', (False, .4), False), ('sigmoid_top', (True, .3), True),
                                 ('softmax_weights', (False, 1.), True)]:
        loss('class_' + name, {'p': normal(2, 6, 5), 'y': classes},
             lambda p, a=args, w=weighted: maskrcnn_losses.FastrcnnClassLoss(*a)(
                 p, tf.constant(classes), weights if w else None))
    targets = normal(2, 6, 4)
    loss('box', {'p': normal(2, 6, 20), 'y': targets, 'classes': classes},
         lambda p: maskrcnn_losses.FastrcnnBoxLoss(1.)(p, tf.constant(classes), tf.constant(targets)))
    loss('box_agnostic', {'p': normal(2, 6, 4), 'y': targets, 'classes': classes},
         lambda p: maskrcnn_losses.FastrcnnBoxLoss(1., True)(p, tf.constant(classes), tf.constant(targets)))
    masks = rng.integers(0, 2, (2, 6, 5, 5)).astype(np.float32)
    loss('mask', {'p': normal(2, 6, 5, 5), 'y': masks, 'classes': classes},
         lambda p: maskrcnn_losses.MaskrcnnLoss()(p, tf.constant(masks), tf.constant(classes)))

    # As tasks/retinanet.py puts them together.
    cls = rng.integers(-1, 4, (2, 9))
    cls_w, box_w = (cls > -1) | (rng.random((2, 9)) < .5), cls > -1
    count = float(box_w.sum() + 1)
    loss('retinanet_class', {'p': normal(2, 9, 4), 'y': cls, 'cls_w': cls_w.astype(np.float32),
                             'box_w': box_w.astype(np.float32)},
         lambda p: focal_loss.FocalLoss(.25, 1.5, reduction='sum')(
             tf.one_hot(cls, 4), p, cls_w.astype(np.float32)[..., None] / count))
    code = normal(2, 9, 4, scale=.2)
    import tf_keras
    loss('retinanet_box', {'p': normal(2, 9, 4, scale=.2), 'y': code, 'box_w': box_w.astype(np.float32)},
         lambda p: tf_keras.losses.Huber(.1, reduction='sum')(code, p, box_w.astype(np.float32) / count))


def detections():
    levels, image, classes, per_place = range(3, 6), (64, 48), 6, 2
    anchors_ = make_anchors(3, 5, 1, [.5, 2.], 3., image)
    shape = np.array([[64, 48], [50, 40]], np.float32)
    put('detections/args', np.array([3, 5, 1, 3., *image], np.float64))
    put('detections/shape', shape)
    boxes, scores, attributes, fine = {}, {}, {}, {}
    for l in levels:
        h, w, _ = anchors_[str(l)].shape
        boxes[str(l)] = normal(2, h, w, 4 * per_place, scale=.4)
        scores[str(l)] = normal(2, h, w, classes * per_place, scale=2) - 1
        attributes[str(l)] = normal(2, h, w, 3 * per_place)
        # Combined suppression leaves open which of two equal scores comes first.
        fine[str(l)] = scores[str(l)] + (rng.random(scores[str(l)].shape) / 512).astype(np.float32)
        put(f'detections/fine/{l}', fine[str(l)])
        put(f'detections/boxes/{l}', boxes[str(l)])
        put(f'detections/scores/{l}', scores[str(l)])
        put(f'detections/attributes/{l}', attributes[str(l)])
    tiled = {k: tf.tile(v[None], [2, 1, 1, 1]) for k, v in anchors_.items()}
    base = dict(pre_nms_score_threshold=.3, max_num_detections=40, pre_nms_top_k=100)
    for i, (args, with_attributes) in enumerate([
            (dict(nms_version='v1'), False), (dict(nms_version='v1', nms_iou_threshold=.3), True),
            (dict(nms_version='v1', soft_nms_sigma=.5), False),
            (dict(nms_version='v2'), False), (dict(nms_version='v2', nms_iou_threshold=.2), False),
            (dict(nms_version='v2', use_class_agnostic_nms=True), False),
            (dict(nms_version='v2', box_coder_weights=[10., 10., 5., 5.], pre_nms_score_threshold=.9), False),
            (dict(nms_version='batched'), False), (dict(nms_version='v3'), False),
            (dict(nms_version='v3', pre_nms_top_k=45, nms_iou_threshold=.2), False),
            (dict(nms_version='v1', pre_nms_score_threshold=.995), False)]):
        given = {'nms_iou_threshold': .5, **base, **args}
        used = fine if args['nms_version'] == 'batched' else scores
        found = detection_generator.MultilevelDetectionGenerator(**given)(
            {k: tf.constant(v) for k, v in boxes.items()}, {k: tf.constant(v) for k, v in used.items()},
            tiled, tf.constant(shape), {'size': {k: tf.constant(v) for k, v in attributes.items()}}
            if with_attributes else None)
        name = f'detections/{i}/'
        text = ', '.join(f'{k}: {str(v).lower()}' for k, v in given.items())
        put(name + 'config', np.frombuffer(('{' + text + '}').encode(), np.uint8))
        for key in ('detection_boxes', 'detection_scores', 'detection_classes', 'num_detections'):
            value = found[key].numpy()
            put(name + key, value if 'boxes' in key or 'scores' in key else value.astype(np.int64))
        if with_attributes:
            put(name + 'detection_attributes', found['detection_attributes']['size'].numpy())
    plain = detection_generator.MultilevelDetectionGenerator(apply_nms=False)(
        {k: tf.constant(v) for k, v in boxes.items()}, {k: tf.constant(v) for k, v in scores.items()},
        tiled, tf.constant(shape))
    put('detections/decoded_boxes', plain['decoded_boxes'].numpy())
    put('detections/decoded_box_scores', plain['decoded_box_scores'].numpy())


def proposals():
    image = (96, 64)
    anchors_ = make_anchors(3, 5, 1, [.5, 1., 2.], 3., image)
    shape = np.array([[96, 64], [80, 50]], np.float32)
    put('proposals/args', np.array([3, 5, 1, 3., *image], np.float64))
    put('proposals/shape', shape)
    boxes, scores = {}, {}
    for l in range(3, 6):
        h, w, _ = anchors_[str(l)].shape
        boxes[str(l)] = normal(2, h, w, 12, scale=.4)
        scores[str(l)] = rng.standard_normal((2, h, w, 3)).astype(np.float32)
        put(f'proposals/boxes/{l}', boxes[str(l)])
        put(f'proposals/scores/{l}', scores[str(l)])
    tiled = {k: tf.tile(v[None], [2, 1, 1, 1]) for k, v in anchors_.items()}
    for i, args in enumerate([(200, 0., 0., .7, 60, False), (50, .3, 12., .5, 100, False),
                              (200, .4, 0., .6, 40, True), (200, 0., 0., 0., 30, False)]):
        found = roi_generator._multilevel_propose_rois(
            {k: tf.constant(v) for k, v in boxes.items()}, {k: tf.constant(v) for k, v in scores.items()},
            tiled, tf.constant(shape), *args)
        put(f'proposals/{i}/given', np.array(args, np.float64))
        put(f'proposals/{i}/regions', found[0].numpy())
        put(f'proposals/{i}/scores', found[1].numpy())


def samples():
    regions, truth = boxes_in(64, 48, 2, 80), boxes_in(64, 48, 2, 6)
    truth[0, 4:] = -1
    regions[0, 70:] = truth[0, :1]
    regions[1, 60:64] = 0
    classes = rng.integers(1, 9, (2, 6))
    for key, value in (('regions', regions), ('truth', truth), ('classes', classes)):
        put('samples/' + key, value)
    found = roi_sampler.ROISampler(foreground_iou_threshold=.5, background_iou_high_threshold=.5,
                                   skip_subsampling=True)(
        tf.constant(regions), tf.constant(truth), tf.constant(classes, tf.int32))
    for key, value in zip(('all_regions', 'boxes', 'all_classes', 'indices'), found):
        put('samples/' + key, value.numpy())


def region_detections():
    classes, count = 5, 30
    rois = np.stack([boxes_in(64, 48, count), boxes_in(64, 48, count)])
    shape = np.array([[64, 48], [50, 40]], np.float32)
    put('regions/rois', rois)
    put('regions/shape', shape)
    scores = (rng.standard_normal((2, count, classes)) * 2).astype(np.float32)
    each, one = normal(2, count, 4 * classes), normal(2, count, 4)
    put('regions/scores', scores)
    put('regions/each', each)
    put('regions/one', one)
    for i, (args, boxes, weights) in enumerate([
            (dict(nms_version='v2'), each, [10., 10., 5., 5.]), (dict(nms_version='v1'), one, [20., 20., 10., 10.]),
            (dict(nms_version='batched', use_sigmoid_probability=True), each, [10., 10., 5., 5.])]):
        given = dict(pre_nms_score_threshold=.1, max_num_detections=25, nms_iou_threshold=.4, **args)
        found = detection_generator.DetectionGenerator(**given)(
            tf.constant(boxes), tf.constant(scores), tf.constant(rois), tf.constant(shape), weights,
            boxes is each)
        name = f'regions/{i}/'
        text = ', '.join(f'{k}: {str(v).lower()}' for k, v in given.items())
        put(name + 'config', np.frombuffer(('{' + text + '}').encode(), np.uint8))
        put(name + 'per_class', np.array([boxes is each]))
        put(name + 'weights', np.array(weights, np.float64))
        for key in ('detection_boxes', 'detection_scores', 'detection_classes', 'num_detections'):
            value = found[key].numpy()
            put(name + key, value if 'boxes' in key or 'scores' in key else value.astype(np.int64))


def crops():
    maps = {str(l): normal(2, 56 >> l - 2, 40 >> l - 2, 3) for l in range(2, 5)}
    boxes = np.stack([boxes_in(224, 160, 20), boxes_in(224, 160, 20)])
    boxes[0, :2] = [[0, 0, 0, 0], [-20, -10, 30, 30]]
    boxes[1, 0] = [200, 140, 250, 180]
    for level, value in maps.items():
        put(f'crops/{level}', value)
    put('crops/boxes', boxes)
    with tf.GradientTape() as tape:
        given = {k: tf.constant(v) for k, v in maps.items()}
        tape.watch(given)
        found = spatial_transform_ops.multilevel_crop_and_resize(given, tf.constant(boxes), 4)
        weights = normal(*found.shape)
        total = tf.reduce_sum(found * weights)
    put('crops/crops', found.numpy())
    put('crops/weights', weights)
    for level, value in tape.gradient(total, given).items():
        put(f'crops/gradient/{level}', tf.convert_to_tensor(value).numpy())
    masks = rng.integers(0, 2, (2, 3, 14, 14)).astype(np.float32)
    truth, regions = boxes_in(64, 48, 2, 3), boxes_in(64, 48, 2, 3)
    put('masks/masks', masks)
    put('masks/truth', truth)
    put('masks/regions', regions)
    put('masks/targets', spatial_transform_ops.crop_mask_in_target_box(
        tf.constant(masks), tf.constant(truth), tf.constant(regions), 7, .5).numpy())


for make in (anchors, overlaps, labels, losses, detections, region_detections, crops, proposals, samples):
    make()
path = pathlib.Path(__file__).with_name('detection.bin')
path.write_bytes(b''.join(rows))
print(path.name, len(rows), 'entries', path.stat().st_size, 'bytes')
