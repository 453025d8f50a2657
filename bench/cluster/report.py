"""Draws a result as text for the terminal or as Markdown, and says which requirements are reached."""

import figures
from common import figures as shared
from common import tables
from common.tables import heading, table
from subjects import ALLREDUCE, CURVE, HANG_SECONDS, HERE, INDEPENDENT, KILLS, LAB, MATMUL, RATE, RATE_BITS, REQUIRED_HIDDEN, REQUIRED_MATMUL
from subjects import REQUIRED_MEMORY_BOUND, REQUIRED_PLAIN, REQUIRED_RANK, RESTART_SECONDS, TRAINING, TRAININGS

EMPTY = {"samples": []}
ALONE, TWO = "one product alone", "two independent products"


def percent(share):
    return "–" if share is None else f"{share:.1%}"


def middle(values):
    found = shared.summary(values)
    return found[0] if found else None


def failed(entry):
    return "failed: " + entry.get("error", "not run")


def allreduce(entry, markdown):
    body = []
    for subject, e in entry.items():
        got = shared.summary(e["samples"])
        if not got:
            body.append([subject, "–", "–", "–", "–", "–", failed(e)])
            continue
        series = e.get("series", {})
        body.append(
            [
                subject,
                f"{got[0] * 1e3:.1f}",
                f"{e['bytes'] / got[0] / 1e9:.2f}",
                f"{got[2]:.0%}",
                percent(middle(series.get("memory", []))),
                percent(middle(series.get("plain", []))),
                e.get("plain_setting") or "",
            ]
        )
    header = ["all-reduce of 2 ranks", "ms", "GB/s", "spread", "of copying as much", "speed over MPI_Allreduce", "its best setting"]
    return heading("allreduce", markdown) + table(header, body, markdown)


def training(spec, entry, markdown):
    body = []
    for subject in TRAINING:
        e = entry.get(subject, EMPTY)
        got = shared.summary(e["samples"])
        if not got:
            body.append([subject, *["–"] * 8, failed(e)])
            continue
        share = shared.ratio(entry.get(INDEPENDENT, EMPTY)["samples"], e["samples"])
        split, alone = e.get("split") or {}, e.get("alone")
        cells = [f"{split.get('compute', 0):.3f}", f"{split.get('transfer', 0) + split.get('wait', 0):.4f}"]
        cells += [f"{e.get('exposed', 0):.4f}", f"{alone:.4f}", percent(hidden(e))] if alone else ["–", "–", "–"]
        body.append([subject, f"{1 / got[0]:.1f}", f"{got[2]:.0%}", percent(share), *cells, "loss {:.3f} → {:.3f}".format(*e["loss"]) if e.get("loss") else ""])
    header = ["subject", "examples/s", "spread", "of two independent", "compute s/step", "transfer + wait", "of the last rank", "all-reduce alone", "hidden", "note"]
    return heading(f"{spec.name}: {spec.title}", markdown) + table(header, body, markdown) + ["", *statement(spec, entry)]


def hidden(e):
    return figures.hidden(e["exposed"], e["alone"]) if e.get("alone") and e.get("exposed") is not None else None


def statement(spec, entry):
    """How much the network is the limit, in words."""
    e = entry.get(LAB, EMPTY)
    if not e.get("alone") or not e.get("split"):
        return ["No figure for the lab."]
    compute, size = e["split"]["compute"] + e["split"].get("update", 0), figures.gradient_bytes(e["parameters"])
    factor = figures.network_bound(compute, e["alone"])
    least = figures.wire_seconds(size, 2, RATE_BITS)
    text = (
        f"{e['parameters']:,} parameters, {size / 1e6:.1f} MB of gradients: {least:.3f} s on a link of {RATE} at the very least, {e['alone']:.3f} s as measured, "
        f"against {compute:.3f} s of computing a step of {spec.batch} examples."
    )
    if factor > 1:
        text += (
            f" **Network bound {factor:.1f}×**: with perfect overlap {percent(figures.bound_share(compute, e['alone']))} of two independent runs could be reached; "
            f"a batch of {-(-spec.batch * e['alone'] // compute):.0f} on each rank would balance the two."
        )
    else:
        text += f" Not network bound: the link is busy for {percent(factor)} of the computing time."
    return [text]


def curve(entry, dilation, markdown):
    samples = {int(subject.split()[0]): e["samples"] for subject, e in entry.items()}
    bad = [f"{subject}: {failed(e)}" for subject, e in entry.items() if not shared.present(e["samples"])]
    body = []
    for n, rate, over, efficiency in figures.curve(samples, dilation):
        spread = shared.summary(samples[n])[2]
        exposed = entry[f"{n} workers"].get("split") or {}
        share = (exposed.get("transfer", 0) + exposed.get("wait", 0)) / sum(exposed.values()) if exposed else None
        body.append([str(n), f"{rate:.1f}", f"{spread:.0%}", f"{over:.2f}×" if over else "–", percent(efficiency), percent(share), "█" * round((over or 0) * 4)])
    header = ["workers", "examples/s", "spread", "over one", "efficiency", "transfer + wait", ""]
    said = f"flowers-cnn, batch 32 on each worker, hosts of one core at {RATE}, dilation {dilation}: seconds are the lab's own (wall / {dilation})."
    return heading("curve: scaling from 1 to 10 workers", markdown) + table(header, body, markdown) + ["", said, *bad]


