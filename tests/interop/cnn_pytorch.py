"""Made-up pictures as IDX files, and the comparison of Paceline's logits with PyTorch's on the same checkpoint.

usage: cnn_pytorch.py make DATA SIDE CHANNELS
       cnn_pytorch.py compare RUN DATA LOGITS.json
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/pytorch"))

from load_checkpoint import load  # noqa: E402

CLASSES = 10


def write_idx(path, array):
    dims = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + dims + array.tobytes())


def read_idx(path):
    raw = path.read_bytes()
    dims = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


def make(folder, side, channels):
    folder.mkdir()
    random = np.random.default_rng(5)
    shape = (side, side) if channels == 1 else (side, side, channels)
    for part, count in (("train", 20), ("t10k", 6)):
        # Every class at least once in training: their number is read from the labels.
        labels = (np.arange(count) % CLASSES).astype(np.uint8)
        write_idx(folder / f"{part}-images-idx3-ubyte", random.integers(256, size=(count, *shape), dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)


def compare(run, data, logits):
    images = torch.from_numpy(read_idx(data / "t10k-images-idx3-ubyte").astype(np.float32) / 255)
    x = images[:, None] if images.dim() == 3 else images.permute(0, 3, 1, 2)
    ours = torch.tensor(json.loads(logits.read_text())["logits"])
    with torch.no_grad():
        theirs = load(run)(x.contiguous())
    apart = (ours - theirs).abs().max().item()
    print(f"{run.name}: logits of {len(x)} pictures up to {theirs.abs().max():.3f}, at most {apart:.1e} apart")
    assert theirs.shape == ours.shape, f"{theirs.shape} and {ours.shape}"
    assert theirs.std() > 1e-3, "the logits say nothing"
    assert apart < 1e-4 * max(1.0, theirs.abs().max().item()), "the logits differ"


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        compare(*map(Path, sys.argv[2:5]))
