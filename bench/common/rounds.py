"""Rounds: all configurations of a row in random order, again and again; and where results are kept."""

import json
import random
from pathlib import Path

from .program import Failed


def note(entry, answer, sample):
    """Adds one round's answer to a configuration's entry."""
    entry["samples"].append(sample)
    for key, value in answer.items():
        if key == "peak_rss":
            entry[key] = max(entry.get(key, 0), value or 0)
        elif value is not None:
            entry[key] = value


def rounds(name, subjects, repeats, seed, measure, entry, save, say, shown):
    """Visits `subjects` in random order, `repeats` times.

    `measure(subject)` gives (what to keep beside the samples, the sample); a `Failed` makes the
    sample null and the next round tries again. `shown(sample)` is the sample in words.
    """
    order = random.Random(f"{seed} {name}")
    for subject in subjects:
        entry[subject] = {"samples": []}
    for index in range(repeats):
        for subject in order.sample(subjects, len(subjects)):
            try:
                answer, sample = measure(subject)
                note(entry[subject], answer, sample)
                text = shown(sample)
            except Failed as error:
                entry[subject]["samples"].append(None)
                entry[subject]["error"] = str(error)
                text = f"failed: {error}"
            say(f"{name} {index + 1}/{repeats} {subject}: {text}")
        save()


def saver(result, path):
    """A function that writes `result` to `path`, whole or not at all; does nothing without a path."""

    def save():
        if path:
            part = Path(str(path) + ".part")
            part.write_text(json.dumps(result, indent=1))
            part.replace(path)

    return save
