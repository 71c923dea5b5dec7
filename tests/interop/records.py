"""TFRecords of tf.train.Example, written without TensorFlow: for checks under Pythons that have neither it nor protobuf."""
import struct

import numpy as np


def table():
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
        yield value


TABLE = list(table())


def masked_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xffffffff
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def feature(value):
    """Bytes, an array of float32, or one of integers that are not below zero."""
    if isinstance(value, bytes):
        return field(1, field(1, value))
    if getattr(value, 'dtype', None) == np.float32:
        return field(2, field(1, value.astype('<f4').tobytes()))
    return field(3, field(1, b''.join(varint(int(x)) for x in np.ravel(value))))


def write_records(path, examples):
    """Each is {feature: bytes or numbers}."""
    with open(path, 'wb') as out:
        for example in examples:
            entries = (field(1, key.encode()) + field(2, feature(value)) for key, value in example.items())
            data = field(1, b''.join(field(1, entry) for entry in entries))
            length = struct.pack('<Q', len(data))
            out.write(length + masked_crc(length) + data + masked_crc(data))
