"""Draws a result as text for the terminal or as Markdown."""

from common import figures, tables
from common.tables import heading, table
from rows import MOST_GROWTH, MOST_LOST_DB, REQUIRED, SMALL_FILES, TITLES, UNITS


def rate(seconds, row):
    """A sample, seconds per unit, as the row's rate."""
    return f"{UNITS[row][1] / seconds:,.0f}"


def row(name, entry, markdown):
    unit = UNITS[name][0]
    best = figures.fastest(entry, ("paceline/",)) if name != "memory" else None
    header = ["configuration", f"median {unit}", f"best {unit}", "spread", "Paceline is", f"{unit} of CPU", "peak RSS MB", "note"]
    known = {c: figures.summary(e["samples"]) for c, e in entry.items()}
    names = list(entry)
    if name != "memory":
        names.sort(key=lambda c: known[c][0] if known[c] else float("inf"))
    body = []
    for configuration in names:
        e, got = entry[configuration], known[configuration]
        if not got:
            body.append([configuration, *["–"] * 6, "failed: " + e.get("error", "no figure")])
            continue
        times = figures.ratio(e["samples"], entry[best]["samples"]) if best else None
        notes = [e.get("note", ""), "failed in a round: " + e["error"] if e.get("error") else ""]
        body.append([
            configuration,
            rate(got[0], name),
            rate(got[1], name),
            f"{got[2]:.0%}",
            f"{times:.2f}×" if times else "–",
            rate(e["cpu_per_unit"], name) if e.get("cpu_per_unit") else "–",
            f"{e['peak_rss'] / 1e6:.0f}" if e.get("peak_rss") else "–",
            "; ".join(n for n in notes if n),
        ])
    lines = heading(f"{name}: {TITLES[name]}", markdown) + table(header, body, markdown)
    if name == "memory" and (grown := growth(entry)):
        lines += ["", f"From {grown[0]:,} to {grown[1]:,} files the peak grew by {grown[2]:+.1%}: {grown[3]:.0f} bytes a file."]
    return lines


def growth(entry):
    """(fewest files, most files, relative growth of the peak, bytes a file), or None."""
    peaks = {count: entry.get(f"paceline/{count}", {}).get("peak_rss") for count in SMALL_FILES}
    measured = sorted(count for count, peak in peaks.items() if peak)
    if len(measured) < 2:
        return None
    few, many = measured[0], measured[-1]
    more = peaks[many] - peaks[few]
    return few, many, more / peaks[few], more / (many - few)


QUALITY_LINES = [
    ("default", "JPEG, default decoding", "Paceline's unencoded full decode"),
    ("full", "JPEG, --full-decode", "Paceline's unencoded full decode"),
    ("default_scaled", "the same, only photos decoded to a smaller scale: default", "Paceline's unencoded full decode"),
    ("full_scaled", "the same, only photos decoded to a smaller scale: --full-decode", "Paceline's unencoded full decode"),
    ("raw_scaled", "unencoded, only photos decoded to a smaller scale: default", "Paceline's unencoded full decode"),
]


def quality(entry, markdown):
    lines = heading(f"quality: {TITLES['quality']}", markdown)
    if "error" in entry:
        return lines + ["failed: " + entry["error"]]
    body = []
    for key, what, against in QUALITY_LINES:
        if key in entry:
            body.append(quality_cells(what, entry[key], against))
    for filter in ("bilinear", "bicubic", "lanczos"):
        found = entry.get(f"pillow_{filter}")
        if found:
            against = f"Pillow, full decode and {filter.upper()}"
            body.append(quality_cells("unencoded, --full-decode", found["reference"], against))
            body.append(quality_cells("unencoded, default decoding", found["raw"], against))
    return lines + table(["image", "mean dB", "min dB", "images", "PSNR against"], body, markdown)


def quality_cells(what, found, against):
    return [what, f"{found['mean']:.2f}", f"{found['min']:.2f}", str(found["count"]), against]


def checks(result):
    """[(met: True, False or None when there is no figure, text)] of all requirements."""
    found = figures.checks(result["rows"], REQUIRED)
    entry = result["rows"].get("quality")
    if entry is not None:
        for key, what in (("", "all photos"), ("_scaled", "photos decoded to a smaller scale")):
            name = f"quality: at most {MOST_LOST_DB:g} dB lost, {what}"
            ours, full = entry.get("default" + key), entry.get("full" + key)
            if ours and full:
                lost = full["mean"] - ours["mean"]
                found.append((lost <= MOST_LOST_DB, f"{name}: {lost:.2f} dB of {ours['count']} images"))
            else:
                found.append((None, f"{name}: no figure"))
    entry = result["rows"].get("memory")
    if entry is not None:
        grown = growth(entry)
        name = "memory: does not grow with the number of files"
        text = f"{grown[2]:+.1%} from {grown[0]:,} to {grown[1]:,} (up to {MOST_GROWTH:.0%} counts as none)" if grown else "no figure"
        found.append((grown[2] <= MOST_GROWTH if grown else None, f"{name}: {text}"))
    return found


def draw(result, markdown=False):
    """The whole report."""
    options = result["options"]
    lines = []
    if markdown:
        lines += [
            "# Data, side by side",
            "",
            f"Written by `bench/data/run --markdown` on {result['date']}: {options['repeats']} rounds in random order (seed "
            f"{options['seed']}), page cache warm, 2 threads or processes each. Spread is (max − min) / median over the rounds; "
            f"ratios are medians of the ratios within a round. The time of `paceline prepare` is that of its whole process; of the peers only "
            f"the work is timed, without interpreter, imports, session and warming up. See README.md for what each configuration does.",
        ]
    lines += heading("Machine", markdown) + tables.bullets(tables.machine(result["machine"]), markdown)
    for name in TITLES:
        if name not in result["rows"]:
            continue
        entry = result["rows"][name]
        lines += quality(entry, markdown) if name == "quality" else row(name, entry, markdown)
    return "\n".join(lines + tables.required(checks(result), markdown)).lstrip("\n") + "\n"
