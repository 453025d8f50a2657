"""What every peer's worker shares: the data, the serve loop and the accuracy.

A worker is one process for one configuration (framework, mode, threads, row), in the protocol
of common/serving.py. It is ready after one untimed epoch, and understands

    {"do": "epochs", "count": 3, "budget": 6.0} -> {"seconds": [...], ...}
    {"do": "accuracy"} -> {"accuracy": 0.84, "epochs": 7}

The accuracy is computed here with NumPy from the trained parameters, in the same way for
every peer: a peer that did not really train is seen at once.
"""

import gzip
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import serving  # noqa: E402
from common.serving import status  # noqa: E402


def read_idx(path):
    """An IDX file of unsigned bytes, gzipped or not, as an array."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        raw = file.read()
    if raw[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an IDX file of bytes")
    dims = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dims)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dims).reshape(shape)


def load(folder, split):
    """(images as f32 rows in [0, 1], labels as i32) of `train` or `t10k`."""

    def find(kind):
        for name in (f"{split}-{kind}-ubyte.gz", f"{split}-{kind}-ubyte"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
        raise FileNotFoundError(f"{folder}: no {split}-{kind}-ubyte(.gz); run bench/setup")

    images = read_idx(find("images-idx3"))
    images = images.reshape(len(images), -1).astype(np.float32)
    images *= np.float32(1 / 255)
    return images, read_idx(find("labels-idx1")).astype(np.int32)


def initial(sizes, seed):
    """Glorot-uniform weights [in, out] and zero biases: the same start for every peer."""
    rng = np.random.default_rng(seed)
    layers = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        limit = (6 / (fan_in + fan_out)) ** 0.5
        weights = rng.uniform(-limit, limit, (fan_in, fan_out)).astype(np.float32)
        layers.append((weights, np.zeros(fan_out, np.float32)))
    return layers


def accuracy(layers, folder):
    """Share of the 10,000 test images that a ReLU network with these layers gets right."""
    hidden, labels = load(folder, "t10k")
    for index, (weights, bias) in enumerate(layers):
        hidden = hidden @ weights + bias
        if index + 1 < len(layers):
            hidden = np.maximum(hidden, 0)
    return float((hidden.argmax(1) == labels).mean())


class Trainer:
    """One configuration, ready to train. Subclasses implement `epoch` and `layers`."""

    #: What was chosen among variants, for the report.
    note = ""

    def epoch(self):
        """Trains one epoch over all examples in a fresh order; returns when it is done."""
        raise NotImplementedError

    def layers(self):
        """The trained [(weights [in, out], bias)] as NumPy arrays."""
        raise NotImplementedError

    def epochs(self, count, budget):
        """Seconds of up to `count` epochs; stops early (after at least one) at `budget` seconds."""
        seconds = []
        while len(seconds) < count and (not seconds or sum(seconds) < budget):
            start = time.perf_counter()
            self.epoch()
            seconds.append(time.perf_counter() - start)
        return seconds

    def answer(self, request):
        """Further requests that a subclass understands."""
        raise ValueError(f"unknown request {request}")


class Peak:
    """Peak memory without the trials that only choose between a peer's variants."""

    def __init__(self):
        self.before = 0

    def pause(self):
        self.before = max(self.before, status("VmHWM"))

    def resume(self):
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # resets VmHWM to the present RSS
        except OSError:
            pass  # the peak then includes the trials: in the table it is only larger

    def read(self):
        return max(self.before, status("VmHWM"))


PEAK = Peak()


def serve(build):
    """Runs a worker: `build(config)` makes the trainer; then answers requests until quit."""

    def start(config):
        trainer = build(config)
        last = trainer.epochs(1, 0) if config.get("row") else []
        trained = len(last)

        def answer(request):
            nonlocal last, trained
            if request["do"] == "epochs":
                if last[-1] < 1:
                    # Caches are cold after the others' turns. Paceline warms up in every round
                    # too; in an epoch of more than a second this does not show.
                    trained += len(trainer.epochs(1, 0))
                last = seconds = trainer.epochs(request["count"], request["budget"])
                trained += len(seconds)
                return {"seconds": seconds, "peak_rss": PEAK.read()}
            if request["do"] == "accuracy":
                return {"accuracy": accuracy(trainer.layers(), config["data"]), "epochs": trained}
            return trainer.answer(request)

        return {"note": trainer.note}, answer

    serving.serve(start)


def pick(trials):
    """Runs (name, seconds thunk) trials in turn and returns the fastest name and all best times.

    Up to three turns while they are short: one disturbed trial must not choose a slow variant.
    """
    PEAK.pause()
    start = time.perf_counter()
    times = {}
    for _ in range(3):
        for name, run in trials:
            times[name] = min(run(), times.get(name, float("inf")))
        if time.perf_counter() - start > 6:
            break
    PEAK.resume()
    return min(times, key=times.get), times
