"""The peers of the dense rows: how one is started, and what it is asked in a round."""

from pathlib import Path

from common.workers import Worker

HERE = Path(__file__).resolve().parent


def start(python, configuration, row, data, seed):
    """A worker for one configuration; ready after one untimed epoch."""
    threads = configuration["threads"]
    config = {"mode": configuration["mode"], "threads": threads, "data": str(data), "seed": seed}
    config["row"] = row.as_json() if row else None
    # One compile thread: no pool of compile processes left behind.
    environment = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return Worker(python, HERE / f"worker_{configuration['framework']}.py", config, threads, environment)


def measure(worker, epochs, budget):
    """Seconds of up to `epochs` epochs, and the accuracy after them."""
    answer = worker.ask(do="epochs", count=epochs, budget=budget)
    return {**answer, "note": worker.note, **worker.ask(do="accuracy")}
