"""Encoders of parts that gin names, beside Model Garden's: what each gives, and what steps make of it. Weights and slots
go both ways under the original's names."""
import pathlib
import tempfile

from driver import compile_driver
from model_garden import under_its_python

under_its_python(__file__)

from check_language import SIZES, WORDS, check_answers, check_steps, pretraining_batch

SCAFFOLD = 'build_encoder.encoder_cls = @EncoderScaffold\n'
BLOCKS = SCAFFOLD + 'EncoderScaffold.hidden_cls = @TransformerScaffold\n'
GATED = BLOCKS + 'TransformerScaffold.feedforward_cls = @GatedFeedforward\n'
NAMED = {
    'blocks of the usual class': SCAFFOLD,
    'a norm before pooling': SCAFFOLD + 'EncoderScaffold.layer_norm_before_pooling = True\n',
    'blocks of parts, norm first': BLOCKS + 'TransformerScaffold.norm_first = True\n',
    'talking heads, dense layers': BLOCKS + 'TransformerScaffold.attention_cls = @TalkingHeadsAttention\n',
    'no gate': GATED + 'GatedFeedforward.use_gate = False\n',
    'two gated blocks, dropped behind the sum': GATED + (
        "GatedFeedforward.num_blocks = 2\nGatedFeedforward.dropout_position = 'after_residual'\n"),
    'norm first, gate without a norm': GATED + (
        'TransformerScaffold.norm_first = True\nGatedFeedforward.apply_output_layer_norm = False\n'
        'EncoderScaffold.layer_norm_before_pooling = True\n'),
    'one block for all layers': SCAFFOLD + (
        'EncoderScaffold.hidden_cls = @TransformerScaffold()\nTransformerScaffold.num_attention_heads = 4\n'
        'TransformerScaffold.inner_dim = 48\n'),
}
WHOLE = f"""{BLOCKS}build_encoder.bypass_config = True
EncoderScaffold.pooled_output_dim = 32
EncoderScaffold.embedding_cfg = {{'vocab_size': {WORDS}, 'type_vocab_size': 2, 'hidden_size': 32, 'max_seq_length': 32,
                                 'initializer': 'glorot_uniform', 'dropout_rate': 0.0}}
EncoderScaffold.hidden_cfg = {{'num_attention_heads': 4, 'intermediate_size': 48, 'dropout_rate': 0.0,
                              'attention_dropout_rate': 0.0}}
EncoderScaffold.num_hidden_instances = 2
EncoderScaffold.dict_outputs = True
"""
# Whose names in checkpoints are other parts of the same tables.
ANSWERS_ALONE = {'blocks of the usual class', 'talking heads, dense layers'}


def check_all(driver, folder):
    path, layers = folder / 'named.gin', [f'encoder_outputs/{i}' for i in range(SIZES['num_layers'])]
    all_layers = {'type': 'bert', 'bert': {**SIZES, 'return_all_encoder_outputs': True}}
    for title, text in NAMED.items():
        path.write_text(text)
        check_answers(driver, folder, title, all_layers, path, more=layers)
        if title not in ANSWERS_ALONE:
            check_steps(driver, folder, title, 'bert/pretraining', all_layers, pretraining_batch, bindings=path, count=1)
    path.write_text(WHOLE)
    check_answers(driver, folder, 'made by gin alone', {'type': 'any'}, path)
    check_steps(driver, folder, 'made by gin alone', 'bert/pretraining', {'type': 'any'}, pretraining_batch,
                bindings=path, count=1)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        check_all(compile_driver('original', place), place)
