#!/usr/bin/env python3
"""Writes the seeds of fuzz_run_folder: tests/fuzz/seeds_run_folder.py, which fills tests/fuzz/corpus/run_folder/.

Frames and checksums around the parts are the target's; here is what it puts into them.
"""
import json
import pathlib
import struct

CHECKPOINT, PARAMS, SEALED, RAW, INDEX, DATA, EVENTS, METRICS, BINDINGS, CLASSES, THIRD, BEST, EXPERIMENT = range(13)
GOES_ON, SAVES, STRICT, MENDS = 1, 2, 4, 8


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def folder(how, *files):
    out = bytes([how])
    for which, content in files:
        content = content.encode() if isinstance(content, str) else content
        out += bytes([which]) + struct.pack("<H", len(content)) + content
    return out


def state_file(*names):
    text = f'model_checkpoint_path: "{names[-1]}"\n'
    text += "".join(f'all_model_checkpoint_paths: "{name}"\n' for name in names)
    text += "".join(f"all_model_checkpoint_timestamps: {1700000000 + i}.5\n" for i in range(len(names)))
    return text + "last_preserved_timestamp: 1699999999.0\n"


def sealed(entries, tensors, data):
    """What follows the checksum's digits in the header of a checkpoint, a newline, the data."""
    rest = '","tilth.format":"1","tilth.numerics":"generic","tilth.entries":' + json.dumps(json.dumps(entries)) + "},"
    rest += json.dumps(tensors)[1:]
    return rest.encode() + b"\n" + data


def tensor(kind, shape, begin, end):
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


GOOD = sealed([["step", "int"], ["model/kernel", "tensor"]],
              {"step": tensor("I64", [], 0, 8), "model/kernel": tensor("F32", [2], 8, 16)},
              struct.pack("<qff", 1, 0.5, -2))
TIED = sealed([["step", "int"], ["model/kernel", "tensor"], ["tied", "same", "model/kernel"], ["name", "text"],
               ["rng", "words"], ["on", "bool"], ["rate", "double"]],
              {"step": tensor("I64", [], 0, 8), "model/kernel": tensor("F32", [2], 8, 16),
               "rng": tensor("U64", [1], 16, 24), "rate": tensor("F64", [], 24, 32), "name": tensor("U8", [3], 32, 35),
               "on": tensor("BOOL", [], 35, 36)},
              struct.pack("<qffQd3sB", 1, 0.5, -2, 7, 0.1, b"abc", 1))


def bundle():
    kernel, step = struct.pack("<ff", 0.5, -2), struct.pack("<q", 1)

    def entry(kind, shape, offset, data):
        dims = b"".join(field(2, field(1, size)) for size in shape)
        value = field(1, kind) + field(2, dims) + field(4, offset) + field(5, len(data))
        return value + varint(6 << 3 | 5) + struct.pack("<I", masked(crc32c(data)))

    node = field(1, 1) + field(2, b"model")
    graph = field(1, field(1, node)) + field(1, field(2, field(1, b"VARIABLE_VALUE") + field(3, b"model/.ATTRIBUTES/VARIABLE_VALUE")))
    lengths = struct.pack("<I", len(graph))
    crc_of_lengths = struct.pack("<I", masked(crc32c(lengths)))
    string = varint(len(graph)) + crc_of_lengths + graph
    value = field(1, 7) + field(4, 16) + field(5, len(string)) + varint(6 << 3 | 5)
    value += struct.pack("<I", masked(crc32c(lengths + crc_of_lengths + graph)))
    pairs = [(b"", field(1, 1) + field(3, field(1, 1))), (b"_CHECKPOINTABLE_OBJECT_GRAPH", value),
             (b"model/.ATTRIBUTES/VARIABLE_VALUE", entry(1, [2], 0, kernel)),
             (b"step/.ATTRIBUTES/VARIABLE_VALUE", entry(9, [], 8, step))]
    index = b"".join(bytes([len(key), len(value)]) + key + value for key, value in pairs)
    return (INDEX, index), (DATA, kernel + step + string)


