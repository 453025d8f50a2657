"""What the workers of the peers share: the list of images, the clock, the serve loop.

A worker is one process (with children, where the peer uses processes) for one configuration of
one row, in the protocol of common/serving.py. It understands

    {"do": "run", "destination": DIR} -> {"seconds": ..., "units": images or bytes, "share": ...}

where `share` is there when the seconds are those of only a share of the work, the best pass of several.
"""

import os
import random
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import serving  # noqa: E402


def listing(source, seed=1):
    """([(path, class number)] in a shuffled order, class names) of a folder with a folder for each class."""
    classes = sorted(entry.name for entry in os.scandir(source) if entry.is_dir())
    items = [
        (os.path.join(source, name, file), number)
        for number, name in enumerate(classes)
        for file in sorted(os.listdir(os.path.join(source, name)))
    ]
    random.Random(seed).shuffle(items)
    return items, classes


def parts(items, count):
    """`items` in `count` parts of nearly equal size, in order."""
    return [items[i * len(items) // count : (i + 1) * len(items) // count] for i in range(count)]


def shard_path(destination, number, count):
    return os.path.join(destination, f"shard-{number:05d}-of-{count:05d}.tfrec")


def serve(build):
    """`build(config)` makes (note, action); `action(request)` gives the units it has worked on.

    The action may give a dict of figures instead, when it measured the seconds itself.
    """

    def start(config):
        note, action = build(config)

        def answer(request):
            begin = time.perf_counter()
            done = action(request)
            seconds = time.perf_counter() - begin
            figures = done if isinstance(done, dict) else {"units": done}
            return {"seconds": seconds, **figures}

        return {"note": note}, answer

    serving.serve(start)
