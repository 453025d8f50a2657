"""What bench/compare/run is made of: rows, one run of a program, and figures of paired samples (pure, tested by test_compare.py)."""

import json
import math
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from statistics import median


class Failed(Exception):
    """A program that did not give a figure, or a row that is not one."""


@dataclass(frozen=True)
class Row:
    name: str
    arguments: str
    field: str


def kernels(model, batch, threads, repeats, more=""):
    return f"bench kernels --json --model {model} --batch {batch} --threads {threads} --repeats {repeats} {more}".strip()


# A step of each network, kernel by kernel, short enough for many rounds.
ROWS = {
    f"{name}-{threads}": kernels(model, batch, threads, repeats, more)
    for name, model, batch, repeats, more in [
        ("flowers-cnn", "flowers-cnn", 16, 3, ""),
        ("alexnet", "alexnet", 8, 3, ""),
        ("resnet18", "resnet18", 8, 3, "--input 64x64x3"),
        ("lenet", "lenet", 64, 15, ""),
        ("mlp", "mlp", 128, 60, ""),
    ]
    for threads in (1, 2)
}


def custom(text, field):
    """A row as typed: NAME: ARGUMENTS."""
    name, colon, arguments = text.partition(":")
    if not colon or not name.strip() or not arguments.strip():
        raise Failed(f"--row {text!r} is not NAME: ARGUMENTS, such as 'epoch: train --json --run-dir {{dir}}'")
    return Row(name.strip(), arguments.strip(), field)


def run_once(program, row, folder):
    """One figure of a program, which has a cache folder of its own; {dir} in its arguments is a folder that does not exist yet."""
    fresh = folder / "run"
    shutil.rmtree(fresh, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [word.replace("{dir}", str(fresh)) for word in shlex.split(row.arguments)]
    environment = {**os.environ, "PACELINE_CACHE": str(folder / "cache")}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode != 0:
        raise Failed(f"{program} {row.arguments}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return figure(done.stdout, row.field)


def figure(text, field):
    try:
        value = json.loads(text)[field]
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"no number {field!r} in what it printed: {error!r}") from error
    if not isinstance(value, (int, float)) or not value > 0:
        raise Failed(f"{field} is {value!r}, not a positive number")
    return float(value)


def train_once(program, words, folder):
    """Trains into folder/run, with a cache folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PACELINE_CACHE": str(folder / "cache")}
    arguments = [*shlex.split(words), "--quiet", "--run-dir", str(folder / "run")]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode != 0:
        raise Failed(f"{program} {words}: {done.stderr.strip() or f'exit code {done.returncode}'}")


def tensors(path):
    """The tensors of a safetensors file: name to (type, shape, bytes). What else its header says may differ."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def figures(summary):
    """What training computed, of a summary: no times, no machine."""
    keys = ["epoch", "step", "train_loss", "train_accuracy", "val_loss", "val_accuracy"]
    found = {f"epoch {epoch['epoch']} {key}": epoch.get(key) for epoch in summary["epochs"] for key in keys}
    return {**found, "test_loss": summary.get("test_loss"), "test_accuracy": summary.get("test_accuracy")}


def same_choices(old, new):
    """Gives the new program the kernels that the old one chose, in its own format; nothing if the row has none."""
    source, target = old / "kernels.toml", new / "kernels.toml"
    if source.exists() and target.exists():
        target.write_text(translated(source.read_text(), target.read_text()))
    elif source.exists() != target.exists():
        raise Failed("one program measured kernels and the other did not: they do not run the same row")


def translated(choices, like):
    """Choices of one version in the format of another: its number, and that they are settled, which older versions do not know."""
    number = re.search(r"^format = (\d+)$", like, re.M)
    if not number:
        raise Failed("kernels.toml without a format")
    text = re.sub(r"^format = \d+$", f"format = {number[1]}", choices, flags=re.M)
    text = re.sub(r"^(settled|spread) = .*\n", "", text, flags=re.M)
    return text.replace("[[machine.convs]]\n", "[[machine.convs]]\nsettled = true\nspread = 0.0\n")


def median_interval(values, sure=0.95):
    """The order statistics between which the median of what was sampled lies with at least this probability."""
    values, n = sorted(values), len(values)
    below, at = 0.0, None
    for k in range(n // 2):
        below += math.comb(n, k) / 2**n
        if 2 * below > 1 - sure:
            break
        at = k
    if at is None:
        raise Failed(f"{n} rounds are too few for an interval of {sure:.0%}")
    return values[at], values[n - 1 - at]


def verdict(old, new, limit):
    ratios = [b / a for a, b in zip(old, new, strict=True)]
    low, high = median_interval(ratios)
    return {
        "old_median": median(old),
        "new_median": median(new),
        "ratio": median(ratios),
        "low": low,
        "high": high,
        "met": high <= limit,
    }


def line(cells):
    widths = [16, 10, 10, 7, 15, 12]
    return "  ".join(c.ljust(w) if i in (0, 4, 5) else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()