def events():
    def event(step, body):
        return varint(1 << 3 | 1) + struct.pack("<d", 1700000000.0) + field(2, step) + body

    def scalar(tag, number):
        metadata = field(1, field(1, b"scalars"))
        value = field(1, tag) + field(8, field(1, 1) + field(4, struct.pack("<f", number))) + field(9, metadata)
        return field(5, field(1, value))

    messages = [event(0, field(3, b"brain.Event:2") + field(10, field(1, b"tilth"))), event(1, scalar(b"loss", 0.5)),
                event(2, scalar(b"loss", 0.25))]
    return b"".join(bytes([len(m)]) + m for m in messages)


WEIGHTS = json.dumps({"a": tensor("U8", [1], 0, 1)}).encode()
METRIC_LINES = "".join(json.dumps(line) + "\n" for line in [
    {"event": "start", "step": 0, "time": "2026-01-02T03:04:05.5Z", "experiment": "vision/local", "mode": "train"},
    {"event": "train", "step": 1, "time": "2026-01-02T03:04:06.5Z", "metrics": {"loss": 0.5, "accuracy": None}},
    {"event": "evaluation", "step": 2, "metrics": {"loss": 0.25}},
    {"event": "end", "step": 2, "mode": "train", "reason": "done", "seconds": 1.5}]) + '{"event": "tra'
YAML = ("name: x\ncount: 3\nrates: [0.1, .inf]\ncolor: red\nlayers:\n- {name: dense, units: 4}\n"
        "optimizer: {type: sgd, sgd: {momentum: 0.5}}\nextra: {trainer.best_checkpoint_eval_metric: loss}\n")
FOREIGN = ("trainer:\n  best_checkpoint_eval_metric: a|loss\n  best_checkpoint_metric_comp: lower\n"
           "  optimizer_config: {learning_rate: {type: constant}}\n")
GIN = "import toys\nx = 3\nshow.value = [%x, @Zero]\na/show.other = {'k': None}\nEncoderScaffold.hidden = 4\n"

SEEDS = {
    "resume": folder(GOES_ON | SAVES | MENDS, (CHECKPOINT, state_file("ckpt-1")), (SEALED, GOOD), (METRICS, METRIC_LINES),
                     (EVENTS, events()), (PARAMS, FOREIGN)),
    "eval": folder(0, (CHECKPOINT, state_file("ckpt-1", "ckpt-3")), (SEALED, GOOD), (THIRD, TIED), (CLASSES, "cat\ndog\n")),
    "bundle": folder(GOES_ON, (CHECKPOINT, state_file("ckpt-2")), *bundle()),
    "both": folder(GOES_ON | SAVES, (CHECKPOINT, state_file("ckpt-2", "ckpt-1")), (SEALED, TIED), *bundle()),
    "lost_list": folder(GOES_ON, (SEALED, GOOD), (THIRD, GOOD)),
    "damaged": folder(GOES_ON | SAVES, (CHECKPOINT, state_file("ckpt-1", "ckpt-3")), (SEALED, GOOD), (THIRD, b"\0\n\0")),
    "outside": folder(GOES_ON | SAVES, (CHECKPOINT, state_file("../victim/model", "ckpt-1")), (SEALED, GOOD)),
    "outside_latest": folder(GOES_ON | SAVES, (CHECKPOINT, state_file("ckpt-1", "../victim/model")), (SEALED, GOOD)),
    "weights": folder(0, (RAW, struct.pack("<Q", len(WEIGHTS)) + WEIGHTS + b"\1")),
    "settings": folder(STRICT, (PARAMS, YAML), (BINDINGS, GIN), (EXPERIMENT, "vision/local\n"),
                       (BEST, '{"metric": "loss", "value": 0.5, "iteration": 3}')),
    "events": folder(MENDS, (EVENTS, events()), (METRICS, METRIC_LINES)),
}

if __name__ == "__main__":
    corpus = pathlib.Path(__file__).parent / "corpus" / "run_folder"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, content in SEEDS.items():
        (corpus / name).write_bytes(content)
