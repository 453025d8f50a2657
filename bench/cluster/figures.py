"""The arithmetic of this benchmark: pure functions, tested by test_cluster.py."""

from statistics import median


def hidden(exposed, alone):
    """The share of an all-reduce that does not show in a step: 1 − exposed / alone, at least 0.

    `exposed` is the transfer and waiting of the rank that comes last: what the others wait longer, they wait for that rank.
    """
    return max(0.0, 1 - exposed / alone) if alone > 0 else None


def middle_answer(answers):
    """The answers of all rounds as one: medians of numbers, also inside; of anything else the last one."""

    def of(values):
        first, last = values[0], values[-1]
        if isinstance(last, dict):
            return {key: of([v[key] for v in values if isinstance(v, dict) and v.get(key) is not None] or [None]) for key in last}
        number = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
        return median(values) if number and any(v != first for v in values) else last

    return of(answers)


def network_bound(compute, alone):
    """How many times longer the link is busy with a step's gradients than the cores with its arithmetic; above 1: bound by it."""
    return alone / compute


def bound_share(compute, alone):
    """The most that overlapping can reach, as a share of no exchange at all: of two things at once the longer one counts."""
    return compute / max(compute, alone)


def allows(compute, alone):
    """Whether there is enough computing to hide half of the transfer behind."""
    return compute >= alone / 2


def gradient_bytes(parameters):
    return 4 * parameters


def wire_seconds(size, ranks, bits_per_second):
    """The least time that `ranks` need to sum `size` bytes: each sends 2 (n − 1) / n of them over its link."""
    return 2 * (ranks - 1) / ranks * size * 8 / bits_per_second


def in_lab_time(seconds, dilation):
    return seconds / dilation


def curve(samples, dilation):
    """[(workers, examples/s in the lab's time, over one worker, efficiency)] from {workers: [wall seconds per example]}."""
    rates = {}
    for workers, values in samples.items():
        known = [value for value in values if value is not None]
        if known:
            rates[workers] = 1 / in_lab_time(median(known), dilation)
    one = rates.get(1)
    return [(n, rate, rate / one if one else None, rate / one / n if one else None) for n, rate in sorted(rates.items())]


def kills(records):
    """What came of many kills: counts, and the worst and the middle of lost steps and seconds."""
    recovered = [r for r in records if r["recover_s"] is not None]
    seconds = sorted(r["recover_s"] for r in recovered)
    return {
        "kills": len(records),
        "recovered": len(recovered),
        "equal": sum(bool(r["equal"]) for r in records),
        "lost_too_much": sum(r["start_step"] is not None and r["start_step"] < r["checkpoint_step"] for r in records),
        "hung": sum(bool(r["hung"]) for r in records),
        "lost_steps_max": max((r["lost_steps"] for r in recovered), default=None),
        "recover_median": median(seconds) if seconds else None,
        "recover_max": seconds[-1] if seconds else None,
    }
