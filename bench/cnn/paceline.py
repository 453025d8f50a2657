"""Paceline, through its command line: the one place that knows its flags and its records.

Examples/s are those of the steps after the first ones, from steps.jsonl: neither start nor evaluation is in them. The time
of a step is everything a rank does in it: bringing the samples in, computing, waiting, exchanging, updating.
"""

import json
from pathlib import Path

from common import training
from common.program import Failed

#: Steps that are not counted: pages and caches are cold.
WARM = 2
#: Batches of made-up images, as bytes: as much memory as the two batches of f32 that a peer holds.
HELD = 8


def arguments(row, how, steps, run_dir, held=HELD):
    """The command line of one run after the program's name; `held` batches of samples are made."""
    count = held * row.batch
    settings = {
        "data.name": f"fake:{row.size}x{row.size}x3:{row.classes}:{count}",
        "data.validation": "test",
        "model.preset": row.model,
        "optimizer.name": row.optimizer,
        "optimizer.rate": row.rate,
        "train.batch": row.batch,
        "train.epochs": -(-(steps + 1) // held),
        "train.max_steps": steps,
        "checkpoint.every": "never",
        "record.every": 1,
    }
    return training.line(settings, how, run_dir)


def read_records(run_dir, steps):
    """{seconds per example, losses, peak RSS, parameters, time splits} of a finished run."""
    run_dir = Path(run_dir)
    try:
        summary = json.loads((run_dir / "summary.json").read_text())
        files = [run_dir / "steps.jsonl", *run_dir.glob("steps-*.jsonl")]  # one for each process
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        done = [r for r in records if r["kind"] == "step" and r["rank"] == 0]
        counted = done[WARM:]
        seconds = sum(sum(r["split"].values()) for r in counted)
        examples = sum(r["batch"] * r["steps"] for r in counted)
        first = min((r["step"] for r in counted), default=0)
        later = [r for r in records if r["kind"] == "step" and r["step"] >= first]
        by_step = {}
        for r in later:
            by_step.setdefault(r["step"], []).append((r["split"].get("transfer", 0) + r["split"].get("wait", 0)) / r["steps"])
        parts = {part: sum(r["split"][part] for r in later) / sum(r["steps"] for r in later) for part in later[0]["split"]} if later else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(f"no usable records in the run directory ({error!r})") from None
    if len(done) != steps or seconds <= 0:
        raise Failed(f"steps.jsonl has {len(done)} steps, {steps} were asked for")
    return {
        "seconds": seconds / examples,
        "steps": len(counted),
        "loss": [done[0]["loss"], done[-1]["loss"]],
        "peak_rss": summary.get("peak_rss_bytes"),
        "parameters": summary.get("parameters"),
        "split": parts,  # seconds of a step, the mean over all ranks
        # The rank that comes last to an exchange waits for nothing but the exchange; the others wait for it, too.
        "exposed": sum(map(min, by_step.values())) / len(by_step),
    }


class Run(training.Process):
    """One training process; start several to have them run at the same time."""

    def __init__(self, launcher, row, how, steps, held=HELD):
        """`launcher` is the binary, or the words of a command line that come before `train`."""
        self.steps = steps + WARM
        super().__init__(launcher, lambda run_dir: arguments(row, how, self.steps, run_dir, held))

    def finish(self):
        """Waits, and returns what `read_records` does."""
        return self.wait(lambda run_dir: read_records(run_dir, self.steps))


class Paced:
    """Runs of one row whose number of steps follows from how long a step took the last time."""

    def __init__(self, binary, budget, least):
        self.binary, self.budget, self.least = binary, budget, least
        self.known = {}

    def steps(self, row, name):
        if (row.name, name) not in self.known:
            return self.least
        return max(self.least, min(200, round(self.budget / self.known[row.name, name])))

    def measure(self, row, name, how):
        answer = Run(self.binary, row, how, self.steps(row, name)).finish()
        self.known[row.name, name] = answer["seconds"] * row.batch
        return answer
