"""Draws a result as text for the terminal or as Markdown, and says which requirements are reached."""

from common import figures, tables
from common.tables import heading, table
from rows import AIM, BATCHES, FALL, GROWING, REQUIRED_MEMORY, REQUIRED_SCALING, REQUIRED_SPEED, ROWS, SCALING
from scaling import SUBJECTS

PEERS = ("torch/", "tensorflow/")
EMPTY = {"samples": []}


def rate(seconds):
    return f"{1 / seconds:.1f}"


def megabytes(value):
    return f"{value / 1e6:.0f}" if value else "–"


def row(spec, entry, markdown):
    lines = heading(f"{spec.name}: {spec.title}", markdown)
    ours, known = figures.fastest(entry, ("paceline/",)), {n: figures.summary(e["samples"]) for n, e in entry.items()}
    header = ["configuration", "examples/s", "best", "spread", "Paceline is", "GFLOP/s", "peak RSS MB", "before the model", "parameters", "loss", "note"]
    body = []
    for name in sorted(entry, key=lambda n: known[n][0] if known[n] else float("inf")):
        e, got = entry[name], known[name]
        if not got:
            body.append([name, *["–"] * 9, ("" if refused(e) else "failed: ") + e.get("error", "no figure")])
            continue
        times = figures.ratio(e["samples"], entry[ours]["samples"]) if ours else None
        notes = [e.get("note", ""), "failed in a round: " + e["error"] if e.get("error") else ""]
        body.append(
            [
                name,
                rate(got[0]),
                rate(got[1]),
                f"{got[2]:.0%}",
                f"{times:.2f}×" if times else "–",
                f"{spec.flops() / got[0] / 1e9:.0f}",
                megabytes(e.get("peak_rss")),
                megabytes(e.get("start_rss")),
                f"{e['parameters']:,}" if e.get("parameters") else "–",
                "{:.2f} → {:.2f}".format(*e["loss"]) if e.get("loss") else "–",
                "; ".join(n for n in notes if n),
            ]
        )
    return lines + table(header, body, markdown) + by_threads(entry)


def by_threads(entry):
    """Best against best with the same number of threads."""
    said = []
    for threads in ("1", "2"):
        same = {name: e for name, e in entry.items() if name.endswith("/" + threads)}
        ours, theirs = figures.fastest(same, ("paceline/",)), figures.fastest(same, PEERS)
        if ours and theirs:
            reached = figures.ratio(same[theirs]["samples"], same[ours]["samples"])
            said.append(f"{threads} thread{'s' if threads != 1 else ''}: {reached:.2f}× ({ours} over {theirs})")
    return ["", "Best over best: " + "; ".join(said) + "."] if said else []


def refused(entry):
    return entry.get("error", "").startswith("Refused")


def simple(title, subjects, entry, base, word, markdown):
    """A table of subjects in examples/s, as shares of `base`."""
    body = []
    for subject in subjects:
        e = entry.get(subject, EMPTY)
        got = figures.summary(e["samples"])
        if not got:
            body.append([subject, "–", "–", "–", "–", "failed: " + e.get("error", "not run")])
            continue
        share = figures.ratio(entry.get(base, EMPTY)["samples"], e["samples"])
        shown = f"{share:.1%}" if share else "–"
        body.append([subject, rate(got[0]), f"{got[2]:.0%}", shown, megabytes(e.get("peak_rss")), e.get("note", "")])
    header = ["subject", "examples/s", "spread", word, "peak RSS MB", "note"]
    return heading(title, markdown) + table(header, body, markdown)


def speed_checks(rows):
    for name, factor in REQUIRED_SPEED.items():
        if name in rows:
            required = figures.Required(name, "the best peer configuration", PEERS, factor)
            ((met, text),) = figures.checks(rows, [required])
            yield met, f"{text}; the aim is {AIM[name]:g}×"


