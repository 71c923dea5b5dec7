"""The peer of bench_gemm for 16-bit types: the same products in PyTorch."""
import sys

import torch

from answer import answer, seconds, warm

torch.set_num_threads(int(sys.argv[1]))

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def operands(name):
    """From "bf16 1024 cubed" or "bf16 128 x 3072 x 768"; None for what is not such a name."""
    words = name.split()
    if not words or words[0] not in TYPES:
        return None
    numbers = [int(word) for word in words[1:] if word.isdigit()]
    m, n, k = numbers * 3 if words[-1] == "cubed" else numbers
    return (torch.rand(m, k).to(TYPES[words[0]]), torch.rand(k, n).to(TYPES[words[0]]))


def product(name):
    given = operands(name)
    return given and (lambda: torch.matmul(*given))


answer(lambda name: warm(product(name)), lambda call: seconds(call, 0.02))
