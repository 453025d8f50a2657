"""What is measured: the rows, the configurations of each row, and the figures required of them."""

from dataclasses import asdict, dataclass

import models


@dataclass(frozen=True)
class Row:
    """One network at one batch, trained on made-up images: forward, backward and update in f32."""

    name: str
    title: str
    model: str
    size: int
    classes: int
    optimizer: str
    rate: float
    batch: int

    def as_json(self):
        return asdict(self)

    def flops(self):
        """Of one example's step, by the definition of convolution."""
        return models.flops(self.model, self.size)


def flowers(batch):
    return Row(f"flowers-cnn-b{batch}", f"flowers-cnn 192×192, Adam, batch {batch}", "flowers-cnn", 192, 5, "adam", 1e-3, batch)


def alexnet(batch):
    return Row(f"alexnet-b{batch}", f"AlexNet 224×224, SGD, batch {batch}", "alexnet", 224, 1000, "sgd", 0.01, batch)


ROWS = [
    flowers(32),
    alexnet(32),
    alexnet(128),
    Row("resnet18-b32", "ResNet-18 at 112×112, SGD, batch 32", "resnet18", 112, 1000, "sgd", 0.01, 32),
]

#: AlexNet's examples/s by batch, Paceline alone.
BATCHES = "alexnet-batches"
GROWING = [alexnet(batch) for batch in (8, 16, 32, 64, 128, 256)]

#: Two replicas against two independent runs.
SCALING = "scaling"

PACELINE = {
    "paceline/single/1": {"strategy": "single", "threads": 1},
    "paceline/single/2": {"strategy": "single", "threads": 2},
    "paceline/mirrored/2": {"strategy": "mirrored", "replicas": 2, "threads": 1},
}

#: nchw and nhwc are the layouts of images; `-xla` is jit_compile=True.
TORCH_MODES = ["eager-nchw", "eager-nhwc", "compile-nchw", "compile-nhwc"]
TENSORFLOW_MODES = ["step-nhwc", "step-nchw", "step-nhwc-xla", "step-nchw-xla"]

PEERS = {
    f"{framework}/{mode}/{threads}": {"framework": framework, "mode": mode, "threads": threads}
    for framework, modes in (("torch", TORCH_MODES), ("tensorflow", TENSORFLOW_MODES))
    for mode in modes
    for threads in (1, 2)
}

CONFIGURATIONS = [*PACELINE, *PEERS]

#: Speed over the best peer configuration, whatever its threads.
REQUIRED_SPEED = {"flowers-cnn-b32": 1.6, "alexnet-b32": 1.15, "alexnet-b128": 1.15, "resnet18-b32": 1.15}
#: What is aimed at beyond that.
AIM = {"flowers-cnn-b32": 2.5, "alexnet-b32": 2.0, "alexnet-b128": 2.0, "resnet18-b32": 1.8}
#: Peak resident memory, as a share of PyTorch's at the same batch.
REQUIRED_MEMORY = 0.6
#: Two replicas of one thread over the sum of two independent one-core runs at the same time.
REQUIRED_SCALING = 0.95
#: A batch may stay this far behind the best smaller one before its examples/s count as fallen: noise, not a trend.
FALL = 0.97
