"""PyTorch's worker: eager and compiled training steps, in both layouts of images.

Modes
  eager-nchw, eager-nhwc        torch.nn modules, autograd, torch.optim in its fused form; nhwc is channels_last for the
                                images and for the weights
  compile-nchw, compile-nhwc    the same network through torch.compile, backward pass included
"""

import torch
import torch.nn.functional as F
from torch import nn

import models
import worker


class Residual(nn.Module):
    def __init__(self, channels, layer):
        super().__init__()
        out, stride = layer.out, layer.stride
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(out)
        self.shortcut = None
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        way = x if self.shortcut is None else self.shortcut(x)
        x = F.relu(self.first_norm(self.first(x)), inplace=True)
        return F.relu(self.second_norm(self.second(x)).add_(way), inplace=True)


def network(name, size):
    """The described network as a torch.nn.Sequential."""
    channels, made = 3, []
    for layer in models.MODELS[name]():
        match layer:
            case models.Conv():
                made.append(nn.Conv2d(channels, layer.out, layer.kernel, layer.stride, layer.pad, bias=not layer.norm))
                made += [nn.BatchNorm2d(layer.out)] if layer.norm else []
                made += [nn.ReLU(inplace=True)] if layer.relu else []
                channels = layer.out
                size = models.through(size, layer.kernel, layer.stride, layer.pad)
            case models.Pool():
                made.append(nn.MaxPool2d(layer.kernel, layer.stride, layer.pad))
                size = models.through(size, layer.kernel, layer.stride, layer.pad)
            case models.Block():
                made.append(Residual(channels, layer))
                channels, size = layer.out, models.through(size, 3, layer.stride, 1)
            case models.Mean():
                made += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
                size = 1
            case models.Flatten():
                made.append(nn.Flatten())
                channels, size = channels * size * size, 1
            case models.Dropout():
                made.append(nn.Dropout(0.5))
            case models.Dense():
                made.append(nn.Linear(channels, layer.out))
                made += [nn.ReLU(inplace=True)] if layer.relu else []
                channels = layer.out
    return nn.Sequential(*made)


class Trainer:
    def __init__(self, config):
        torch.set_num_threads(config["threads"])
        torch.manual_seed(config["seed"])
        row, mode = config["row"], config["mode"]
        layout = torch.channels_last if mode.endswith("nhwc") else torch.contiguous_format
        self.model = network(row["model"], row["size"]).to(memory_format=layout)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.data = []
        for images, labels in worker.batches(row, config["seed"]):
            x = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(memory_format=layout)
            self.data.append((x, torch.from_numpy(labels)))
        maker = torch.optim.Adam if row["optimizer"] == "adam" else torch.optim.SGD
        self.optimizer = maker(self.model.parameters(), lr=row["rate"], fused=True)

        def loss(x, y):
            return F.cross_entropy(self.model(x), y)

        compiled = mode.startswith("compile")
        self.loss = torch.compile(loss, dynamic=False) if compiled else loss
        self.note = "fused optimiser" + (", torch.compile" if compiled else "")

    def step(self, batch):
        loss = self.loss(*self.data[batch])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


if __name__ == "__main__":
    worker.serve(Trainer)
