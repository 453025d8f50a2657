"""Paceline, through its command line: the one place that knows its flags and its summary.

Adapt `arguments` and `read_summary` when a name changes; nothing else here depends on them.
Recording is on, as it is for users: the run directory is written like any other.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

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
    line = ["train"]
    for key, value in settings.items():
        line += ["--set", f"{key}={value}"]
    for flag in ("strategy", "device", "replicas", "threads"):
        if flag in how:
            line += [f"--{flag}", str(how[flag])]
    return line + ["--run-dir", str(run_dir)]


def read_summary(run_dir):
    """(seconds of every epoch, peak RSS or None, test accuracy or None) of a finished run."""
    path = Path(run_dir) / "summary.json"
    try:
        summary = json.loads(path.read_text())
        seconds = [float(epoch["seconds"]) for epoch in summary["epochs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(f"no usable summary.json in the run directory ({error!r})") from None
    return seconds, summary.get("peak_rss_bytes"), summary.get("test_accuracy")


class Run:
    """One training process; start several to have them run at the same time."""

    def __init__(self, binary, row, how, epochs, batch=None):
        self.epochs = epochs
        self.run_dir = Path(tempfile.mkdtemp(prefix="paceline-bench-"))
        line = [str(binary), *arguments(row, how, epochs, self.run_dir / "run", batch)]
        self.log = open(self.run_dir / "log", "w+")
        self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def finish(self):
        """Waits, and returns the epochs after the first, peak RSS and accuracy."""
        try:
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            if self.process.returncode != 0:
                self.log.seek(0)
                said = [line.strip() for line in self.log if line.strip()]
                raise Failed(f"exit code {self.process.returncode}: {said[-1][:200] if said else 'no message'}")
            seconds, peak, accuracy = read_summary(self.run_dir / "run")
            if len(seconds) != self.epochs:
                raise Failed(f"summary.json has {len(seconds)} epochs, {self.epochs} were asked for")
            return {"seconds": seconds[1:], "peak_rss": peak or usage.ru_maxrss * 1024, "accuracy": accuracy}
        finally:
            self.log.close()
            shutil.rmtree(self.run_dir, ignore_errors=True)


def measure(binary, row, how, epochs):
    """`epochs` timed epochs after one that warms up, in one process."""
    return Run(binary, row, how, epochs + 1).finish()
