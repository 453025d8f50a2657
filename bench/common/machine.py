"""Facts of the machine and of the programs measured on it."""

import os
import platform
import subprocess
from pathlib import Path

from .program import REPOSITORY


def first_line(path, key):
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def output(*line):
    try:
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def available_memory():
    return int(first_line("/proc/meminfo", "MemAvailable").split()[0]) * 1024


def facts(binary, python, packages):
    """What a reader needs to judge the figures. No host name, no paths.

    `packages` are those of the peers' Python whose versions are told.
    """
    flags = first_line("/proc/cpuinfo", "flags").split()
    found = {
        "cpu": first_line("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "vector": " ".join(f for f in ("avx2", "fma", "avx512f") if f in flags),
        "memory_gb": round(int(first_line("/proc/meminfo", "MemTotal").split()[0]) / 1e6, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": output("git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"),
        "load_before": os.getloadavg()[0],
    }
    if binary:
        found["paceline"] = (output(str(binary), "--version") or "unknown").splitlines()[0].removeprefix("paceline ")
    if python:
        code = f"import importlib.metadata as m\nfor p in {tuple(packages)!r}:\n  print(p, m.version(p))"
        found["peers"] = output(str(python), "-c", code).replace("\n", ", ")
    return found


def note_load(say):
    if os.getloadavg()[0] > 0.5:
        say(f"note: the load average is {os.getloadavg()[0]:.1f}; figures from a busy machine are not worth quoting")
