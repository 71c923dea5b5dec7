"""Writes tests/golden/text_wiki.txt: what Model Garden's pretrain_text_dataloader makes of a few documents.

With `deterministic` the first words are hidden. What stands in their place is drawn, and is written as it was before. Which second
sentence is drawn is random too: a line has both sentences as the loader gives them, where documents that come twice in a batch can
be their own others. Needs tf-models-official; run it as
    python tests/golden/text_wiki.py
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tempfile

import tensorflow as tf
from official.nlp.data import pretrain_text_dataloader

HERE = os.path.dirname(os.path.abspath(__file__))
PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e f g h ##x ##y .".split()
DOCUMENTS = [
    "a b c .\n\nd e\r\nf g h a b c d e f g h a b c d e\n",
    "ax bxy c\nxx dy\n",
    "h",
]


def main():
    folder = tempfile.mkdtemp()
    vocab = os.path.join(folder, "vocab.txt")
    records = os.path.join(folder, "records")
    with open(vocab, "w") as f:
        f.write("\n".join(PIECES) + "\n")
    with tf.io.TFRecordWriter(records) as w:
        for text in DOCUMENTS:
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
            w.write(tf.train.Example(features=tf.train.Features(feature={"text": feature})).SerializeToString())
    with open(os.path.join(HERE, "text_wiki.txt"), "w") as out:
        for nsp, whole in ((True, False), (False, False), (False, True), (True, True)):
            lines = set()
            params = pretrain_text_dataloader.BertPretrainTextDataConfig(
                input_path=records, is_training=True, seq_length=14, max_predictions_per_seq=4, masking_rate=0.3,
                vocab_file_path=vocab, use_next_sentence_label=nsp, use_whole_word_masking=whole, deterministic=True,
                global_batch_size=100, doc_batch_size=3)
            dataset = pretrain_text_dataloader.BertPretrainTextDataLoader(params).load()
            for batch in dataset.take(6 if nsp else 1):  # all second sentences come up
                columns = {k: v.numpy() for k, v in batch.items()}
                for i in range(100):
                    b = {k: v[i] for k, v in columns.items()}
                    words = b["input_word_ids"].copy()
                    count = int(b["masked_lm_weights"].sum())
                    for k in range(count):
                        words[b["masked_lm_positions"][k]] = b["masked_lm_ids"][k]
                    if whole and count == 4:  # more words may be hidden than there is room to guess
                        words = words[:1]
                    row = [words, b["input_mask"], b["input_type_ids"], b["masked_lm_positions"], b["masked_lm_ids"]]
                    lines.add(" | ".join(" ".join(str(int(x)) for x in r) for r in row) + f" | {count}")
            for line in sorted(lines):
                out.write(f"{int(nsp)} {int(whole)}: {line}\n")


main()
