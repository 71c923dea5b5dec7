"""BERTs of Hugging Face beside ours: their folders read, ours written, both asked about the same batches."""
import json
import os
import pathlib
import subprocess
import tempfile

from driver import compile_driver, under_python_of

under_python_of('.venv-hf', 'Hugging Face\'s transformers', __file__)

import numpy as np
import torch
import transformers
import yaml
from safetensors.torch import load_file, save_file
from transformers.modeling_utils import load_state_dict
from transformers.utils.hub import get_checkpoint_shard_files

BATCH, LENGTH, WORDS, GUESSES, CLASSES = 8, 24, 60, 5, 3
SIZES = dict(vocab_size=WORDS, hidden_size=32, num_attention_heads=4, intermediate_size=48, max_position_embeddings=32)
NEAR = 1e-5
transformers.utils.logging.disable_progress_bar()
rng = np.random.default_rng(0)


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False)
    assert done.returncode == 0, f'{command}\n{done.stdout}{done.stderr}'
    return done.stdout + done.stderr


# --- batches and answers ---------------------------------------------------------------------------------

def batch_of(pretraining):
    lengths = rng.integers(4, LENGTH + 1, BATCH)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    second = (np.arange(LENGTH) >= rng.integers(2, LENGTH, BATCH)[:, None]).astype(np.int32)
    batch = {'input_word_ids': rng.integers(1, WORDS, (BATCH, LENGTH)).astype(np.int32) * mask, 'input_mask': mask,
             'input_type_ids': second * mask}
    if pretraining:
        batch.update(masked_lm_positions=rng.integers(0, lengths[:, None], (BATCH, GUESSES)).astype(np.int32),
                     masked_lm_ids=np.zeros((BATCH, GUESSES), np.int32),
                     masked_lm_weights=np.ones((BATCH, GUESSES), np.float32),
                     next_sentence_labels=np.zeros((BATCH, 1), np.int32))
    else:
        batch['label_ids'] = np.zeros(BATCH, np.int32)
    return {key: torch.tensor(value) for key, value in batch.items()}


def answers_of(model, batch):
    """What transformers gives, under our names."""
    inputs = {'input_ids': batch['input_word_ids'].long(), 'attention_mask': batch['input_mask'].long(),
              'token_type_ids': batch['input_type_ids'].long()}
    model.eval()
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    if isinstance(model, transformers.BertForSequenceClassification):
        return {'sentence_prediction': out.logits}
    words = out.logits if hasattr(out, 'logits') else out.prediction_logits
    places = batch['masked_lm_positions'].long()[:, :, None].expand(-1, -1, WORDS)
    answers = {'sequence_output': out.hidden_states[-1], 'mlm_logits': words.gather(1, places)}
    if hasattr(out, 'seq_relationship_logits'):
        answers['next_sentence'] = out.seq_relationship_logits
        with torch.no_grad():
            answers['pooled_output'] = model.bert(**inputs).pooler_output
    return answers


def compare(title, wanted, found, need):
    worst = 0
    assert need <= set(found) & set(wanted), (sorted(found), sorted(wanted))
    for key in need:
        assert found[key].shape == wanted[key].shape, key
        worst = max(worst, float((found[key] - wanted[key]).abs().max()))
    print(f'{title}: {len(need)} outputs within {worst:.1e}')
    assert worst <= NEAR, worst


# --- models ----------------------------------------------------------------------------------------------

