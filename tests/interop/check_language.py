"""Model Garden's models of language, and steps of its tasks, beside ours: from the same checkpoints and on the same
batches."""
import json
import os
import pathlib
import tempfile

from driver import compile_driver
from model_garden import put, run, under_its_python

under_its_python(__file__)

import gin
import numpy as np
import tensorflow as tf
import tf_keras
import yaml
from official.common import registry_imports  # pylint: disable=unused-import
from official.core import exp_factory, task_factory
from official.modeling import hyperparams
from safetensors.numpy import load_file, save_file

VALUE = '/.ATTRIBUTES/VARIABLE_VALUE'
GIN = pathlib.Path(__file__).resolve().parent.parent.parent / 'configs/nlp/gin/talking_gated_encoder.gin'
BATCH, LENGTH, WORDS, GUESSES = 8, 24, 60, 5
SIZES = dict(vocab_size=WORDS, hidden_size=32, num_layers=3, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=32, dropout_rate=0.0, attention_dropout_rate=0.0)
STEPS = 20
rng = np.random.default_rng(0)


# --- batches ---------------------------------------------------------------------------------------------

def words():
    lengths = rng.integers(4, LENGTH + 1, BATCH)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    second = (np.arange(LENGTH) >= rng.integers(2, LENGTH, BATCH)[:, None]).astype(np.int32)
    return {'input_word_ids': rng.integers(1, WORDS, (BATCH, LENGTH)).astype(np.int32) * mask, 'input_mask': mask,
            'input_type_ids': second * mask}, lengths


def pretraining_batch(places=LENGTH):
    """`places`: of how many words there is an output."""
    batch, lengths = words()
    weights = (rng.random((BATCH, GUESSES)) < 0.7).astype(np.float32)
    lengths = np.minimum(lengths, places)
    batch.update(masked_lm_positions=rng.integers(0, lengths[:, None], (BATCH, GUESSES)).astype(np.int32),
                 masked_lm_ids=rng.integers(0, WORDS, (BATCH, GUESSES)).astype(np.int32), masked_lm_weights=weights,
                 next_sentence_labels=rng.integers(0, 2, (BATCH, 1)).astype(np.int32))
    return batch


def sentence_batch(numbers):
    batch, _ = words()
    batch['label_ids'] = (rng.normal(0, 1, BATCH).astype(np.float32) if numbers else
                          rng.integers(0, 3, BATCH).astype(np.int32))
    return batch


# --- the two sides ---------------------------------------------------------------------------------------

class Original:
    """Task, model and optimizer as Model Garden's own trainer makes them."""

    def __init__(self, experiment, config, bindings=None):
        gin.clear_config()
        if bindings:
            gin.parse_config_file(str(bindings))
        params = hyperparams.override_params_dict(exp_factory.get_exp_config(experiment), config, is_strict=True)
        self.task = task_factory.get_task(params.task, logging_dir=None)
        self.model = self.task.build_model()
        self.optimizer = self.task.create_optimizer(params.trainer.optimizer_config, params.runtime)
        self.step = tf.Variable(0, dtype=tf.int64, name='global_step')
        self.checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.optimizer, global_step=self.step,
                                              **self.model.checkpoint_items)
        metrics = self.task.build_metrics(training=True)
        self.train = tf.function(
            lambda batch: self.task.train_step(batch, self.model, self.optimizer, metrics)['loss'])

    def save(self, prefix):
        return self.checkpoint.write(str(prefix))

    def still(self):
        """Heads of sentences drop a share that no field sets; here nothing is dropped."""
        for layer in self.model.submodules:
            if isinstance(layer, tf_keras.layers.Dropout):
                layer.rate = 0.0

    def forget(self):
        for variable in (*self.model.variables, *self.optimizer.variables()):
            variable.assign(tf.zeros_like(variable))

    def shake(self):
        """First values that are not all zeros and ones."""
        for variable in self.model.variables:
            variable.assign_add(0.05 * rng.normal(0, 1, variable.shape))


