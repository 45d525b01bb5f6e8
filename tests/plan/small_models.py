"""Trains one of ten small models on made-up data, as a user's program would: small_models.py NAME BATCH [TOKENS]. They are the published
architectures with fewer or narrower layers. The optimizers, the way of zeroing gradients and the kinds of data differ on purpose."""
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                                  nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = nn.Identity() if stride == 1 and inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return functional.relu(self.body(x) + self.short(x))


class Inverted(nn.Module):
    """MobileNetV2's inverted residual."""

    def __init__(self, width, stride=1):
        super().__init__()
        wide = width * 6
        self.stride = stride
        self.body = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
                                  nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
                                  nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return x + self.body(x) if self.stride == 1 else self.body(x)


class Dense(nn.Module):
    """DenseNet's layer: its result is appended to its input."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        def two(a, b): return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.down, self.middle, self.bottom, self.up, self.last = two(3, 16), two(16, 32), two(32, 64), two(96, 32), two(48, 16)
        self.head = nn.Conv2d(16, 10, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.middle(functional.max_pool2d(a, 2))
        c = self.bottom(functional.max_pool2d(b, 2))
        d = self.up(torch.cat([functional.interpolate(c, scale_factor=2), b], 1))
        return self.head(self.last(torch.cat([functional.interpolate(d, scale_factor=2), a], 1)))


class Transformer(nn.Module):
    """GPT where it predicts the next token, else BERT with a class for each sequence."""

    def __init__(self, causal, vocabulary=1000, width=128, layers=3, most=512):
        super().__init__()
        self.causal = causal
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(most, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, activation="gelu", batch_first=True, norm_first=causal)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, vocabulary if causal else 2)

    def forward(self, tokens):
        length = tokens.size(1)
        x = self.words(tokens) + self.places(torch.arange(length))
        mask = torch.triu(torch.full((length, length), float("-inf")), 1) if self.causal else None
        x = self.layers(x, mask)
        return self.head(x if self.causal else x[:, 0])


class Lstm(nn.Module):
    def __init__(self, vocabulary=1000, width=96):
        super().__init__()
        self.words, self.lstm = nn.Embedding(vocabulary, width), nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.words(tokens))[0])


class Vit(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.cut, self.places = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.zeros(1, 65, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True), 3)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.size(0), -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


def convolutions(*widths):
    parts, last = [], 3
    for width in widths:
        parts += [nn.Conv2d(last, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        last = width
    return parts


MODELS = {
    "lenet": lambda: nn.Sequential(nn.Conv2d(3, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
                                   nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    "vgg": lambda: nn.Sequential(*convolutions(32, 64, 128), nn.Flatten(), nn.Linear(2048, 512), nn.ReLU(), nn.Dropout(), nn.Linear(512, 10)),
    "resnet": lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2),
                                    Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    "mobilenet": lambda: nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), Inverted(16), Inverted(16, 2), Inverted(16),
                                       nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
    "densenet": lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *[Dense(16 + 12 * i, 12) for i in range(4)], nn.AvgPool2d(8), nn.Flatten(),
                                      nn.Linear(64 * 16, 10)),
    "unet": UNet, "vit": Vit, "lstm": Lstm, "gpt": lambda: Transformer(True), "bert": lambda: Transformer(False),
}
OPTIMIZERS = {"lenet": lambda p: torch.optim.SGD(p, 0.01), "vgg": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
              "resnet": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=1e-4), "mobilenet": lambda p: torch.optim.RMSprop(p, 1e-4),
              "gpt": lambda p: torch.optim.AdamW(p, 1e-4), "bert": lambda p: torch.optim.AdamW(p, 1e-4)}


def data_for(name, count, tokens):
    if name in ("gpt", "lstm"):
        words = torch.randint(0, 1000, (count, tokens + 1))
        return TensorDataset(words[:, :-1].clone(), words[:, 1:].clone())
    if name == "bert":
        return TensorDataset(torch.randint(0, 1000, (count, tokens)), torch.randint(0, 2, (count,)))
    target = torch.randint(0, 10, (count, 32, 32) if name == "unet" else (count,))
    return TensorDataset(torch.randn(count, 3, 32, 32), target)


def main(name, batch, tokens=64, steps=20):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = MODELS[name]()
    optimizer = OPTIMIZERS.get(name, lambda p: torch.optim.Adam(p, 1e-3))(model.parameters())
    data = data_for(name, 512, tokens)
    left = steps
    while left > 0:
        for x, y in DataLoader(data, batch_size=batch, shuffle=True, drop_last=True):
            optimizer.zero_grad(set_to_none=name in ("vit", "gpt", "lenet"))
            out = model(x)
            loss = functional.cross_entropy(out.flatten(0, -2) if name in ("gpt", "lstm") else out, y.flatten() if name in ("gpt", "lstm") else y)
            loss.backward()
            optimizer.step()
            left -= 1
            if left == 0:
                break


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
