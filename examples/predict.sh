#!/usr/bin/env bash
# predict.sh TILTH PROGRAM: trains for a moment, and asks the example about a grey picture of 16 x 16.
set -euo pipefail
"$1" train --experiment=vision/local --mode=train --model_dir=run trainer.train_steps=4 tilth.jit=false --verbosity=-1
base64 -d >grey.png <<'PNG'
iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAAAAAA6mKC9AAAAD0lEQVR42mNoQAMMI1sAAAUMgAHj
M1mKAAAAAElFTkSuQmCC
PNG
"$2" run grey.png
