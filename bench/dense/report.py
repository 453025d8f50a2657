"""Draws a result as text for the terminal or as Markdown for RESULTS.md."""

import figures
from common import tables
from common.tables import heading, table
from rows import EXAMPLES, LEAST_ACCURACY, REQUIRED, REQUIRED_SCALING, ROWS
from scaling import SUBJECTS


def seconds(value):
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def machine(facts, markdown):
    lines = heading("Machine", markdown)
    gflops, read = facts.get("sgemm_gflops") or {}, facts.get("read_gbps") or {}
    said = tables.machine(facts)
    for threads in sorted(gflops):
        said.append(
            f"{threads} thread{'s' if threads != 1 else ''}: sgemm 1024³ {gflops[threads]:.0f} GFLOP/s, memory read {read[threads]:.1f} GB/s"
        )
    return lines + tables.bullets(said, markdown)


def row(spec, entry, facts, markdown):
    lines = heading(f"{spec.name}: {spec.title}, rate {spec.rate}", markdown)
    best = figures.fastest(entry, ("paceline/",))
    header = ["configuration", "median s", "min s", "spread", "to Paceline", "peak RSS MB", "accuracy", "epochs", "note"]
    known = {name: figures.summary(e["samples"]) for name, e in entry.items()}
    body = []
    for name in sorted(entry, key=lambda n: known[n][0] if known[n] else float("inf")):
        e, got = entry[name], known[name]
        if not got:
            body.append([name, *["–"] * 7, "failed: " + e.get("error", "no figure")])
            continue
        times = figures.ratio(e["samples"], entry[best]["samples"]) if best else None
        notes = [e.get("note", "")]
        if e.get("error"):
            notes.append("failed in a round: " + e["error"])
        if e.get("accuracy") is None:
            notes.append("no accuracy")
        elif e["accuracy"] < LEAST_ACCURACY:
            notes.append("DID NOT TRAIN")
        body.append(
            [
                name,
                seconds(got[0]),
                seconds(got[1]),
                f"{got[2]:.0%}",
                f"{times:.2f}×" if times else "–",
                f"{e['peak_rss'] / 1e6:.0f}" if e.get("peak_rss") else "–",
                f"{e['accuracy']:.1%}" if e.get("accuracy") is not None else "–",
                str(e.get("epochs", "–")),
                "; ".join(n for n in notes if n),
            ]
        )
    lines += table(header, body, markdown)
    lines += bound(spec, entry, best, facts)
    return lines


def bound(spec, entry, best, facts):
    said = []
    for threads in (1, 2):
        limit = figures.bound(spec, facts, threads)
        if limit:
            said.append(f"{seconds(limit)} s at {threads} thread{'s' if threads != 1 else ''}")
    if not said:
        return []
    text = f"Bound (matrix products at the speed of sgemm): {', '.join(said)}."
    read = (facts.get("read_gbps") or {}).get("2")
    if read:
        text += f" One reading of the images as f32: {seconds(spec.bytes() / read / 1e9)} s at 2 threads."
    limit = figures.bound(spec, facts, 2)
    if best and limit:
        reached = figures.summary(entry[best]["samples"])[0] / limit
        text += f" {best} is at {reached:.2f}× the 2-thread bound ({'within' if reached <= 1.5 else 'not within'} 1.5×)."
    return ["", text]


def scaling(entry, markdown):
    lines = heading("scaling: MLP batch 128, two replicas against two independent one-core runs", markdown)
    header = ["subject", "median examples/s", "spread", "efficiency", "note"]
    body = []
    for subject in SUBJECTS:
        e = entry.get(subject, {"samples": []})
        got = figures.summary(e["samples"])
        if not got:
            body.append([subject, "–", "–", "–", "failed: " + e.get("error", "not run")])
            continue
        efficiency = figures.ratio(e["samples"], entry[SUBJECTS[0]]["samples"])
        shown = f"{efficiency:.1%}" if efficiency else "–"
        body.append([subject, f"{got[0]:,.0f}", f"{got[2]:.0%}", shown, e.get("note", "")])
    return lines + table(header, body, markdown)


def checks(result):
    """[(met: True, False or None when there is no figure, text)] of all requirements."""
    found = figures.checks(result["rows"], REQUIRED)
    entry = result["rows"].get("scaling")
    if entry:
        base = entry.get(SUBJECTS[0], {"samples": []})["samples"]
        for subject in SUBJECTS[1:]:
            reached = figures.ratio(entry.get(subject, {"samples": []})["samples"], base)
            name = f"scaling: {subject} ≥ {REQUIRED_SCALING:.0%} of two independent runs"
            text = "no figure" if reached is None else f"{reached:.1%}"
            found.append((None if reached is None else reached >= REQUIRED_SCALING, f"{name}: {text}"))
    return found


def draw(result, markdown=False):
    """The whole report."""
    options = result["options"]
    lines = []
    if markdown:
        lines += [
            "# Dense training, side by side",
            "",
            f"Written by `bench/dense/run --markdown` on {result['date']}: {options['repeats']} rounds in random order "
            f"(seed {options['seed']}), up to {options['epochs']} timed epochs of {EXAMPLES:,} Fashion-MNIST examples "
            f"each round after an untimed one. Spread is (max − min) / median over the rounds; ratios are medians of the "
            f"ratios within a round. See README.md for what each configuration does.",
        ]
    lines += machine(result["machine"], markdown)
    for spec in ROWS:
        if spec.name in result["rows"]:
            lines += row(spec, result["rows"][spec.name], result["machine"], markdown)
    if "scaling" in result["rows"]:
        lines += scaling(result["rows"]["scaling"], markdown)
    lines += tables.required(checks(result), markdown)
    return "\n".join(lines).lstrip("\n") + "\n"
