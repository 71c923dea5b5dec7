"""What is drawn at random for images, beside Model Garden itself: the same records and configuration, two samples.

Both sides make batches as for training, from records to what a model is given. Compared are parameters that can be
read back from the images (places of boxes, factors, shares), and means and variances of the values. A comparison
fails by chance, where the two draw alike, with a probability of ALARM; seeds are fixed, so it says the same each time.

Where they differ on purpose nothing is compared: magnitude_std (its classification does not hand it on), cutmix of
images that are not square (it takes the height for the width), and JPEG files at least twice as large as the model's
images, which we read at a smaller scale.
"""
import collections
import functools
import pathlib
import subprocess
import tempfile
from unittest import mock

from driver import compile_driver
from model_garden import under_its_python

under_its_python(__file__)

import numpy as np
import tensorflow as tf
import yaml
from official.common import registry_imports  # pylint: disable=unused-import
from official.core import exp_factory, task_factory
from official.modeling import hyperparams
from official.vision.ops import augment
from official.vision.tasks import image_classification
from scipy import stats
from tensorflow.python.framework import random_seed

ALARM = 1e-5
MORE = 4  # times as many are drawn from ours, which is faster
RARE = 20
PLACES = 400
MEAN = np.float32([0.485, 0.456, 0.406]) * 255
STDDEV = np.float32([0.229, 0.224, 0.225]) * 255
rng = np.random.default_rng(0)
tf.get_logger().setLevel('ERROR')


# --- comparisons: how likely it is that two samples of one distribution differ so much or more -----------

