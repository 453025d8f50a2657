"""Pure functions from samples to figures.

A result file holds, per row and configuration, one sample per round: seconds per unit of work
(an epoch, an image, a byte), or null when it failed. Rounds pair configurations that ran within
minutes of each other, so that ratios are taken within a round and the median over the rounds
is reported: what disturbs a whole round cancels out.
"""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Required:
    """Paceline's best must be at least `factor` times as fast as the fastest of `prefixes`."""

    row: str
    what: str
    prefixes: tuple
    factor: float


def present(samples):
    return [s for s in samples if s is not None]


def summary(samples):
    """(median, minimum, spread) of the rounds; spread is (max - min) / median."""
    values = present(samples)
    if not values:
        return None
    middle = median(values)
    return middle, min(values), (max(values) - min(values)) / middle


def ratio(numerator, denominator):
    """Median over the rounds of numerator/denominator."""
    pairs = [a / b for a, b in zip(numerator, denominator) if a is not None and b is not None]
    return median(pairs) if pairs else None


def fastest(configurations, prefixes):
    """The name with the lowest median among those that start with one of `prefixes`."""
    found = {
        name: median(present(entry["samples"]))
        for name, entry in configurations.items()
        if name.startswith(tuple(prefixes)) and present(entry["samples"])
    }
    return min(found, key=found.get) if found else None


def check(configurations, required):
    """(factor reached or None, against which configuration) for one `Required`."""
    ours, theirs = fastest(configurations, ("paceline/",)), fastest(configurations, required.prefixes)
    if not ours or not theirs:
        return None, theirs
    return ratio(configurations[theirs]["samples"], configurations[ours]["samples"]), theirs


def checks(rows, requirements):
    """[(met: True, False or None when there is no figure, text)] of the requirements whose row was measured."""
    found = []
    for required in requirements:
        entry = rows.get(required.row)
        if entry is None:
            continue
        reached, against = check(entry, required)
        name = f"{required.row}: {required.factor:g}× {required.what}"
        if reached is None:
            found.append((None, f"{name}: no figure"))
        else:
            found.append((reached >= required.factor, f"{name}: {reached:.2f}× ({against})"))
    return found