def matmul(entry, markdown):
    body = []
    for subject, e in entry.items():
        got = shared.summary(e["samples"])
        if not got:
            body.append([subject, "–", "–", "–", "–", failed(e)])
            continue
        share = shared.ratio(entry.get(TWO, EMPTY)["samples"], e["samples"])
        body.append([subject, f"{1 / got[0] / 1e9:.1f}", f"{got[2]:.0%}", percent(share), percent(rank_share(entry, subject)), f"waited {e.get('waiting', 0):.1%}"])
    header = ["product", "GFLOP/s", "spread", "of two independent", "a rank over one alone", "note"]
    return heading("matmul", markdown) + table(header, body, markdown)


def rank_share(entry, subject):
    """The slowest rank over a product that has the machine to itself."""
    alone = middle(entry.get(ALONE, EMPTY)["samples"])
    rank = entry.get(subject, {}).get("rank_flops")
    return rank * alone if alone and rank else None


def kill_table(records, markdown):
    got = figures.kills(records)
    lines = [
        ["kills", str(got["kills"]), ""],
        ["recovered", str(got["recovered"]), ""],
        ["result equal in bits to the uninterrupted one", str(got["equal"]), ""],
        ["lost more than the work since the last checkpoint", str(got["lost_too_much"]), ""],
        [f"hung for more than {HANG_SECONDS:g} s", str(got["hung"]), ""],
        ["lost steps, most", str(got["lost_steps_max"]), "work since the last checkpoint, done again"],
    ]
    if got["recover_max"] is not None:
        lines.append(["seconds from the kill to the next step, median", f"{got['recover_median']:.1f}", ""])
        lines.append(["seconds from the kill to the next step, most", f"{got['recover_max']:.1f}", ""])
    return heading("kills: kill -9 of a random rank at a random moment", markdown) + table(["", "figure", "note"], lines, markdown)


def judged(title, value, least, shown=percent):
    return (None, f"{title}: no figure") if value is None else (value >= least, f"{title}: {shown(value)}")


def checks(result):
    rows = result["rows"]
    found = []
    for subject, e in rows.get(ALLREDUCE, {}).items():
        series = e.get("series", {})
        if subject.startswith("threads") and "240 MB" in subject:
            found.append(judged(f"{subject}: ≥ {REQUIRED_MEMORY_BOUND:.0%} of copying as much", middle(series.get("memory", [])), REQUIRED_MEMORY_BOUND))
        elif not subject.startswith("threads"):
            found.append(judged(f"{subject}: not slower than MPI_Allreduce at its best", middle(series.get("plain", [])), REQUIRED_PLAIN))
    for spec in TRAININGS:
        entry = rows.get(spec.name)
        if entry is None:
            continue
        for subject, least in spec.required.items():
            share = shared.ratio(entry.get(INDEPENDENT, EMPTY)["samples"], entry.get(subject, EMPTY)["samples"])
            found.append(judged(f"{spec.name}, {subject}: ≥ {least:.0%} of two independent runs", share, least))
        for subject in (HERE, LAB):
            e = entry.get(subject, EMPTY)
            title = f"{spec.name}, {subject}: hides ≥ {REQUIRED_HIDDEN:.0%} of the transfer"
            if e.get("alone") and e.get("split") and not figures.allows(e["split"]["compute"], e["alone"]):
                found.append((None, f"{title}: {percent(hidden(e))}, but there is not enough to compute for that"))
            else:
                found.append(judged(title, hidden(e), REQUIRED_HIDDEN))
    if MATMUL in rows:
        for subject in rows[MATMUL]:
            if subject.startswith("2 ranks"):
                share = shared.ratio(rows[MATMUL].get(TWO, EMPTY)["samples"], rows[MATMUL][subject]["samples"])
                found.append(judged(f"matmul, {subject}: ≥ {REQUIRED_MATMUL:.0%} of two independent products", share, REQUIRED_MATMUL))
                found.append(judged(f"matmul, {subject}: a rank ≥ {REQUIRED_RANK:.0%} of one product alone", rank_share(rows[MATMUL], subject), REQUIRED_RANK))
    if rows.get(KILLS):
        got = figures.kills(rows[KILLS])
        right = got["kills"] == got["recovered"] == got["equal"] and not got["lost_too_much"]
        found.append((right, f"kills: none of {got['kills']} loses more than the work since the last checkpoint, results equal in bits"))
        found.append((not got["hung"], f"kills: none hangs over {HANG_SECONDS:g} s"))
        worst = got["recover_max"]
        found.append((worst is not None and worst < RESTART_SECONDS, f"kills: a restart costs < {RESTART_SECONDS:g} s: at most {worst or 0:.1f} s"))
    return found


def draw(result, markdown=False):
    """The whole report."""
    options, rows, lines = result["options"], result["rows"], []
    if markdown:
        lines += [
            "# Cluster",
            "",
            f"Written by `bench/cluster/run --markdown` on {result['date']}: {options['repeats']} rounds in random order (seed {options['seed']}), "
            f"{options['library']}. Spread is (max − min) / median over the rounds; ratios are medians of the ratios within a round. "
            "See README.md for what each subject is, and lab/README.md for what the lab does and does not model.",
        ]
    lines += heading("Machine", markdown) + tables.bullets(tables.machine(result["machine"]), markdown)
    if rows.get(ALLREDUCE):
        lines += allreduce(rows[ALLREDUCE], markdown)
    for spec in TRAININGS:
        if spec.name in rows:
            lines += training(spec, rows[spec.name], markdown)
    if rows.get(CURVE):
        lines += curve(rows[CURVE], options["dilation"], markdown)
    if rows.get(MATMUL):
        lines += matmul(rows[MATMUL], markdown)
    if rows.get(KILLS):
        lines += kill_table(rows[KILLS], markdown)
    lines += tables.required(checks(result), markdown)
    return "\n".join(lines).lstrip("\n") + "\n"
