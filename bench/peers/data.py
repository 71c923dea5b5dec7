"""The peer of bench_data: photos through PIL and a DataLoader of PyTorch.

    python bench/peers/data.py FOLDER WORKERS      # reads names, answers with the seconds of a pass

It is not quite the same work: when it shrinks, PIL's bilinear averages over all that a pixel covers, and PIL decodes
the whole file at its full size, whatever part is needed. So do those who train with it.
"""
import glob
import math
import random
import sys
import time

import numpy as np
import torch
from PIL import Image

FOLDER, WORKERS = sys.argv[1], int(sys.argv[2])
SIZE, BATCH, CLASSES = 224, 64, 1000
MEAN = np.array([123.675, 116.28, 103.53], np.float32)
SCALE = 1 / np.array([58.395, 57.12, 57.375], np.float32)


def random_box(width, height):
    """As torchvision's RandomResizedCrop draws it."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return x, y, x + w, y + h
    return 0, 0, width, height


class Photos(torch.utils.data.Dataset):
    def __init__(self):
        self.paths = sorted(glob.glob(FOLDER + '/photo-*.jpg'))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with Image.open(self.paths[i]) as file:
            photo = file.convert('RGB')
        photo = photo.resize((SIZE, SIZE), Image.BILINEAR, box=random_box(*photo.size))
        if random.random() < 0.5:
            photo = photo.transpose(Image.FLIP_LEFT_RIGHT)
        pixels = np.asarray(photo, np.float32)
        pixels -= MEAN
        pixels *= SCALE
        return torch.from_numpy(pixels), i % CLASSES


def open_photos():
    return torch.utils.data.DataLoader(Photos(), BATCH, shuffle=True, num_workers=WORKERS,
                                       persistent_workers=True)


def photos(loader):
    seen = 0
    for pixels, _ in loader:
        seen += len(pixels)
    assert seen == len(loader.dataset)


ready = None
for line in sys.stdin:
    if line.strip() != 'photos to 224, beside PIL':
        print('no such case', flush=True)
        continue
    if not ready:
        ready = open_photos()
        photos(ready)
    time.sleep(0.3)  # what others had in preparation ends
    begin = time.perf_counter()
    photos(ready)
    print(time.perf_counter() - begin, flush=True)
