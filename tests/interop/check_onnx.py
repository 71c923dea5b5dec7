"""`tilth export --format=onnx` from outside: onnx checks the files, and ONNX Runtime gives what the library gives: for single
ops, and for classifiers with weights and statistics drawn at random."""
import json
import os
import pathlib
import subprocess
import tempfile

from driver import compile_driver, under_python_of

under_python_of('.venv-hf', 'ONNX Runtime', __file__)

import numpy as np
import onnx
import onnxruntime
from PIL import Image
from safetensors.numpy import load_file, save_file

TILTH = os.environ['TILTH']
rng = np.random.default_rng(3)


def tilth(*words):
    done = subprocess.run([TILTH, *map(str, words), '--verbosity=-1'], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def session(path):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    return onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])


# --- ops -----------------------------------------------------------------------------------------

def check_ops(at):
    """Files are captured with 2 and 3 examples; here there are 5."""
    driver = compile_driver('onnx_driver', at)
    names = subprocess.run([driver, at], check=True, text=True, capture_output=True).stdout.split()
    for name in names:
        kept = load_file(at / f'{name}.safetensors')
        run = session(at / f'{name}.onnx')
        used = {i.name for i in run.get_inputs()}
        answers = dict(zip([o.name for o in run.get_outputs()],
                           run.run(None, {key: value for key, value in kept.items() if key in used})))
        assert sorted(answers) == sorted(key[4:] for key in kept if key.startswith('out/')), name
        for key, value in answers.items():
            wanted, near = kept[f'out/{key}'], 0.05 if name == 'half' else 2e-5
            assert value.shape == wanted.shape, (name, key, value.shape, wanted.shape)
            error = np.abs(value - wanted).max() / max(1, np.abs(wanted).max())
            assert error < near, (name, key, error)


# --- classifiers ---------------------------------------------------------------------------------

def shake(file, gamma):
    """Random weights that keep the size of what passes through, and statistics of batch norms."""
    weights = load_file(file)
    for name, value in weights.items():
        last = name.rsplit('/', 1)[1]
        draw = rng.standard_normal(value.shape)
        if last == 'kernel':
            by_channel = value.ndim == 4 and value.shape[-1] == 1
            draw *= np.sqrt(2 / np.prod(value.shape[:2 if by_channel else -1])) * (0.02 if name == 'head/kernel' else 1)
        elif last == 'moving_variance':
            draw = 0.5 + rng.random(value.shape)
        elif last == 'gamma':
            draw = gamma + 0.1 * draw
        else:
            draw *= 0.2
        weights[name] = draw.astype(np.float32)
    save_file(weights, file, {'format': 'tilth', 'step': '1', 'averaged': 'false'})


def images(at, size):
    files = []
    for i in range(3):
        shape = size[:2] if size[2] == 1 else size
        files.append(str(at / f'{i}.png'))
        Image.fromarray(rng.integers(40 * i, 256 - 60 * i, shape).astype(np.uint8)).save(files[-1])
    return files


def check_model(at, size, *words, gamma=0.7):
    run, plain = at / 'run', at / 'plain'
    subprocess.run(['rm', '-rf', run, plain, at / 'onnx'], check=True)
    tilth('train', '--experiment=vision/local', '--mode=train', f'--model_dir={run}', 'trainer.train_steps=1',
          'tilth.jit=false', f'task.model.input_size={list(size)}', 'task.train_data.global_batch_size=4',
          'task.validation_data.center_crop_fraction=0', *words)
    tilth('export', f'--model_dir={run}', f'--to={plain}')
    shake(plain / 'model.safetensors', gamma)
    tilth('export', f'--model_dir={plain}', f'--to={at}/onnx', '--format=onnx')
    file, notes = at / 'onnx/model.onnx', onnx.load(at / 'onnx/model.onnx').metadata_props
    notes = {note.key: note.value for note in notes}
    classes, how = notes['classes'].splitlines(), json.loads(notes['preprocessing'])
    assert classes == (plain / 'classes.txt').read_text().splitlines() and notes['step'] == '1'
    files = images(at, size)
    pixels = np.stack([np.asarray(Image.open(f)).reshape(size) for f in files]).astype(np.float32)
    ready = ((pixels - how['mean']) / how['stddev']).astype(np.float32)
    runtime = session(file)
    assert runtime.get_inputs()[0].name == 'image' and runtime.get_inputs()[0].shape == ['N', *size]
    logits, shares = runtime.run(['logits', 'probabilities'], {'image': ready})
    told = tilth('predict', f'--model_dir={plain}', '--json', '--top=4', *files).splitlines()
    assert np.ptp(shares, 0).max() > 1e-4, ('images give the same', shares)
    for line, logit, share in zip(told, logits, shares, strict=True):
        ours = {one['class']: one['probability'] for one in json.loads(line)['top']}
        worst = max(abs(ours[name] - value) for name, value in zip(classes, share, strict=True))
        assert worst < 1e-5, (words, worst, ours, share)
        assert np.allclose(np.exp(logit - logit.max()) / np.exp(logit - logit.max()).sum(), share, atol=1e-6)
        assert 0.26 < max(share) < 0.99, 'nothing is compared where one class has all, or each the same'


def resnet(**settings):
    return f'task.model.backbone={json.dumps({"type": "resnet", "resnet": settings})}'


def mobilenet(name):
    return f'task.model.backbone={json.dumps({"type": "mobilenet", "mobilenet": {"model_id": name}})}'


def main():
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        check_ops(at)
        check_model(at, (28, 28, 1), 'task.model.backbone={type: cnn}')
        check_model(at, (30, 27, 3), 'task.model.backbone={type: cnn, cnn: {batch_norm: true, units: []}}',
                    'task.model.add_head_batch_norm=true')
        check_model(at, (12, 14, 3), 'task.model.backbone={type: mlp}')
        check_model(at, (64, 64, 3), resnet(model_id=18))
        check_model(at, (75, 64, 3), resnet(model_id=50))
        check_model(at, (64, 64, 3), resnet(model_id=50, stem_type='v1', se_ratio=0.25, resnetd_shortcut=True,
                                            replace_stem_max_pool=True, depth_multiplier=0.5),
                    'task.model.norm_activation.activation=swish', gamma=1)
        for name, gamma in (('MobileNetV1', 1.5), ('MobileNetV2', 1.1), ('MobileNetV3Small', 1.0)):
            check_model(at, (64, 70, 3), mobilenet(name), gamma=gamma)
        check_model(at, (32, 48, 3), 'task.model.backbone={type: vit, vit: {model_name: vit-ti16}}')


main()
