"""Cases for tests/data/golden_cases.h: a tf.train.Example each, made of named numbers, texts and bytes."""
import tensorflow as tf


def feature(value):
    if isinstance(value, (str, bytes)):
        value = [value.encode() if isinstance(value, str) else value]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(x, float) for x in value):
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(x) for x in value]))


def example(**features):
    named = {name: feature(value) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString(deterministic=True)
