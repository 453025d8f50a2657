"""The networks, once for all peers: each worker builds its own framework's layers from these descriptions.

They are what Paceline's presets of the same names are; the number of parameters stands in every line of
the report, so that a network that differs is seen.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Conv:
    """Convolution, then batch normalisation if `norm` (no bias then), then ReLU if `relu`."""

    out: int
    kernel: int
    stride: int = 1
    pad: int = 0
    norm: bool = False
    relu: bool = True


@dataclass(frozen=True)
class Pool:
    """Maximum over windows."""

    kernel: int
    stride: int
    pad: int = 0


@dataclass(frozen=True)
class Block:
    """Two 3×3 convolutions with batch normalisation, and the input added before the last ReLU."""

    out: int
    stride: int = 1


@dataclass(frozen=True)
class Mean:
    """Average over the whole image."""


@dataclass(frozen=True)
class Flatten:
    """All values of a sample in a row."""


@dataclass(frozen=True)
class Dropout:
    """Half of the values set to zero."""


@dataclass(frozen=True)
class Dense:
    """Dense layer, then ReLU if `relu`."""

    out: int
    relu: bool = False


def flowers():
    layers = []
    for width in (16, 32, 64, 96):
        layers += [Conv(width, 3, pad=1), Pool(2, 2)]
    return [*layers, Conv(128, 3, pad=1), Mean(), Dense(5)]


def alexnet():
    """torchvision's: one tower. At 224×224 its adaptive pool to 6×6 changes nothing."""
    return [
        *(Conv(64, 11, 4, 2), Pool(3, 2), Conv(192, 5, pad=2), Pool(3, 2)),
        *(Conv(384, 3, pad=1), Conv(256, 3, pad=1), Conv(256, 3, pad=1), Pool(3, 2)),
        *(Flatten(), Dropout(), Dense(4096, relu=True), Dropout(), Dense(4096, relu=True), Dense(1000)),
    ]


def resnet18():
    stages = [Block(out, stride) for out, first in ((64, 1), (128, 2), (256, 2), (512, 2)) for stride in (first, 1)]
    return [Conv(64, 7, 2, 3, norm=True), Pool(3, 2, 1), *stages, Mean(), Dense(1000)]


MODELS = {"flowers-cnn": flowers, "alexnet": alexnet, "resnet18": resnet18}


def through(size, kernel, stride, pad):
    return (size + 2 * pad - kernel) // stride + 1


def flops(model, size):
    """Floating-point operations of one sample's training step: forward, data and weight gradients of convolutions
    and dense layers by the definition; no data gradient for the first layer. Everything else counts nothing."""
    channels, total, first = 3, 0, True

    def product(amount):
        nonlocal total, first
        total += 2 * amount * (2 if first else 3)
        first = False

    def conv(side, channels, out, kernel, stride, pad):
        after = through(side, kernel, stride, pad)
        product(after * after * out * channels * kernel * kernel)
        return after

    for layer in MODELS[model]():
        match layer:
            case Conv():
                size = conv(size, channels, layer.out, layer.kernel, layer.stride, layer.pad)
                channels = layer.out
            case Pool():
                size = through(size, layer.kernel, layer.stride, layer.pad)
            case Block():
                if layer.stride != 1 or channels != layer.out:
                    conv(size, channels, layer.out, 1, layer.stride, 0)
                size = conv(size, channels, layer.out, 3, layer.stride, 1)
                conv(size, layer.out, layer.out, 3, 1, 1)
                channels = layer.out
            case Mean():
                size = 1
            case Flatten():
                channels, size = channels * size * size, 1
            case Dense():
                product(channels * layer.out)
                channels = layer.out
    return total
