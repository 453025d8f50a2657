"""Paceline's programs: the one place that knows their flags and what they print."""

import json
import os
import re
import subprocess
import tempfile
import time

from common.processes import Watch
from common.program import Failed
from rows import QUALITY, SHARDS, THREADS


def arguments(source, destination, run_dir, size, *extra):
    """The command line of `prepare` after the program's name."""
    line = ["prepare", str(source), str(destination), "--size", str(size), "--fit", "crop", "--shards", str(SHARDS)]
    if "--raw" not in extra:
        line += ["--quality", str(QUALITY)]
    return [*line, "--threads", str(THREADS), "--quiet", "--json", "--run-dir", str(run_dir), *extra]


def run(line):
    """Runs a program to its end: (what it printed, seconds, processor seconds, peak resident bytes)."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        begin = time.perf_counter()
        process = subprocess.Popen([str(word) for word in line], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        with Watch(process.pid, alone=True) as watch:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            said = [text.strip() for text in err if text.strip()]
            raise Failed(f"exit code {process.returncode}: {said[-1][:200] if said else 'no message'}")
        return out.read(), seconds, usage.ru_utime + usage.ru_stime, watch.peak_rss


def prepare(binary, source, destination, run_dir, size, *extra):
    """One run of `prepare`: the figures of a configuration; seconds are those of the whole process."""
    text, seconds, cpu, peak = run([binary, *arguments(source, destination, run_dir, size, *extra)])
    try:
        summary = json.loads(text)
        images = sum(shard["records"] for shard in index(destination)["shards"])
        note = f"says {summary['examples_per_s']:,.0f} images/s itself"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(f"no usable summary or index ({error!r})") from None
    return {"seconds": seconds, "units": images, "cpu": cpu, "peak_rss": peak, "note": note}


def index(destination):
    return json.loads((destination / "index.json").read_text())


EPOCH = re.compile(r"^epoch (\d+): .*?([\d.]+) s\b", re.M)
SAMPLES = re.compile(r"^(\d+) samples", re.M)


def feed_figures(text):
    """(images, seconds) over the epochs after the first, from what feed_speed prints."""
    epochs = {int(number): float(seconds) for number, seconds in EPOCH.findall(text)}
    samples = SAMPLES.search(text)
    timed = [seconds for number, seconds in epochs.items() if number > 0]
    if not samples or not timed:
        raise Failed("feed_speed printed no epochs")
    return int(samples[1]) * len(timed), sum(timed)


def feed(program, shards, epochs):
    """`epochs` timed epochs after one that warms up."""
    text, _, cpu, peak = run([program, shards, THREADS, epochs + 1])
    images, seconds = feed_figures(text)
    cpu = cpu * epochs / (epochs + 1)  # that of the first one is in the total
    return {"seconds": seconds, "units": images, "cpu": cpu, "peak_rss": peak}


STEP = re.compile(r"^(.+?)\s+([\d.]+) µs/image", re.M)
COUNT = re.compile(r"^(\d+) images \(0 passed over\)", re.M)


def decode(program, photos, size, passes):
    """{step: figures} of one run of image_speed: of each photo the fastest of `passes` passes, like the peers."""
    text, _, _, peak = run([program, photos, size, passes])
    count = COUNT.search(text)
    if not count:
        raise Failed("image_speed passed over some photos; give a folder of good ones")
    images = int(count[1])
    return {name: {"seconds": float(each) * 1e-6 * images, "units": images, "peak_rss": peak} for name, each in STEP.findall(text)}


WAY = re.compile(r"^(.+?)\s+([\d.]+) MB/s", re.M)


def record_ways(text):
    """{way of reading: MB/s} from what records_speed prints."""
    return {name: float(rate) for name, rate in WAY.findall(text)}


def records(program, shards, passes):
    """{way: figures} of one run: the best of `passes` passes, like the peers."""
    text, _, _, peak = run([program, shards, max(passes - 1, 0)])
    ways = record_ways(text)
    if not ways:
        raise Failed("records_speed printed no figures")
    return {name: {"seconds": 1e-6 / rate, "units": 1, "peak_rss": peak} for name, rate in ways.items()}
