"""The models of bench/models.c in PyTorch."""
import torch
import torch.nn as nn
import torch.nn.functional as F

STAGES = [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]


def torch_mlp(widths):
    layers = []
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def torch_lenet():
    def stage(i, o):
        return [nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stage(1, 32), *stage(32, 64), nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(),
                         nn.Linear(128, 10))


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        def part(inputs, kernel, step):
            return [nn.Conv2d(inputs, o, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(o)]
        self.body = nn.Sequential(*part(i, 3, stride), nn.ReLU(), *part(o, 3, 1))
        self.shortcut = nn.Sequential(*part(i, 1, stride)) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def torch_resnet():
    layers, i = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for o, stride in STAGES:
        layers.append(Residual(i, o, stride))
        i = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Block(nn.Module):
    def __init__(self, size, heads, causal, **_):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm_1, self.norm_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate='tanh'))


class Language(nn.Module):
    def __init__(self, vocabulary, time, size, layers, **rest):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, size), nn.Embedding(time, size)
        self.blocks = nn.ModuleList(Block(size, **rest) for _ in range(layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


class BlockAfter(Block):
    """Norms follow what is added, as in BERT."""
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = self.norm_1(x + self.out(seen.transpose(1, 2).reshape(b, t, c)))
        return self.norm_2(x + self.down(F.gelu(self.up(x), approximate='tanh')))


class Bert(nn.Module):
    def __init__(self, vocabulary, time, size, layers, predictions, **rest):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, size), nn.Embedding(time, size)
        self.norm, self.blocks = nn.LayerNorm(size), nn.ModuleList(BlockAfter(size, **rest) for _ in range(layers))
        self.turn, self.norm_2 = nn.Linear(size, size), nn.LayerNorm(size)
        self.predictions, self.apart = predictions, time // predictions

    def forward(self, ids):
        x = self.norm(self.tokens(ids) + self.places.weight[:ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        x = x[:, :self.predictions * self.apart:self.apart]
        x = self.norm_2(F.gelu(self.turn(x), approximate='tanh'))
        return F.linear(x, self.tokens.weight).flatten(0, 1)


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride):
        super().__init__()
        o = 4 * width

        def part(inputs, outputs, kernel, step):
            return [nn.Conv2d(inputs, outputs, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]
        self.body = nn.Sequential(*part(i, width, 1, 1), nn.ReLU(), *part(width, width, 3, stride), nn.ReLU(),
                                  *part(width, o, 1, 1))
        self.shortcut = nn.Sequential(*part(i, o, 1, stride)) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def torch_resnet50(classes):
    layers, i = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(count):
            layers.append(Bottleneck(i, width, stride if block == 0 else 1))
            i = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, classes))


def torch_model(kind, settings):
    if kind == 'mlp':
        return torch_mlp(settings)
    if kind == 'lm':
        return Bert(**settings) if 'predictions' in settings else Language(**settings)
    if kind == 'resnet50':
        return torch_resnet50(settings)
    return torch_lenet() if kind == 'lenet' else torch_resnet()