def their_model(kind, **changes):
    config = transformers.BertConfig(**{**SIZES, 'num_hidden_layers': 3, 'hidden_act': 'gelu_new', **changes})
    torch.manual_seed(0)
    model = kind(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return model


def config_file(folder, pretraining, changes=None, task=None):
    encoder = {**SIZES, 'num_layers': 3, 'dropout_rate': 0.1, 'attention_dropout_rate': 0.1, **(changes or {})}
    model = {'encoder': {'type': 'bert', 'bert': encoder}}
    data = {'input_path': 'dummy', 'global_batch_size': BATCH, 'seq_length': LENGTH}
    if pretraining:
        model['cls_heads'] = [{'inner_dim': 32, 'dropout_rate': 0.0}]
        model['mlm_activation'] = encoder.get('hidden_activation', 'gelu')
        data.update(max_predictions_per_seq=GUESSES, use_next_sentence_label=(task or {}).pop('next', True))
    else:
        model['num_classes'] = CLASSES
    model.update((task or {}).pop('model', {}))
    config = {'runtime': {'distribution_strategy': 'one_device'},
              'task': {'model': model, 'train_data': dict(data), 'validation_data': dict(data), **(task or {})},
              'trainer': {'train_steps': 3, 'optimizer_config': {
                  'learning_rate': {'polynomial': {'initial_learning_rate': 0.01, 'decay_steps': 10}},
                  'warmup': {'polynomial': {'warmup_steps': 1}}}}}
    path = folder / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return path


def rename(folder, change):
    """Other names in model.safetensors, as old files have them."""
    tensors = load_file(folder / 'model.safetensors')
    save_file({change(key): value.clone() for key, value in tensors.items()}, folder / 'model.safetensors',
              metadata={'format': 'pt'})


def old_norms(name):
    return name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace('LayerNorm.bias', 'LayerNorm.beta')


# --- the checks ------------------------------------------------------------------------------------------

PRETRAINING = {'sequence_output', 'mlm_logits', 'next_sentence', 'pooled_output'}


def check_read(driver, folder, title, kind, encoder=None, change=None, need=None, task=None, **theirs):
    """A folder of theirs, as our model reads it."""
    pretraining = kind is not transformers.BertForSequenceClassification
    there = folder / 'theirs'
    for old in there.glob('*'):
        old.unlink()
    model = their_model(kind, **theirs)
    model.save_pretrained(there, **({'max_shard_size': '20KB'} if change == 'sharded' else {}))
    assert (there / 'model.safetensors.index.json').exists() == (change == 'sharded')
    if callable(change):
        rename(there, change)
    batch = batch_of(pretraining)
    save_file(batch, folder / 'batch.safetensors')
    key = 'init_checkpoint' if pretraining else 'hub_module_url'
    config = config_file(folder, pretraining, encoder, {key: str(there), **(task or {})})
    run(driver, 'answers', 'bert/pretraining' if pretraining else 'bert/sentence_prediction', config, '-',
        folder / 'batch.safetensors', folder / 'out.safetensors')
    compare(title, answers_of(model, batch), load_file(folder / 'out.safetensors'),
            need or (PRETRAINING if pretraining else {'sentence_prediction'}))


def check_write(driver, folder, title, kind, encoder=None, task=None, need=None):
    """A run of ours, as transformers reads it. It begins with numbers that are not all zeros and ones."""
    pretraining = kind is not transformers.BertForSequenceClassification
    start = folder / f'start {title}'
    their_model(kind, **({} if pretraining else {'num_labels': CLASSES})).save_pretrained(start)
    task = {**(task or {}), 'init_checkpoint' if pretraining else 'hub_module_url': str(start)}
    experiment = 'bert/pretraining' if pretraining else 'bert/sentence_prediction'
    config = config_file(folder, pretraining, encoder, dict(task))
    ours, there = folder / f'run {title}', folder / f'export {title}'
    run(os.environ['TILTH'], 'train', f'--experiment={experiment}', f'--config_file={config}', '--mode=train',
        f'--model_dir={ours}', 'tilth.jit=false')
    run(os.environ['TILTH'], 'export', f'--model_dir={ours}', f'--to={there}', '--format=hf')
    assert json.loads((there / 'config.json').read_text())['architectures'] == [kind.__name__]
    model, told = kind.from_pretrained(there, output_loading_info=True)
    assert not told['missing_keys'] and not told['unexpected_keys'] and not told['mismatched_keys'], told
    batch = batch_of(pretraining)
    save_file(batch, folder / 'batch.safetensors')
    run(driver, 'answers', experiment, config, ours / 'ckpt-3', folder / 'batch.safetensors',
        folder / 'out.safetensors')
    compare(title, answers_of(model, batch), load_file(folder / 'out.safetensors'), need)
    again = transformers.AutoConfig.from_pretrained(there)
    assert pretraining or again.num_labels == CLASSES


def check_divided(folder):
    """The index of a divided checkpoint names its files to transformers, which reads all their weights."""
    for processes in 1, 2:  # of two, each writes a file
        check_divided_by(folder, processes)


def check_divided_by(folder, processes):
    ours = folder / f'divided-{processes}'
    run(os.environ['TILTH'], 'launch', '-n', str(processes), 'train', '--experiment=vision/local', '--mode=train',
        f'--model_dir={ours}', 'tilth.jit=false', 'trainer.train_steps=2', 'trainer.steps_per_loop=2',
        'tilth.checkpoint_shards=2')
    files, notes = get_checkpoint_shard_files(str(ours), str(ours / 'ckpt-2.safetensors.index.json'))
    weights = {name: value for file in files for name, value in load_state_dict(file).items()}
    assert len(files) == 2 and sorted(weights) == sorted(notes['all_checkpoint_keys']), notes
    run(os.environ['TILTH'], 'ckpt', 'merge', ours, '-o', folder / f'merged-{processes}.safetensors')
    for name, value in load_file(folder / f'merged-{processes}.safetensors').items():
        assert torch.equal(weights[name], value), name


def main():
    pretrainer, classifier = transformers.BertForPreTraining, transformers.BertForSequenceClassification
    guesser = transformers.BertForMaskedLM
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        check_divided(folder)
        check_read(driver, folder, 'read', pretrainer)
        check_read(driver, folder, 'read, gelu by erf', pretrainer, {'hidden_activation': 'gelu_erf'},
                   hidden_act='gelu')
        check_read(driver, folder, 'read, gamma and beta', pretrainer, change=old_norms)
        check_read(driver, folder, 'read, without the prefix', pretrainer, change=lambda key: key.removeprefix('bert.'))
        check_read(driver, folder, 'read, several files', pretrainer, change='sharded')
        check_read(driver, folder, 'read, hidden words alone', guesser, need={'sequence_output', 'mlm_logits'})
        check_read(driver, folder, 'read, classes', classifier, num_labels=CLASSES)
        check_read(driver, folder, 'read, classes, pooled', classifier, num_labels=CLASSES,
                   task={'model': {'use_encoder_pooler': True}})
        written = PRETRAINING - {'pooled_output'}  # theirs is that of the head
        check_write(driver, folder, 'write', pretrainer, need=written)
        check_write(driver, folder, 'write, gelu by erf', pretrainer, {'hidden_activation': 'gelu_erf'}, need=written)
        check_write(driver, folder, 'write, hidden words alone', guesser, task={'model': {'cls_heads': []}, 'next': False},
                    need={'sequence_output', 'mlm_logits'})
        check_write(driver, folder, 'write, classes', classifier, need={'sentence_prediction'})
        check_write(driver, folder, 'write, classes, pooled', classifier, task={'model': {'use_encoder_pooler': True}},
                    need={'sentence_prediction'})


if __name__ == '__main__':
    main()