def alike(here, there):
    """Means and variances at several hundred places, the least likely of them times their number."""
    here, there = (np.reshape(x, (len(x), -1)) for x in (here, there))
    step = max(1, here.shape[1] // PLACES)
    step += step % 3 == 0  # all channels are to be among them
    here, there = (x[:, ::step].astype(np.float64) for x in (here, there))
    middle = np.concatenate([here, there]).mean(0)
    worst = 1.0
    for power in 1, 2:
        a, b = (here - middle) ** power, (there - middle) ** power
        error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
        off = np.abs(a.mean(0) - b.mean(0))
        score = np.where(error > 1e-6, off / np.maximum(error, 1e-6), np.where(off > 1e-3, np.inf, 0))
        worst = min(worst, 2 * stats.norm.sf(score.max()) * 2 * here.shape[1])
    return worst


def spread(here, there):
    """Kolmogorov and Smirnov's; the moments too, which see more of the tails."""
    return min(alike(here, there), stats.ks_2samp(here, there, method='asymp').pvalue)


def shares(here, there):
    """How often each value occurs, by chi squared; rare ones are counted together."""
    here, there = collections.Counter(here), collections.Counter(there)
    cells = collections.defaultdict(lambda: [0, 0])
    for key in here.keys() | there.keys():
        cell = cells[key if here[key] + there[key] >= RARE else None]
        cell[0] += here[key]
        cell[1] += there[key]
    found = np.array([cell for cell in cells.values() if sum(cell) >= RARE], np.float64)
    wanted = found.sum(1, keepdims=True) * found.sum(0) / found.sum()
    return stats.chi2.sf(((found - wanted) ** 2 / wanted).sum(), max(1, len(found) - 1))


def tell(name, count, found):
    """One line; False when a comparison says no."""
    low = min(found, key=found.get)
    good = found[low] >= ALARM
    print(f'{name}: {count} drawn, {len(found)} comparisons, least likely {low} ({found[low]:.1g})'
          + ('' if good else '  DIFFERS'), flush=True)
    for key in sorted(found) if not good else ():
        print(f'    {key}: {found[key]:.1g}')
    return good


# --- the two sides ---------------------------------------------------------------------------------------

def texture(height, width, low=30, high=220):
    return rng.integers(low, high, (height, width, 3)).astype(np.uint8)


def write_records(path, pictures, jpeg):
    with tf.io.TFRecordWriter(str(path)) as out:
        for label, picture in enumerate(pictures):
            encoded = (tf.io.encode_jpeg(picture, quality=95) if jpeg else tf.io.encode_png(picture)).numpy()
            out.write(tf.train.Example(features=tf.train.Features(feature={
                'image/encoded': tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
                'image/class/label': tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
            })).SerializeToString())


def original_batches(config, path, batches):
    """What the task hands to its reader, one after the other and in one thread.

    Two things that the configuration says its task does not hand on; they are set here. Each operation gets a seed of
    its own: by themselves those in different branches of a condition would draw the same numbers.
    """
    seeds = np.random.default_rng(1)
    params = hyperparams.override_params_dict(exp_factory.get_exp_config('image_classification'), config, True)
    data, made = params.task.train_data, {}
    parser = functools.partial(image_classification.classification_input.Parser,
                               crop_area_range=tuple(data.crop_area_range))
    with mock.patch.object(image_classification.classification_input, 'Parser', parser), \
         mock.patch.object(image_classification.input_reader_factory, 'input_reader_generator',
                           lambda params, **functions: made.update(functions) or mock.Mock()):
        task_factory.get_task(params.task).build_inputs(data)
    with mock.patch.object(random_seed, 'get_seed', lambda _: tuple(seeds.integers(1, 2 ** 31, 2).tolist())):
        found = tf.data.TFRecordDataset(str(path)).repeat().map(made['decoder_fn']).map(made['parser_fn'])
        found = found.batch(data.global_batch_size)
        if made['postprocess_fn']:
            made['postprocess_fn'].switch_prob = data.mixup_and_cutmix.switch_prob
            found = found.map(made['postprocess_fn'])
    images, labels = zip(*found.take(batches).as_numpy_iterator())
    return np.stack(images), np.stack(labels)


class Sides:
    """Draws from both: [batches, batch, height, width, channels], and labels."""

    def __init__(self, folder):
        self.folder, self.driver = folder, compile_driver('random_driver', folder)

    def draw(self, pictures, count, size=None, jpeg=False, batch=50, **data):
        size = size or pictures[0].shape[:2]
        path, file, out = (self.folder / name for name in ('images.tfrecord', 'config.yaml', 'drawn'))
        write_records(path, pictures, jpeg)
        config = {'task': {'model': {'num_classes': len(pictures), 'input_size': [*size, 3]},
                           'train_data': {'input_path': str(path), 'global_batch_size': batch, 'seed': 1,
                                          'shuffle_buffer_size': 1, 'decode_jpeg_only': jpeg, 'aug_crop': False,
                                          'aug_rand_hflip': False, **data}}}
        file.write_text(yaml.safe_dump(config))
        with out.open('wb') as into:
            subprocess.run([self.driver, str(file), str(MORE * count // batch)], check=True, stdout=into)
        there = original_batches(config, path, count // batch)
        label = (batch, len(pictures)) if 'mixup_and_cutmix' in data else (batch,)
        here = np.fromfile(out, [('image', 'f4', (batch, *size, 3)),
                                 ('label', 'f4' if len(label) > 1 else 'i4', label)])
        return (here['image'], here['label']), there

    def images(self, picture, count, **data):
        """Of one picture, without batches and labels."""
        here, there = self.draw([picture], count, **data)
        return (x[0].reshape(-1, *x[0].shape[2:]) for x in (here, there))


def bytes_of(images):
    return np.rint(images * STDDEV + MEAN).astype(np.uint8)


# --- the checks ------------------------------------------------------------------------------------------

def outcomes(here, there):
    """Of operations that make the same bytes on both sides: how often each image comes out."""
    a, b = bytes_of(here), bytes_of(there)
    found = {'images': shares([x.tobytes() for x in a], [x.tobytes() for x in b]), 'moments': alike(a, b)}
    for name, of in ('mean of an image', np.mean), ('deviation of an image', np.std):
        found[name] = spread(of(a, (1, 2, 3)), of(b, (1, 2, 3)))
    return found


def check_outcomes(sides, name, count=3000, **data):
    return tell(name, count, outcomes(*sides.images(texture(24, 24), count, **data)))


def read_boxes(images, height, width):
    """Of a picture whose red is 4 x and green 6 y: which part of it this is, and whether it is mirrored."""
    images = images * STDDEV + MEAN
    out_height, out_width = images.shape[1:3]
    x, y = images[:, out_height // 2, :, 0] / 4, images[:, :, out_width // 2, 1] / 6
    mirrored = x[:, -1] < x[:, 0]
    x = np.where(mirrored[:, None], x[:, ::-1], x)

    def place(line):  # ends are flat where an image is enlarged: from two points further inside
        n = line.shape[1]
        a, b = n // 4, 3 * n // 4
        step = (line[:, b] - line[:, a]) / (b - a)
        return np.rint(line[:, a] + 0.5 - (a + 0.5) * step).astype(int), np.rint(step * n).astype(int)
    (left, wide), (top, high) = place(x), place(y)
    assert (left >= 0).all() and (top >= 0).all() and (left + wide <= width).all() and (top + high <= height).all()
    return {'mirrored': mirrored, 'left': left, 'top': top, 'width': wide, 'height': high,
            'right': width - left - wide, 'bottom': height - top - high}


def check_crop(sides, count, **data):
    height, width = 30, 45
    picture = np.zeros((height, width, 3), np.uint8)
    picture[..., 0], picture[..., 1] = 4 * np.arange(width), 6 * np.arange(height)[:, None]
    here, there = sides.images(picture, count, aug_crop=True, aug_rand_hflip=True, **data)
    a, b = read_boxes(here, height, width), read_boxes(there, height, width)
    found = {key: spread(a[key].astype(float), b[key].astype(float)) for key in a}
    for key in 'left', 'top', 'right', 'bottom':  # whether a box touches the edge, or nearly
        found[f'{key} edge'] = shares(np.minimum(a[key], 3), np.minimum(b[key], 3))
    for box in a, b:
        box['area'], box['aspect'] = box['width'] * box['height'], box['width'] / box['height']
    found |= {key: spread(a[key], b[key]) for key in ('area', 'aspect')}
    found['mirrored or not'] = shares(a['mirrored'], b['mirrored'])
    found['moments'] = alike(here, there)
    return tell(f'crop and flip {data or ""}'.rstrip(), count, found)


def read_factors(images, picture):
    """Brightness, contrast and saturation, of which each leaves alone what the earlier ones are read from."""
    def numbers(x):
        grey = x @ np.float32([0.2989, 0.587, 0.114])
        return grey.mean((-1, -2)), grey.std((-1, -2)), (x[..., 0] - x[..., 1]).std((-1, -2))
    mean, deviation, colour = (now / was for now, was in zip(numbers(bytes_of(images) + 0.5), numbers(picture + 0.0)))
    return {'brightness': mean, 'contrast': deviation / mean, 'saturation': colour / deviation}


def check_jitter(sides, count):
    picture = texture(24, 24, 60, 140)
    here, there = sides.images(picture, count, color_jitter=0.4)
    a, b = read_factors(here, picture), read_factors(there, picture)
    assert all(0.5 < x.min() < 0.65 and 1.35 < x.max() < 1.5 for x in a.values()), 'factors are not read well'
    found = {key: spread(a[key], b[key]) for key in a}
    found |= {'brightness and contrast': spread(a['brightness'] * a['contrast'], b['brightness'] * b['contrast']),
              'moments': alike(here, there)}
    return tell('color_jitter', count, found)


def windows(changed):
    """Where the rectangles of [count, height, width] flags lie; all must be full."""
    rows, columns = changed.any(2), changed.any(1)
    found = {'top': rows.argmax(1), 'left': columns.argmax(1), 'height': rows.sum(1), 'width': columns.sum(1)}
    assert (changed.sum((1, 2)) == found['height'] * found['width']).all(), 'it is no rectangle'
    return {key: value.astype(float) for key, value in found.items()}


def check_cutout(sides, count):
    picture = texture(24, 24, 30, 120)
    others = [op for op in augment.RandAugment().available_ops if op != 'Cutout']
    sample = []
    for images in sides.images(picture, count, aug_type={
            'type': 'randaug', 'randaug': {'num_layers': 1, 'exclude_ops': others, 'cutout_const': 5}}):
        changed = (bytes_of(images) == 128).all(-1)
        assert np.array_equal(bytes_of(images)[~changed], np.broadcast_to(picture, images.shape)[~changed])
        cut = changed.any((1, 2))
        sample.append((cut, windows(changed[cut])))
    (cut, a), (cut_there, b) = sample
    found = {'whether': shares(cut, cut_there), 'corners': shares(zip(a['top'], a['left']), zip(b['top'], b['left']))}
    found |= {key: spread(a[key], b[key]) for key in a}
    for key in 'top', 'left', 'height', 'width':
        found[f'each {key}'] = shares(a[key], b[key])
    return tell('randaug, cutouts alone', count, found)


def check_erasing(sides, count, **how):
    picture = texture(32, 32)
    base = ((picture - MEAN) / STDDEV).astype(np.float32)
    sample = []
    for images in sides.images(picture, count, random_erasing=how):
        changed = (np.abs(images - base) > 1e-5).any(-1)
        erased = changed.any((1, 2))
        sample.append((erased, windows(changed[erased]), images[changed]))
    (erased, a, noise), (erased_there, b, noise_there) = sample
    found = {'whether': shares(erased, erased_there), 'noise': spread(noise.ravel(), noise_there.ravel())}
    for box in a, b:
        box['area'], box['aspect'] = box['height'] * box['width'], box['height'] / box['width']
    found |= {key: spread(a[key], b[key]) for key in a}
    return tell(f'random_erasing {how or ""}'.rstrip(), count, found)


def read_mixtures(images, labels, base, smoothing):
    """Kinds of batches; shares of mixup; shares and windows of cutmix. Labels must fit the images."""
    batch = len(base)
    off = smoothing / batch
    own = (labels[:, range(batch), range(batch)] - off) / (1 - smoothing)
    rest = (labels[:, range(batch), range(batch - 1, -1, -1)] - off) / (1 - smoothing)
    assert np.abs(own + rest - 1).max() < 1e-5 and np.abs(labels.sum(-1) - 1).max() < 1e-5
    other = base[::-1]
    is_own, is_other = (np.abs(images - x).max(-1) < 1e-4 for x in (base, other))
    kinds = np.where(is_own.all((1, 2, 3)), 'none', np.where((is_own | is_other).all((1, 2, 3)), 'cutmix', 'mixup'))
    mixed, cut = kinds == 'mixup', kinds == 'cutmix'
    share = own[mixed][..., None, None, None]
    assert np.abs(images[mixed] - share * base - (1 - share) * other).max() < 1e-3
    assert np.abs(own[kinds == 'none'] - 1).max() < 1e-5
    return {'kinds': kinds, 'share of mixup': own[mixed].ravel(), 'share of cutmix': own[cut].ravel(),
            **windows(~is_own[cut].reshape(-1, *base.shape[1:3]))}


def check_mixtures(sides, count, **how):
    pictures = [texture(16, 16, 40 * k, 40 * k + 30) for k in range(6)]
    base = ((np.stack(pictures) - MEAN) / STDDEV).astype(np.float32)
    here, there = sides.draw(pictures, count, batch=6, mixup_and_cutmix=how)
    a, b = (read_mixtures(*x, base, how['label_smoothing']) for x in (here, there))
    found = {'kinds': shares(a.pop('kinds'), b.pop('kinds')), 'moments': alike(here[0], there[0]),
             'moments of labels': alike(here[1], there[1])}
    found |= {key: spread(a[key], b[key]) for key in a}
    return tell(f'mixup_and_cutmix {how}', count, found)


def check_three(sides, count):
    """The original draws the deviation of its blur when the graph is made, so once for all images; here for each."""
    with mock.patch.object(np.random, 'uniform', lambda low, high: tf.random.uniform([], low, high)), \
         mock.patch.object(augment, 'any', lambda _: False, create=True):  # it asks whether that is negative
        return check_outcomes(sides, 'three_augment', count, three_augment=True)


def check_all(sides, count):
    """All at once, from JPEG."""
    here, there = sides.images(
        texture(12, 15).repeat(4, 0).repeat(4, 1), count, size=(30, 30), jpeg=True, aug_crop=True, aug_rand_hflip=True,
        color_jitter=0.4, random_erasing={}, aug_type={'type': 'randaug', 'randaug': {'magnitude': 9}})
    found = {'moments': alike(here, there)}
    for name, of in ('mean of an image', np.mean), ('deviation of an image', np.std), ('greatest value', np.max):
        found[name] = spread(of(here, (1, 2, 3)), of(there, (1, 2, 3)))
    return tell('all of them together', count, found)


def main():
    def randaug(**how):
        return {'aug_type': {'type': 'randaug', 'randaug': how}}

    def autoaug(name):
        return {'aug_type': {'type': 'autoaug', 'autoaug': {'augmentation_name': name}}}
    with tempfile.TemporaryDirectory() as name:
        sides = Sides(pathlib.Path(name))
        good = [
            check_outcomes(sides, 'aug_rand_hflip', aug_rand_hflip=True),
            check_crop(sides, 5000),
            check_crop(sides, 3000, crop_area_range=[0.3, 0.6]),
            check_jitter(sides, 4000),
            check_outcomes(sides, 'randaug, one layer', 5000, **randaug(num_layers=1, cutout_const=9)),
            check_outcomes(sides, 'randaug, two layers with 0.6, some excluded', **randaug(
                magnitude=6, prob_to_apply=0.6, exclude_ops=['Cutout', 'Invert', 'ShearX'], translate_const=20)),
            check_cutout(sides, 5000),
            # All are drawn by the same code, and their tables are compared in tests/data/test_augment.c.
            *(check_outcomes(sides, f'autoaug {name}', 4000, **autoaug(name))
              for name in ('v0', 'simple', 'vit')),
            check_three(sides, 3000),
            check_erasing(sides, 5000, probability=0.9),
            check_erasing(sides, 3000, min_area=0.1, max_area=0.6, min_aspect=0.5),
            check_mixtures(sides, 6000, mixup_alpha=0.8, cutmix_alpha=1.0, prob=0.8, switch_prob=0.4,
                           label_smoothing=0.1),
            check_all(sides, 3000)]
    assert all(good), f'{good.count(False)} of {len(good)} differ'


if __name__ == '__main__':
    main()
