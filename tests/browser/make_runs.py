"""Runs to look at: one of Tilth's own, and folders as others write them, with event files made here.

The bytes of event files are made by hand, so that what the page shows is compared with numbers that no code of ours has
touched.
"""
import math
import os
import struct
import zlib

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(data):
    head = struct.pack('<Q', len(data))
    return head + struct.pack('<I', crc32c(head)) + data + struct.pack('<I', crc32c(data))


def event(time, step, *values):
    return record(b'\x09' + struct.pack('<d', time) + b'\x10' + varint(step) + field(5, b''.join(field(1, v) for v in values)))


def scalar(tag, value):
    return field(1, tag.encode()) + b'\x15' + struct.pack('<f', value)


def png(width, height, shade):
    rows = b''.join(b'\0' + bytes((x * 8 + y * shade) % 256 for x in range(width)) for y in range(height))
    chunk = lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


def image(tag, width, height, shade):  # of the old style, as PyTorch's writer has it
    return field(1, tag.encode()) + field(4, b'\x08' + varint(height) + b'\x10' + varint(width) + field(4, png(width, height, shade)))


def histogram(tag, low, counts):
    edges = [low + i + 1 for i in range(len(counts))]
    packed = lambda number, values: field(number, struct.pack(f'<{len(values)}d', *values))
    return field(1, tag.encode()) + field(5, b'\x09' + struct.pack('<d', low) + packed(6, edges) + packed(7, counts))


def text(tag, words):  # a tensor of one string, and what it is
    tensor = b'\x08\x07' + field(8, words.encode())
    return field(1, tag.encode()) + field(8, tensor) + field(9, field(1, field(1, b'text')))


def start(path, head=True):
    """The event file of a folder; without a head it goes on with what is there."""
    os.makedirs(path, exist_ok=True)
    f = open(os.path.join(path, 'events.out.tfevents.1700000000.host.1.0'), 'ab')
    if head:
        f.write(record(b'\x09' + struct.pack('<d', 1.7e9) + field(3, b'brain.Event:2')))
    return f


def loss_at(run, step):
    return (2.3 - 0.3 * run) * math.exp(-step / 400) + 0.1 + 0.05 * run + 0.02 * math.sin(step * (run + 1))


def accuracy_at(run, step):
    return 0.9 - 0.05 * run - 0.8 * math.exp(-step / 500)


def make_run(folder, run, steps=2000):
    """A run as Model Garden writes it: params.yaml, train, validation."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'params.yaml'), 'w') as f:
        f.write('trainer:\n  train_steps: %d\n  best_checkpoint_eval_metric: accuracy\n  best_checkpoint_metric_comp: higher\n'
                '  optimizer_config:\n    learning_rate: %s\ntask:\n  train_data:\n    global_batch_size: %d\n'
                % (steps, [0.1, 0.03, 0.01][run % 3], 32 << run % 3))
    with start(os.path.join(folder, 'train')) as f:
        for step in range(0, steps, 10):
            f.write(event(1.7e9 + step, step, scalar('loss', loss_at(run, step)), scalar('learning_rate', 0.1 * (1 - step / steps))))
            if step % 500 == 0:
                f.write(event(1.7e9 + step, step, histogram('kernel', -4, [1 + step / 100 * k * (7 - k) for k in range(8)])))
    with start(os.path.join(folder, 'validation')) as f:
        for step in range(0, steps, 200):
            f.write(event(1.7e9 + step, step, scalar('loss', loss_at(run, step) + 0.1), scalar('accuracy', accuracy_at(run, step)),
                          image('seen', 24, 16, 3 + step // 200), text('said', f'step {step}: <b>not bold</b> & "quoted"')))