def tensors(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {name.replace(VALUE, ''): reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
            if name.endswith(VALUE) and reader.get_variable_to_dtype_map()[name] == tf.float32}


def configuration(folder, experiment, encoder, changes):
    model = {'encoder': encoder}
    data = {'input_path': 'dummy', 'global_batch_size': BATCH, 'seq_length': LENGTH}
    if experiment == 'bert/pretraining':
        model['cls_heads'] = [{'inner_dim': 32, 'dropout_rate': 0.0}]
        data['max_predictions_per_seq'] = GUESSES
    config = {'runtime': {'distribution_strategy': 'one_device'},
              'task': {'model': model, 'train_data': dict(data), 'validation_data': dict(data)},
              'trainer': {'train_steps': STEPS, 'optimizer_config': {
                  'learning_rate': {'polynomial': {'initial_learning_rate': 0.002, 'decay_steps': STEPS}},
                  'warmup': {'polynomial': {'warmup_steps': 4}}}}}
    put(config, changes)
    path = folder / 'config.yaml'
    path.write_text(yaml.safe_dump(config))
    return path, config


# --- the checks ------------------------------------------------------------------------------------------

def tensor_at(outputs, key):
    """"attention_scores/1" is the second of a list."""
    name, _, number = key.partition('/')
    return (outputs[name][int(number)] if number else outputs[name]).numpy()


def check_answers(driver, folder, name, encoder, bindings=None, experiment='bert/pretraining', changes=None, more=()):
    """`more`: outputs beside those that every model has."""
    path, config = configuration(folder, experiment, encoder, changes or {})
    original = Original(experiment, config, bindings)
    places = encoder.get(encoder['type'], {}).get('output_range', LENGTH)
    batch = pretraining_batch(places) if experiment == 'bert/pretraining' else sentence_batch(False)
    original.model(batch, training=False)
    original.shake()
    prefix = original.save(folder / 'answers')
    save_file(batch, folder / 'batch.safetensors')
    ours = f'{path},{bindings}' if bindings else path
    run(driver, 'answers', experiment, ours, prefix, folder / 'batch.safetensors', folder / 'out.safetensors')
    wanted, found = original.model(batch, training=False), load_file(folder / 'out.safetensors')
    if not isinstance(wanted, dict):
        wanted = {'sentence_prediction': wanted}
    worst = 0
    for key, value in found.items():
        there = tensor_at(wanted, key)
        assert value.shape == there.shape, (key, value.shape, there.shape)
        worst = max(worst, float(np.abs(value - there).max()))
    usual = ({'sentence_prediction'} if experiment == 'bert/sentence_prediction' else
             {'sequence_output', 'pooled_output', 'mlm_logits', 'next_sentence'})
    assert set(found) == usual | set(more), sorted(found)
    if experiment == 'bert/pretraining':
        assert found['sequence_output'].shape[1] == places, found['sequence_output'].shape
    print(f'{name}: {len(found)} outputs within {worst:.1e}')
    assert worst <= 1e-5


# --- BERT's first release, and Hugging Face --------------------------------------------------------------

def first_names(model):
    """The weights of a pre-training model as BERT's first release named and laid them out."""
    encoder, size = model.encoder_network, SIZES['hidden_size']
    names = {}

    def dense(name, layer):
        kernel, bias = (weight.numpy() for weight in layer.weights)
        names[f'{name}/kernel'] = kernel.reshape(-1, size) if name.endswith('attention/output/dense') else kernel.reshape(
            kernel.shape[0], -1)
        names[f'{name}/bias'] = bias.reshape(-1)

    def norm(name, layer):
        names[f'{name}/gamma'], names[f'{name}/beta'] = layer.gamma.numpy(), layer.beta.numpy()

    tables = 'bert/embeddings'
    names[f'{tables}/word_embeddings'] = encoder._embedding_layer.embeddings.numpy()
    names[f'{tables}/position_embeddings'] = encoder._position_embedding_layer.weights[0].numpy()
    names[f'{tables}/token_type_embeddings'] = encoder._type_embedding_layer.embeddings.numpy()
    norm(f'{tables}/LayerNorm', encoder._embedding_norm_layer)
    for i, layer in enumerate(encoder.transformer_layers):
        at = f'bert/encoder/layer_{i}'
        for part in ('query', 'key', 'value'):
            dense(f'{at}/attention/self/{part}', getattr(layer._attention_layer, f'_{part}_dense'))
        dense(f'{at}/attention/output/dense', layer._attention_layer._output_dense)
        norm(f'{at}/attention/output/LayerNorm', layer._attention_layer_norm)
        dense(f'{at}/intermediate/dense', layer._intermediate_dense)
        dense(f'{at}/output/dense', layer._output_dense)
        norm(f'{at}/output/LayerNorm', layer._output_layer_norm)
    head = model.classification_heads[0]
    dense('bert/pooler/dense', head.dense)
    dense('cls/predictions/transform/dense', model.masked_lm.dense)
    norm('cls/predictions/transform/LayerNorm', model.masked_lm.layer_norm)
    names['cls/predictions/output_bias'] = model.masked_lm.bias.numpy()
    names['cls/seq_relationship/output_weights'] = head.out_proj.kernel.numpy().T
    names['cls/seq_relationship/output_bias'] = head.out_proj.bias.numpy()
    return names


def answers_near(title, original, batch, found, keys):
    wanted = original.model(batch, training=False)
    worst = max(float(np.abs(found[key] - wanted[key].numpy()).max()) for key in keys)
    print(f'{title}: {len(keys)} outputs within {worst:.1e}')
    assert worst <= 1e-5


def check_weights_of_others(driver, folder):
    """A checkpoint of names alone; then the same weights to Hugging Face and back to Model Garden."""
    first, keys = folder / 'first', ('sequence_output', 'mlm_logits', 'next_sentence')
    path, config = configuration(folder, 'bert/pretraining', {'type': 'bert', 'bert': SIZES}, {
        'task': {'init_checkpoint': str(first)}})
    original, batch = Original('bert/pretraining', config), pretraining_batch()
    original.model(batch, training=False)
    original.shake()
    names = first_names(original.model)
    first.mkdir()
    tf.raw_ops.SaveV2(prefix=str(first / 'bert_model.ckpt'), tensor_names=list(names), shape_and_slices=[''] * len(names),
                      tensors=[tf.constant(value) for value in names.values()])
    (first / 'bert_config.json').write_text(json.dumps({
        'vocab_size': WORDS, 'hidden_size': 32, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'intermediate_size': 48,
        'max_position_embeddings': 32, 'type_vocab_size': 2, 'hidden_act': 'gelu', 'hidden_dropout_prob': 0.0,
        'attention_probs_dropout_prob': 0.0}))
    save_file(batch, folder / 'batch.safetensors')
    run(driver, 'answers', 'bert/pretraining', path, '-', folder / 'batch.safetensors', folder / 'out.safetensors')
    answers_near('first release', original, batch, load_file(folder / 'out.safetensors'), keys)
    tilth = os.environ['TILTH']
    run(tilth, 'train', '--experiment=bert/pretraining', f'--config_file={path}', '--mode=train',
        f'--model_dir={folder / "run"}', 'trainer.train_steps=1', 'tilth.jit=false',
        'trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0')
    run(tilth, 'export', f'--model_dir={folder / "run"}', f'--to={folder / "hf"}', '--format=hf')
    run(tilth, 'ckpt', 'convert', folder / 'hf', folder / 'garden/ckpt-0')
    there = {key: value.numpy() for key, value in original.model(batch, training=False).items() if key in keys}
    original.shake()
    tf.train.Checkpoint(model=original.model, **original.model.checkpoint_items).restore(
        str(folder / 'garden/ckpt-0')).assert_existing_objects_matched()
    answers_near('to Hugging Face and back', original, batch, there, keys)


def check_saved_model(driver, folder, kind):
    """An encoder that the original has saved as a SavedModel, as TensorFlow Hub hands them out: a step with a rate of 0
    leaves what was read as it is."""
    hub = folder / f'hub-{kind}'
    path, config = configuration(folder, 'bert/sentence_prediction', {'type': kind, kind: SIZES}, {
        'task': {'model': {'num_classes': 3}}, 'trainer': {'optimizer_config': {
            'learning_rate': {'polynomial': {'initial_learning_rate': 0.0}}}}})
    original, batch = Original('bert/sentence_prediction', config), sentence_batch(False)
    original.model(batch, training=False)
    original.shake()
    encoder = original.model.checkpoint_items['encoder']
    tf.saved_model.save(encoder, str(hub))
    wanted = [weight.numpy() for weight in encoder.weights]
    config['task']['hub_module_url'] = str(hub)
    path.write_text(yaml.safe_dump(config))
    save_file(batch, folder / 'batch.safetensors')
    run(driver, 'step', 'bert/sentence_prediction', path, '-', folder / 'batch.safetensors', folder / 'read')
    original.shake()
    tf.train.Checkpoint(model=original.model, **original.model.checkpoint_items).restore(
        str(folder / 'read')).assert_existing_objects_matched()
    assert all(np.array_equal(weight.numpy(), there) for weight, there in zip(encoder.weights, wanted))
    print(f'SavedModel of {kind}: {len(wanted)} weights are the same')


def far(here, there):
    """How far apart weights are, "", and each sort of slot."""
    groups = {}
    for key, value in there.items():
        slot = key.partition('/.OPTIMIZER_SLOT/')[2]
        off, norm = groups.get(slot, (0, 0))
        groups[slot] = (off + float(np.sum((here[key].astype(np.float64) - value) ** 2)),
                        norm + float(np.sum(value.astype(np.float64) ** 2)))
    return {slot: (off / norm) ** 0.5 if norm else float(off > 0) for slot, (off, norm) in groups.items()}


# TensorFlow's 1 - 0.999 is a float32, and too small by so much of it; so is what a step adds to these slots.
APART = {'optimizer/v': 1.3e-5}


def with_columns(batch):
    """Labels as a column: with one class the original compares every answer with every label of a row."""
    return {**batch, 'label_ids': batch['label_ids'].reshape(-1, 1)} if 'label_ids' in batch else batch


def check_steps(driver, folder, name, experiment, encoder, batch_of, changes=None, bindings=None, count=STEPS):
    """Each step of ours starts from the original's state before that step."""
    path, config = configuration(folder, experiment, encoder, changes or {})
    original = Original(experiment, config, bindings)
    original.still()
    ours = f'{path},{bindings}' if bindings else path
    worst_loss, worst = 0, {}
    for i in range(count):
        batch = batch_of()
        if i == 0:  # slots are made by the first step; it is not compared
            original.train(with_columns(batch))
        original.step.assign(i)
        before = original.save(folder / 'before')
        save_file(batch, folder / 'batch.safetensors')
        loss = float(run(driver, 'still', experiment, ours, before, folder / 'batch.safetensors', folder / 'ours'))
        wanted = float(original.train(with_columns(batch)))
        original.step.assign(i + 1)
        original.save(folder / 'after')
        worst_loss = max(worst_loss, abs(loss - wanted) / abs(wanted))
        original.forget()  # so that what ours lacks does not look right
        original.checkpoint.restore(str(folder / 'ours')).expect_partial()
        original.save(folder / 'restored')  # under its own names
        there, here = tensors(folder / 'after'), tensors(folder / 'restored')
        worst = {slot: max(worst.get(slot, 0), value) for slot, value in far(here, there).items()}
        original.checkpoint.restore(str(folder / 'after'))
    told = ', '.join(f'{slot or "weights"} within {value:.1e}' for slot, value in worst.items())
    print(f'{name}: {count} steps, loss within {worst_loss:.1e}, {told}')
    assert worst_loss <= 1e-5 and set(worst) == {'', 'optimizer/m', 'optimizer/v'}
    assert all(value <= APART.get(slot, 1e-5) for slot, value in worst.items())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        driver = compile_driver('original', folder)
        bert = {'type': 'bert', 'bert': SIZES}
        albert = {key: value for key, value in SIZES.items()}
        for title, encoder, bindings in (
                ('first encoder', bert, None),
                ('second encoder', {'type': 'bert_v2', 'bert_v2': SIZES}, None),
                ('norm first', {'type': 'bert', 'bert': {**SIZES, 'norm_first': True}}, None),
                ('factorised', {'type': 'bert', 'bert': {**SIZES, 'embedding_size': 16}}, None),
                ('talking heads, gated', bert, GIN),
                ('albert', {'type': 'albert', 'albert': {**albert, 'embedding_width': 16}}, None)):
            check_answers(driver, folder, title, encoder, bindings)
        for kind in 'bert', 'bert_v2':
            short = {**SIZES, 'hidden_activation': 'relu', 'output_range': 7}
            check_answers(driver, folder, f'{kind}, relu, output_range', {'type': kind, kind: short})
        layers = range(SIZES['num_layers'])
        for kind in 'bert', 'bert_v2':
            check_answers(driver, folder, f'{kind}, all that is returned', {'type': kind, kind: {
                **SIZES, 'embedding_size': 16, 'return_all_encoder_outputs': True, 'return_attention_scores': True,
                'return_word_embeddings': True}}, more=['word_embeddings', *(
                    f'{name}/{i}' for name in ('encoder_outputs', 'attention_scores') for i in layers)])
        sentences = {'task': {'model': {'num_classes': 3}}}
        check_answers(driver, folder, 'sentences', bert, None, 'bert/sentence_prediction', sentences)
        check_answers(driver, folder, 'sentences, pooled', bert, None, 'bert/sentence_prediction',
                      {'task': {'model': {'num_classes': 3, 'use_encoder_pooler': True}}})
        check_weights_of_others(driver, folder)
        check_saved_model(driver, folder, 'bert')
        check_saved_model(driver, folder, 'bert_v2')
        check_steps(driver, folder, 'masked_lm', 'bert/pretraining', bert, pretraining_batch)
        check_steps(driver, folder, 'masked_lm, second encoder', 'bert/pretraining',
                    {'type': 'bert_v2', 'bert_v2': SIZES}, pretraining_batch)
        check_steps(driver, folder, 'masked_lm, talking heads', 'bert/pretraining', bert, pretraining_batch,
                    bindings=GIN)
        for title, kind in ('sentences', 'bert'), ('sentences, second encoder', 'bert_v2'):
            check_steps(driver, folder, title, 'bert/sentence_prediction', {'type': kind, kind: SIZES},
                        lambda: sentence_batch(False), sentences)
        check_steps(driver, folder, 'numbers of sentences', 'bert/sentence_prediction', bert,
                    lambda: sentence_batch(True), {'task': {'model': {'num_classes': 1}}})
        check_steps(driver, folder, 'sentences, pooled', 'bert/sentence_prediction', bert,
                    lambda: sentence_batch(False), {'task': {'model': {'num_classes': 3, 'use_encoder_pooler': True}}},
                    count=3)


if __name__ == '__main__':
    main()