def memory_checks(rows):
    """Paceline's fastest configuration against the PyTorch configuration that needs least."""
    for spec in ROWS:
        entry = rows.get(spec.name)
        if entry is None:
            continue
        title = f"{spec.name}: peak memory at most {REQUIRED_MEMORY:.0%} of PyTorch's"
        ours = figures.fastest(entry, ("paceline/",))
        peaks = {n: e["peak_rss"] for n, e in entry.items() if n.startswith("torch/") and e.get("peak_rss")}
        if not ours or not peaks or not entry[ours].get("peak_rss"):
            yield None, f"{title}: no figure"
            continue
        theirs = min(peaks, key=peaks.get)
        share = entry[ours]["peak_rss"] / peaks[theirs]
        text = f"{title}: {share:.0%} ({megabytes(entry[ours]['peak_rss'])} of {megabytes(peaks[theirs])} MB, {theirs})"
        above = peaks[theirs] - (entry[theirs].get("start_rss") or 0)
        yield share <= REQUIRED_MEMORY, f"{text}; without what PyTorch takes before the model: {entry[ours]['peak_rss'] / above:.0%}"


def growth_check(rows):
    """Examples/s must not fall as the batch grows."""
    entry = rows.get(BATCHES)
    if entry is None:
        return
    title = "AlexNet examples/s grow with the batch and do not fall"
    medians = [(spec.batch, figures.summary(entry.get(spec.name, EMPTY)["samples"])) for spec in GROWING]
    rates = [(batch, 1 / got[0]) for batch, got in medians if got]
    if len(rates) < 2:
        yield None, f"{title}: no figure"
        return
    fallen = [b for i, (b, r) in enumerate(rates[1:], 1) if r < FALL * max(q for _, q in rates[:i])]
    text = ", ".join(f"{batch}: {r:.1f}" for batch, r in rates)
    yield not fallen, f"{title}: {text}" + (f"; falls at {', '.join(map(str, fallen))}" if fallen else "")


def scaling_checks(rows):
    entry = rows.get(SCALING)
    if entry is None:
        return
    for subject in SUBJECTS[1:]:
        share = figures.ratio(entry.get(SUBJECTS[0], EMPTY)["samples"], entry.get(subject, EMPTY)["samples"])
        title = f"scaling: {subject} ≥ {REQUIRED_SCALING:.0%} of two independent runs"
        yield (None, f"{title}: no figure") if share is None else (share >= REQUIRED_SCALING, f"{title}: {share:.1%}")


def checks(result):
    rows = result["rows"]
    return [*speed_checks(rows), *memory_checks(rows), *growth_check(rows), *scaling_checks(rows)]


def draw(result, markdown=False):
    """The whole report."""
    options, lines = result["options"], []
    if markdown:
        lines += [
            "# Convolutional training, side by side",
            "",
            f"Written by `bench/cnn/run --markdown` on {result['date']}: {options['repeats']} rounds in random order (seed "
            f"{options['seed']}), steps of about {options['budget']:g} s for each configuration in each round. Spread is (max − min) / "
            "median over the rounds; ratios are medians of the ratios within a round. GFLOP/s count convolutions by their "
            "definition. See README.md for what each configuration does.",
        ]
    lines += heading("Machine", markdown) + tables.bullets(tables.machine(result["machine"]), markdown)
    for spec in ROWS:
        if spec.name in result["rows"]:
            lines += row(spec, result["rows"][spec.name], markdown)
    if BATCHES in result["rows"]:
        names = [spec.name for spec in GROWING]
        lines += simple(f"{BATCHES}: Paceline at 2 threads", names, result["rows"][BATCHES], names[0], "of the first", markdown)
    if SCALING in result["rows"]:
        title = "scaling: flowers-cnn, two replicas against two independent one-core runs"
        lines += simple(title, SUBJECTS, result["rows"][SCALING], SUBJECTS[0], "efficiency", markdown)
    lines += tables.required(checks(result), markdown)
    return "\n".join(lines).lstrip("\n") + "\n"
