"""Arithmetic of predictions: errors, and whether orders are kept. No files, no processes."""

from statistics import mean, median

#: Pairs that differ by more than this must be predicted in their order.
APART = 1.5


def error(predicted, measured):
    """How far a prediction is from the measurement, relative to the measurement."""
    return abs(predicted - measured) / measured


def typical(samples):
    """The median of the samples that there are; None without any."""
    there = [sample for sample in samples if sample is not None]
    return median(there) if there else None


def table(entries):
    """[(model, layout, predicted, measured, error)] of {(model, layout): {"predicted": […], "measured": […]}}."""
    rows = []
    for (model, layout), entry in entries.items():
        predicted, measured = typical(entry["predicted"]), typical(entry["measured"])
        known = predicted is not None and measured is not None
        rows.append((model, layout, predicted, measured, error(predicted, measured) if known else None))
    return rows


def mean_error(rows):
    """Over all cases that have one; None without any."""
    errors = [row[4] for row in rows if row[4] is not None]
    return mean(errors) if errors else None


def orders(rows):
    """(kept, of all): pairs of layouts of one model whose measured steps are more than APART apart."""
    kept = of = 0
    for i, (model, _, predicted, measured, _) in enumerate(rows):
        for other, _, predicted_other, measured_other, _ in rows[:i]:
            if other != model or None in (predicted, measured, predicted_other, measured_other):
                continue
            if max(measured, measured_other) > APART * min(measured, measured_other):
                of += 1
                kept += (predicted > predicted_other) == (measured > measured_other)
    return kept, of


def off(predicted, measured):
    """The class of tasks that differs most, and by how many seconds of a step: of two time splits, means over the ranks."""
    classes = {"compute": ("compute",), "communication": ("wait", "transfer"), "update": ("update",), "input": ("input",)}

    def of(splits, names):
        return sum(split.get(name) or 0 for split in splits for name in names) / max(len(splits), 1)

    differences = {name: of(measured, parts) - of(predicted, parts) for name, parts in classes.items()}
    return max(differences.items(), key=lambda item: abs(item[1]))
