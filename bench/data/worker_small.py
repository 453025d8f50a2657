"""Writes small JPEGs of 32×24 that differ from each other, for the row `memory`."""

import os

import numpy as np
import worker
from PIL import Image


def build(config):
    def run(request):
        random = np.random.default_rng(1)
        for number in range(config["count"]):
            coarse = Image.fromarray(random.integers(0, 256, (3, 4, 3), np.uint8))
            image = coarse.resize((32, 24), Image.Resampling.BICUBIC)
            image.save(os.path.join(request["destination"], f"{number:04d}.jpg"), quality=90)
        return config["count"]

    return "", run


if __name__ == "__main__":
    worker.serve(build)
