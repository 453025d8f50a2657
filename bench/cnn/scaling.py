"""Two replicas of one thread against two independent one-core runs at the same time (flowers-cnn).

Two processes that train alone, each bound to its own core, are the most that two cores can do with this program on this
machine: shared caches, memory and clocks are already paid for. What is missing to 100 % is the price of exchanging gradients.
"""

from common.training import together
from paceline import Run
from rows import flowers

MIRRORED = {"strategy": "mirrored", "replicas": 2, "threads": 1}
SUBJECTS = ["two independent, batch 32 each", "mirrored 2x1, global batch 64", "mirrored 2x1, global batch 32"]


def independent(binary, steps):
    """Summed examples per second of two runs at once, and how unequal they were."""
    runs = [Run(binary, flowers(32), {"strategy": "one-device", "device": f"cpu:{core}"}, steps) for core in (0, 1)]
    results = together(runs)
    one, other = (result["seconds"] for result in results)
    return 1 / one + 1 / other, abs(one - other) / max(one, other)


def measure(binary, subject, steps):
    """(seconds per example of both cores together, note) of one subject in one round."""
    if subject == SUBJECTS[0]:
        total, unequal = independent(binary, steps)
        return 1 / total, f"the two differed by {unequal:.0%}" if unequal > 0.1 else ""
    batch = 64 if subject == SUBJECTS[1] else 32
    return Run(binary, flowers(batch), MIRRORED, steps).finish()["seconds"], ""
