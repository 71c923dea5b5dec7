#!/usr/bin/env python3
"""Makes what the op cases compare with, by PyTorch 2.10.0 (CPU, float64):

    .venv/bin/python tests/golden/ops.py BUILD_DIR [PROGRAM ...]

Every test of tests/ops that has a table of cases (all, or those named: `elementwise`) writes its
rows with --golden-inputs; their expressions are evaluated and tests/golden/ops_FAMILY.bin is
written anew. The file, little-endian: "TLGOLD01", rows u32; each row: name (u16 and bytes), hash
u64, outputs u8, gradients u8, the outputs' values, then of each gradient the input u8 and its
value. A value: kind u8 (0 none, 1 float, 2 integer or bool), rank u8, dimensions u32, norm f64, sum
with signs f64, stored u8, elements f64.
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
OPS = HERE.parent / "ops"
MOST_STORED = 16  # op_cases_golden.c says the same
NAMES = "abcdefgh"


def numbers(texts):
    return [float.fromhex(text) for text in texts]


def make_input(spec):
    values = numbers(spec["values"])
    if spec["type"] != "float64":
        values = [int(value) for value in values]
    tensor = torch.tensor(values, dtype=getattr(torch, spec["type"])).reshape(spec["shape"])
    return tensor.requires_grad_(spec["gradient"])


def evaluate(row):
    """The outputs and the gradients of their weighted sum; None where an output is left out."""
    inputs = [make_input(spec) for spec in row["inputs"]]
    scope = dict(zip(NAMES, inputs), p=row["p"], q=numbers(row["q"]), torch=torch, F=F, math=math)
    outputs = eval(row["torch"], scope)  # the expression is the test's own
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    outputs += [None] * (len(row["outputs"]) - len(outputs))
    loss = None
    for output, wanted in zip(outputs, row["outputs"], strict=True):
        if output is None:
            continue
        if list(output.shape) != wanted["shape"]:
            raise ValueError(f"PyTorch gives shape {list(output.shape)}, the op {wanted['shape']}")
        if wanted["weights"] is not None and output.requires_grad:
            weights = torch.tensor(numbers(wanted["weights"]), dtype=torch.float64)
            part = (output.to(torch.float64) * weights.reshape(output.shape)).sum()
            loss = part if loss is None else loss + part
    leaves = [(i, x) for i, x in enumerate(inputs) if x.requires_grad]
    found = [None] * len(leaves)
    if loss is not None:
        found = torch.autograd.grad(loss, [x for _, x in leaves], allow_unused=True)
    gradients = [(i, torch.zeros_like(x) if g is None else g) for (i, x), g in zip(leaves, found)]
    return outputs, gradients


def sign_at(i):
    return -1.0 if (i * 0x9E3779B97F4A7C15) >> 63 & 1 else 1.0


def pack_value(tensor):
    if tensor is None:
        return struct.pack("<B", 0)
    kind = 1 if tensor.is_floating_point() else 2
    values = tensor.detach().to(torch.float64).reshape(-1).tolist()
    finite = [(i, v) for i, v in enumerate(values) if math.isfinite(v)]
    norm = math.sqrt(math.fsum(v * v for _, v in finite))
    signed = math.fsum(sign_at(i) * v for i, v in finite)
    if len(values) > MOST_STORED:
        values = [values[i * (len(values) - 1) // (MOST_STORED - 1)] for i in range(MOST_STORED)]
    shape = tensor.shape
    return struct.pack(f"<BB{len(shape)}IddB{len(values)}d", kind, len(shape), *shape, norm, signed,
                       len(values), *values)


def pack_row(row, row_hash):
    outputs, gradients = evaluate(row)
    name = row["name"].encode()
    packed = struct.pack("<H", len(name)) + name
    packed += struct.pack("<QBB", row_hash, len(outputs), len(gradients))
    packed += b"".join(pack_value(output) for output in outputs)
    return packed + b"".join(struct.pack("<B", i) + pack_value(g) for i, g in gradients)


def make_family(program):
    """Writes the family's file; gives the number of rows whose expression failed."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "inputs"
        done = subprocess.run([program, "--golden-inputs", path], stdout=subprocess.PIPE, text=True)
        if not path.exists():
            print(f"{program.name}: failed\n{done.stdout}")
            return 1
        head, *lines = path.read_text().splitlines()
    failed = done.returncode != 0
    if failed:
        print(done.stdout, end="")
    packed = []
    for line in lines:
        row_hash, text = line.split(" ", 1)
        row = json.loads(text)
        try:
            packed.append(pack_row(row, int(row_hash, 16)))
        except Exception as error:  # whatever an expression may do
            print(f"{program.name}: {row['name']}: {row['torch']}: {error}")
            failed += 1
    file = HERE / f"ops_{json.loads(head)['family']}.bin"
    if packed:
        file.write_bytes(b"TLGOLD01" + struct.pack("<I", len(packed)) + b"".join(packed))
        print(f"{file.name}: {len(packed)} rows, {file.stat().st_size} bytes")
    return failed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not torch.__version__.startswith("2.10.0"):
        sys.exit(f"the files are made by PyTorch 2.10.0, this is {torch.__version__}")
    torch.set_num_threads(1)
    build, only = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    failed = 0
    for source in sorted(OPS.glob("test_*.c")):
        family = source.stem.removeprefix("test_")
        own = family == "op_cases"  # the harness's own test
        if own or "op_cases_main" not in source.read_text() or (only and family not in only):
            continue
        failed += make_family(build / "tests" / f"ops_{family}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
