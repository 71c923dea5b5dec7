"""TensorBoard reads our event files, and finds in them what was written.

events_driver.c, compiled here against the library that was built, writes what it is told; TensorBoard's own
loaders read it: tags, steps, values, the pixels of images, histograms, text and hyper-parameters. Then a run
is ended, goes back to an earlier step and goes on, once with a TensorBoard that starts afterwards and once
with one that has been looking all the time.
"""

import io
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.util import tensor_util

from driver import compile_driver

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ['TILTH']).resolve().parent
KEEP_ALL = {key: 0 for key in ('tensors', 'scalars', 'images', 'histograms')}


def write(driver, folder, lines, *arguments):
    subprocess.run([driver, str(folder), *map(str, arguments)], input=''.join(f'{line}\n' for line in lines),
                   check=True, text=True, stdout=subprocess.DEVNULL)


def load(folder):
    """An accumulator that has read all of a folder and dropped nothing."""
    accumulator = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance=KEEP_ALL,
                                                            tensor_size_guidance={
                                                                name: 0 for name in
                                                                ('scalars', 'images', 'histograms', 'text')})
    accumulator.Reload()
    return accumulator


def tensors(accumulator, tag):
    return [(event.step, tensor_util.make_ndarray(event.tensor_proto)) for event in accumulator.Tensors(tag)]


def draws(seed, count):
    """What the driver draws."""
    values = []
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append(seed >> 33 & 255)
    return values


# --- kinds of values ----------------------------------------------------------------------------------

def check_scalars(driver, folder):
    draw = random.Random(4)
    values = [draw.uniform(-1, 1) * 10 ** draw.randint(-40, 38) for _ in range(500)]
    values += [0.0, -0.0, float('inf'), float('-inf'), float('nan'), 1e300, 3.4028235e38, 1e-46]
    lines = [f'scalar {7 * step} group/loss {value!r}' for step, value in enumerate(values)]
    lines += ['scalar 9223372036854775807 last 1', 'scalar -5 below 2', 'scalar 3 \xe9t\xe9 4']
    write(driver, folder, lines)
    loaded = load(folder)
    with np.errstate(over='ignore', under='ignore'):
        expected = np.array(values).astype(np.float32)
    found = tensors(loaded, 'group/loss')
    assert [step for step, _ in found] == [7 * step for step in range(len(values))]
    for (_, number), value in zip(found, expected):
        assert number.dtype == np.float32 and number.shape == ()
        assert number.tobytes() == value.tobytes() or (np.isnan(number) and np.isnan(value))
    assert tensors(loaded, 'last') == [(2**63 - 1, 1)]
    assert tensors(loaded, 'below') == [(-5, 2)]
    assert tensors(loaded, '\xe9t\xe9') == [(3, 4)]
    assert loaded.SummaryMetadata('group/loss').plugin_data.plugin_name == 'scalars'
    assert loaded.SummaryMetadata('group/loss').data_class == 1
    assert loaded.file_version == 2.0 and loaded.GetSourceWriter() == 'tilth'
    # The metadata stands with the first value only.
    events = [event for path in folder.glob('*tfevents*')
              for event in event_file_loader.RawEventFileLoader(str(path)).Load()]
    assert len(events) == len(lines) + 1
    return len(lines)


def check_images(driver, folder):
    cases = [((h, w, c), kind) for h, w, c in [(1, 1, 1), (4, 7, 1), (5, 3, 3), (6, 6, 4), (64, 48, 3)]
             for kind in ('uint8', 'float32', 'float64')]
    cases += [((n, 3, 4, 3), 'uint8') for n in (0, 1, 5, 8)]
    lines = [f'image {i} image/{i} {len(shape)} {" ".join(map(str, shape))} {kind} {i + 1}'
             for i, (shape, kind) in enumerate(cases)]
    write(driver, folder, lines)
    loaded = load(folder)
    for i, (shape, _) in enumerate(cases):
        (step, strings), = tensors(loaded, f'image/{i}')
        height, width, channels = shape[-3:]
        images = min(5, shape[0]) if len(shape) == 4 else 1
        assert step == i and strings.shape == (2 + images,)
        assert [int(text) for text in strings[:2]] == [width, height]
        assert loaded.SummaryMetadata(f'image/{i}').plugin_data.plugin_name == 'images'
        pixels = np.array(draws(i + 1, int(np.prod(shape))), np.uint8).reshape(shape)
        if len(shape) == 3:
            pixels = pixels[None]
        for png, expected in zip(strings[2:], pixels):
            picture = Image.open(io.BytesIO(png))
            assert picture.mode == {1: 'L', 3: 'RGB', 4: 'RGBA'}[channels]
            found = np.array(picture).reshape(height, width, channels)
            # 255.5 steps from 0 to 1, as tf.image.convert_image_dtype makes them: multiples of 1/255 come back.
            assert (found == expected).all(), (i, found, expected)
    return len(cases)


