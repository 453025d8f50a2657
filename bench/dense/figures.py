"""Pure functions from samples to the figures of the report.

A result file holds, per row and configuration, one sample per round: the mean seconds of the
epochs of that round, or null when it failed. Rounds pair configurations that ran within
minutes of each other, so that ratios are taken within a round and the median over the rounds
is reported: what disturbs a whole round cancels out.
"""

from statistics import median


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


def bound(row, machine, threads):
    """Seconds per epoch below which this machine's own sgemm cannot do the row's products."""
    peak = (machine.get("sgemm_gflops") or {}).get(str(threads))
    return row.flops() / (peak * 1e9) if peak else None
