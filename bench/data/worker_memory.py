"""The speed of memory for the row `records`: the same number of bytes copied between two buffers."""

import time

import numpy as np

import worker


def build(config):
    source = np.frombuffer(np.random.default_rng(1).bytes(config["bytes"]), np.uint8)
    target = np.empty_like(source)
    target[:] = 1  # its pages are there before the clock

    def run(request):
        best = float("inf")
        for _ in range(config["passes"]):
            begin = time.perf_counter()
            np.copyto(target, source)
            best = min(best, time.perf_counter() - begin)
        return {"seconds": best, "units": len(source), "share": 1 / config["passes"]}

    return "one thread", run


if __name__ == "__main__":
    worker.serve(build)
