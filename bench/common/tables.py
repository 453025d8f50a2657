"""Tables, headings and lists, as text for the terminal or as Markdown."""


def table(header, lines, markdown):
    """A table whose first and last columns are text and whose others are figures."""
    if markdown:
        rule = ["---"] + ["---:"] * (len(header) - 2) + ["---"]
        return ["| " + " | ".join(cells) + " |" for cells in [header, rule, *lines]]
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    out = []
    for cells in [header, ["-" * w for w in widths], *lines]:
        padded = [c.ljust(w) if i in (0, len(cells) - 1) else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))]
        out.append("  ".join(padded).rstrip())
    return out


def heading(text, markdown):
    return ["", f"## {text}" if markdown else text, ""]


def bullets(lines, markdown):
    return [("- " if markdown else "  ") + line for line in lines]


def machine(facts):
    """Lines that say on what and with which versions was measured."""
    return [
        f"{facts['cpu']}, {facts['cores']} cores, {facts['vector']}, {facts['memory_gb']} GB, Linux {facts['kernel']}",
        f"Paceline {facts.get('paceline', 'not measured')} at {facts['commit']}; peers: {facts.get('peers', 'none')}",
        "load average before the start: " + f"{facts['load_before']:.2f}",
    ]


def required(found, markdown):
    """The closing list of [(met: True, False or None when there is no figure, text)]."""
    if not found:
        return []
    word = {True: "met", False: "SHORT", None: "?"}
    return heading("Required", markdown) + bullets([f"{word[met]:5} {text}" for met, text in found], markdown)
