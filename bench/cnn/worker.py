"""What every peer's worker shares: the images, and the conversation.

A worker is one process for one configuration (framework, mode, threads, row), in the protocol of common/serving.py. It is
ready after two untimed steps (compiling included), and understands

    {"do": "steps", "least": 3, "budget": 4.0} -> {"seconds": per example, "steps": ..., "loss": [first, last], ...}

The images are two batches, made before the clock in the very type and layout that the network reads: no peer pays for
decoding, converting or gathering samples, which Paceline does within its steps.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import serving  # noqa: E402
from common.serving import status  # noqa: E402

BATCHES = 2


class Refused(Exception):
    """The framework does not do this on this machine: not a failure of the benchmark."""


def batches(row, seed):
    """[(images [n, h, w, 3] as f32 in [0, 1], labels)]: learnable, each class a colour and a stripe under noise."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(BATCHES):
        labels = rng.integers(row["classes"], size=row["batch"])
        images = rng.random((row["batch"], row["size"], row["size"], 3), np.float32)
        for image, label in zip(images, labels):
            image[:, :, label % 3] *= 0.5
            image[label % row["size"], :, :] = 1
        found.append((images, labels.astype(np.int64)))
    return found


def serve(build):
    """Runs a worker: `build(config)` gives an object with `step(batch) -> loss`, `note` and `parameters`."""

    def start(config):
        row = config["row"]
        imported = status("VmRSS")
        trainer = build(config)
        count = 0

        def step():
            nonlocal count
            count += 1
            loss = float(trainer.step(count % BATCHES))  # reading the loss waits for the step
            if not math.isfinite(loss):
                raise ArithmeticError(f"the loss is {loss} after {count} steps")
            return loss

        first = step()
        step()

        def answer(request):
            step()  # caches are cold after the others' turns
            begin, done, last = time.perf_counter(), 0, None
            while done < request["least"] or (time.perf_counter() - begin < request["budget"] and done < 200):
                last = step()
                done += 1
            seconds = (time.perf_counter() - begin) / (done * row["batch"])
            return {
                "seconds": seconds,
                "steps": done,
                "loss": [first, last],
                "peak_rss": status("VmHWM"),
                "start_rss": imported,
                "parameters": trainer.parameters,
            }

        return {"note": trainer.note}, answer

    serving.serve(start)