def check_histograms(driver, folder):
    cases = [(30, 1000), (30, 1), (7, 100), (1, 5), (30, 0)]
    lines = [f'histogram {i} h{i} {bins} {count} {i + 100}' for i, (bins, count) in enumerate(cases)]
    lines += ['same 9 equal 30 12 2.5']
    write(driver, folder, lines)
    loaded = load(folder)
    for i, (bins, count) in enumerate(cases):
        (step, rows), = tensors(loaded, f'h{i}')
        values = np.array(draws(i + 100, count)) * 0.125
        assert step == i and rows.shape == (bins, 3) and rows.dtype == np.float64
        assert rows[:, 2].sum() == count
        if count > 1 and bins > 1:
            counts, edges = np.histogram(values, bins)
            assert np.allclose(rows[:, 0], edges[:-1]) and np.allclose(rows[:, 1], edges[1:])
            # Values on an edge may fall to either side of it, where the edge is rounded.
            assert np.abs(rows[:, 2] - counts).sum() <= 2 * np.isclose(values[:, None], edges, atol=1e-9).sum()
    (_, rows), = tensors(loaded, 'equal')
    assert (rows[:, :2] == 2.5).all() and list(rows[:, 2]) == [0] * 29 + [12]
    return len(lines)


def check_text(driver, folder):
    texts = ['plain', '# Markdown\ttab', '\u6f22\u5b57 \U0001f600', '| a | b |']
    write(driver, folder, [f'text {i} note {text}' for i, text in enumerate(texts)])
    loaded = load(folder)
    found = tensors(loaded, 'note')
    assert [(step, text.item().decode()) for step, text in found] == list(enumerate(texts))
    assert loaded.SummaryMetadata('note').plugin_data.plugin_name == 'text'
    return len(texts)


def check_hparams(driver, folder):
    write(driver, folder, ['hparams', 'start', 'scalar 1 loss 0.5', 'end'])
    loaded = load(folder)

    def content(tag):
        metadata = loaded.SummaryMetadata(tag)
        assert metadata.plugin_data.plugin_name == 'hparams'
        return metadata.plugin_data.content

    experiment = hparams_metadata.parse_experiment_plugin_data(content(hparams_metadata.EXPERIMENT_TAG))
    assert [(info.name, info.type) for info in experiment.hparam_infos] == [
        ('learning_rate', api_pb2.DATA_TYPE_FLOAT64), ('optimizer', api_pb2.DATA_TYPE_STRING),
        ('nesterov', api_pb2.DATA_TYPE_BOOL)]
    assert [(info.name.group, info.name.tag, info.display_name) for info in experiment.metric_infos] == [
        ('validation', 'accuracy', 'Accuracy'), ('', 'loss', '')]
    start = hparams_metadata.parse_session_start_info_plugin_data(content(hparams_metadata.SESSION_START_INFO_TAG))
    assert start.hparams['learning_rate'].number_value == 0.001
    assert start.hparams['optimizer'].string_value == 'adamw'
    assert start.hparams['nesterov'].bool_value is True
    assert start.group_name == 'group 7' and start.start_time_secs > 1e9
    end = hparams_metadata.parse_session_end_info_plugin_data(content(hparams_metadata.SESSION_END_INFO_TAG))
    assert end.status == api_pb2.STATUS_SUCCESS and end.end_time_secs >= start.start_time_secs
    assert tensors(loaded, 'loss') == [(1, 0.5)]
    return 3


# --- folders ------------------------------------------------------------------------------------------

def check_runs(driver, folder):
    """Nested folders are runs."""
    for name in ('train', 'validation', 'validation/dataset'):
        write(driver, folder / name, [f'scalar 1 loss {len(name)}'])
    multiplexer = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    assert sorted(multiplexer.Runs()) == ['train', 'validation', 'validation/dataset']
    for name in multiplexer.Runs():
        event, = multiplexer.Tensors(name, 'loss')
        assert tensor_util.make_ndarray(event.tensor_proto) == len(name)
    return 3


def check_going_back(driver, folder):
    """Each step once, for who comes later and for who has been looking."""
    def scalars(first, last, value):
        return [f'scalar {step} loss {value}' for step in range(first, last + 1)]

    write(driver, folder, scalars(1, 50, 1))
    watching = load(folder)
    assert len(watching.Tensors('loss')) == 50
    expected = [(step, 1) for step in range(1, 51)]
    for keep_to, last in ((30, 60), (30, 31), (31, 40), (0, 5)):
        write(driver, folder, scalars(keep_to, last, keep_to + 0.5), keep_to)
        expected = [pair for pair in expected if pair[0] <= keep_to]
        told = {step for step, _ in expected}
        expected += [(step, keep_to + 0.5) for step in range(keep_to, last + 1) if step not in told]
        watching.Reload()
        for accumulator in (load(folder), watching):
            found = [(step, number.item()) for step, number in tensors(accumulator, 'loss')]
            assert found == expected, (keep_to, found[-3:], expected[-3:])
    return 4


def check_being_written(driver, folder):
    """What was flushed is seen while the file is open; a record cut short is waited for."""
    with subprocess.Popen([driver, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        for step in range(1, 4):
            process.stdin.write(f'scalar {step} loss {step}\nflush\n')
            process.stdin.flush()
            assert process.stdout.readline() == 'flushed\n'
            assert len(load(folder).Tensors('loss')) == step
        process.kill()
    path, = folder.glob('*tfevents*')
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    loaded = load(folder)
    assert len(loaded.Tensors('loss')) == 2
    path.write_bytes(whole)
    loaded.Reload()
    assert len(loaded.Tensors('loss')) == 3
    assert struct.unpack('<Q', whole[:8])[0] == 33  # the first event: time, version, writer
    return 3


def main():
    checks = [check_scalars, check_images, check_histograms, check_text, check_hparams, check_runs, check_going_back,
              check_being_written]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('events_driver', folder)
        for check in checks:
            print(f'{check.__name__}: {check(driver, folder / check.__name__)} cases')
    return 0


if __name__ == '__main__':
    sys.exit(main())
