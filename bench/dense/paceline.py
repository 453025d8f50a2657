"""Paceline, through its command line: the one place that knows its flags and its summary.

Adapt `arguments` and `read_summary` when a name changes; nothing else here depends on them.
Recording is on, as it is for users: the run directory is written like any other.
"""

import json
from pathlib import Path

from common import training
from common.program import Failed


def arguments(row, how, epochs, run_dir, batch=None):
    """The command line of one run after the program's name."""
    settings = {
        "data.name": "fashion-mnist",
        "data.validation": "test",
        "model.preset": row.preset,
        "optimizer.name": row.optimizer,
        "optimizer.rate": row.rate,
        "train.batch": batch or row.batch,
        "train.epochs": epochs,
    }
    return training.line(settings, how, run_dir)


def read_summary(run_dir):
    """(seconds of every epoch, peak RSS or None, test accuracy or None) of a finished run."""
    path = Path(run_dir) / "summary.json"
    try:
        summary = json.loads(path.read_text())
        seconds = [float(epoch["seconds"]) for epoch in summary["epochs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(f"no usable summary.json in the run directory ({error!r})") from None
    return seconds, summary.get("peak_rss_bytes"), summary.get("test_accuracy")


class Run(training.Process):
    """One training process; start several to have them run at the same time."""

    def __init__(self, binary, row, how, epochs, batch=None):
        self.epochs = epochs
        super().__init__(binary, lambda run_dir: arguments(row, how, epochs, run_dir, batch))

    def finish(self):
        """Waits, and returns the epochs after the first, peak RSS and accuracy."""
        return self.wait(self.read)

    def read(self, run_dir):
        seconds, peak, accuracy = read_summary(run_dir)
        if len(seconds) != self.epochs:
            raise Failed(f"summary.json has {len(seconds)} epochs, {self.epochs} were asked for")
        return {"seconds": seconds[1:], "peak_rss": peak, "accuracy": accuracy}


def measure(binary, row, how, epochs):
    """`epochs` timed epochs after one that warms up, in one process."""
    return Run(binary, row, how, epochs + 1).finish()
