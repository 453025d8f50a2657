"""The scaling check: mirrored on two cores against two independent one-core runs.

Two processes that train alone, each on its own core, at the same time, are the most that two
cores can do with this program on this machine: shared caches, memory and clocks are already
paid for. Mirrored training adds the exchange of gradients. Efficiency is its examples per
second over the sum of the two, taken within a round, and the median over the rounds.
"""

from common.training import together
from paceline import Run
from rows import EXAMPLES, ROWS

ROW = next(row for row in ROWS if row.name == "mlp-b128")
MIRRORED = {"strategy": "mirrored", "replicas": 2, "threads": 1}
SUBJECTS = ["two independent, batch 128 each", "mirrored 2x1, global batch 128", "mirrored 2x1, global batch 256"]


def rate(result):
    """Examples per second over the timed epochs."""
    return EXAMPLES * len(result["seconds"]) / sum(result["seconds"])


def independent(binary, epochs):
    """Summed examples per second of two runs at once, and how unequal they were."""
    runs = [
        Run(binary, ROW, {"strategy": "one-device", "device": f"cpu:{core}"}, epochs + 1) for core in (0, 1)
    ]
    results = together(runs)
    one, other = (sum(result["seconds"]) for result in results)
    return sum(map(rate, results)), abs(one - other) / max(one, other)


def measure(binary, subject, epochs):
    """(examples per second, note) of one subject in one round."""
    if subject == SUBJECTS[0]:
        total, unequal = independent(binary, epochs)
        note = f"the two differed by {unequal:.0%}" if unequal > 0.1 else ""
        return total, note
    batch = 128 if subject == SUBJECTS[1] else 256
    return rate(Run(binary, ROW, MIRRORED, epochs + 1, batch).finish()), ""
