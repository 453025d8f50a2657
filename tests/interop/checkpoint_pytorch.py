"""Evaluates the newest checkpoint of a Paceline run with PyTorch, and compares with what Paceline said.

usage: checkpoint_pytorch.py RUN DATA      (DATA: the folder of the IDX files the run was validated on)

The safetensors file is read here from its description (8 bytes of length, a JSON header, the tensors), because PyTorch's
own reader is another package; where that is installed, it must read the same.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import tomllib

ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "gelu": F.gelu, "sigmoid": torch.sigmoid}


def safetensors(path):
    """The tensors of a file by name."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", f"{name} is {entry['dtype']}"
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.from_numpy(np.frombuffer(raw[start:end], "<f4").copy()).reshape(entry["shape"])
    try:
        from safetensors.torch import load_file
    except ImportError:
        return tensors, "read by its description"
    theirs = load_file(path)
    assert theirs.keys() == tensors.keys() and all(torch.equal(theirs[n], t) for n, t in tensors.items())
    return tensors, "read by the safetensors package"


def idx(path):
    """The array of a gzipped IDX file of unsigned bytes."""
    raw = gzip.decompress(path.read_bytes())
    dims = np.frombuffer(raw, ">u4", raw[3], 4).astype(int)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


def main():
    run, data = Path(sys.argv[1]), Path(sys.argv[2])
    summary = json.loads((run / "summary.json").read_text())
    model = tomllib.loads((run / "run.toml").read_text())["config"]["model"]
    newest = max((run / "checkpoints").glob("step-*"), key=lambda p: int(p.name.removeprefix("step-")))
    tensors, how = safetensors(newest / "model.safetensors")
    activation = ACTIVATIONS[model["activation"]]

    images = idx(data / "t10k-images-idx3-ubyte.gz").astype(np.float32) / 255
    labels = torch.from_numpy(idx(data / "t10k-labels-idx1-ubyte.gz").astype(np.int64))
    x = torch.from_numpy(images).flatten(1)
    for number in range(1, len(model["hidden"]) + 1):
        x = activation(F.linear(x, tensors[f"hidden{number}.weight"], tensors[f"hidden{number}.bias"]))
    logits = F.linear(x, tensors["logits.weight"], tensors["logits.bias"])
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    loss = F.cross_entropy(logits, labels).item()

    ours, our_loss = summary["final_val_accuracy"], summary["final_val_loss"]
    print(f"{model['activation']}, {newest.name} {how}: PyTorch {accuracy:.4f} {loss:.6f}, Paceline {ours:.4f} {our_loss:.6f}")
    # One sample on the border between two classes may fall to either side.
    assert abs(accuracy - ours) < 1.5 / len(labels), "the accuracies differ"
    assert abs(loss - our_loss) < 1e-5 * our_loss, "the losses differ"


if __name__ == "__main__":
    main()
