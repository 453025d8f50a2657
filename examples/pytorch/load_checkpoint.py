#!/usr/bin/env python3
"""Loads a Paceline checkpoint into PyTorch modules with the names and shapes that PyTorch's users know.

    python examples/pytorch/load_checkpoint.py runs/lenet-mnist-1          # says what is in the newest checkpoint
    >>> model = load("runs/resnet18-fake-1")                               # a torch.nn.Module, ready to evaluate

What there is to know:

- Parameters are in `checkpoints/step-N/model.safetensors`. Names are `layer.tensor`; in a layer's name `_` stands for
  torchvision's dot: `layer1_0_conv1.weight` is `layer1.0.conv1.weight`. Running statistics of batch normalisation are there too.
- Convolution weights are [out, in, height, width], as PyTorch keeps them, and dense weights [out, in].
- Paceline's images are [height, width, channels]. So the columns of the first dense layer after `flatten` are in the order
  (height, width, channels), where PyTorch flattens (channels, height, width): they have to be permuted, once.
"""

import json
import sys
import tomllib
from pathlib import Path

import torch
from torch import nn


def tensors(path):
    """The tensors of a safetensors file by name: 8 bytes of length, a JSON header, the values."""
    raw = bytearray(Path(path).read_bytes())
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = torch.frombuffer(raw[start:end], dtype=torch.float32).reshape(entry["shape"]).clone()
    return found


def channels_first(weight, channels, height, width):
    """A dense layer's weight with columns in (height, width, channels) order, as one for (channels, height, width)."""
    return weight.reshape(-1, height, width, channels).permute(0, 3, 1, 2).reshape(weight.shape).contiguous()


class LeNet(nn.Module):
    def __init__(self, channels, side, classes):
        super().__init__()
        self.last = ((side // 2) - 4) // 2
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * self.last**2, 120)
        self.fc2 = nn.Linear(120, 84)
        self.logits = nn.Linear(84, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.logits(self.fc2(self.fc1(x.flatten(1)).relu()).relu())


class AlexNet(nn.Module):
    """torchvision's, layer by layer."""

    def __init__(self, classes):
        super().__init__()
        relu, pool = nn.ReLU, lambda: nn.MaxPool2d(3, 2)
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 64, 11, 4, 2), relu(), pool(), nn.Conv2d(64, 192, 5, padding=2), relu(), pool()),
            *(nn.Conv2d(192, 384, 3, padding=1), relu(), nn.Conv2d(384, 256, 3, padding=1), relu()),
            *(nn.Conv2d(256, 256, 3, padding=1), relu(), pool()),
        )
        self.classifier = nn.Sequential(
            *(nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), relu(), nn.Dropout(), nn.Linear(4096, 4096), relu()),
            nn.Linear(4096, classes),
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        way = self.downsample(x) if hasattr(self, "downsample") else x
        return (self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())) + way).relu()


class ResNet18(nn.Module):
    """torchvision's, layer by layer."""

    def __init__(self, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        widths = [64, 64, 128, 256, 512]
        for stage in range(1, 5):
            before, out = widths[stage - 1], widths[stage]
            blocks = nn.Sequential(Block(before, out, 1 if stage == 1 else 2), Block(out, out, 1))
            setattr(self, f"layer{stage}", blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


def build(name, found):
    """The module for a preset, its sizes read from the checkpoint's tensors."""
    if name == "lenet":
        columns, channels = found["fc1.weight"].shape[1], found["conv1.weight"].shape[1]
        last = round((columns / 16) ** 0.5)
        found["fc1.weight"] = channels_first(found["fc1.weight"], 16, last, last)
        return LeNet(channels, 2 * (2 * last + 4), found["logits.weight"].shape[0])
    if name == "alexnet":
        found["classifier_1.weight"] = channels_first(found["classifier_1.weight"], 256, 6, 6)
        return AlexNet(found["classifier_6.weight"].shape[0])
    if name == "resnet18":
        return ResNet18(found["fc.weight"].shape[0])
    sys.exit(f"no module for the preset {name}; there are lenet, alexnet and resnet18")


def newest(run):
    return max(Path(run, "checkpoints").glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))


def load(run):
    """The newest checkpoint of a run as a module in evaluation mode."""
    preset = tomllib.loads(Path(run, "run.toml").read_text())["config"]["model"]["preset"]
    found = tensors(newest(run) / "model.safetensors")
    model = build(preset, found)
    # What PyTorch has and Paceline does not need: how many batches the running statistics have seen.
    wanted = {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    model.load_state_dict({name: found[ours(name)] for name in wanted}, strict=False)
    unused = set(found) - {ours(name) for name in wanted}
    assert not unused, f"tensors that no module has: {sorted(unused)}"
    return model.eval()


def ours(name):
    """`layer1.0.conv1.weight` as Paceline spells it: `layer1_0_conv1.weight`."""
    layer, _, tensor = name.rpartition(".")
    return f"{layer.replace('.', '_')}.{tensor}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    module = load(sys.argv[1])
    for name, value in module.state_dict().items():
        print(f"{name:40} {list(value.shape)}")
