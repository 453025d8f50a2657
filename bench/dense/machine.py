"""Facts of the machine, and its limits as PyTorch's sgemm reaches them."""

import os
import platform
import subprocess
from pathlib import Path

from paceline import REPOSITORY, Failed
from peers import Worker


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


def facts(binary, python):
    """What a reader needs to judge the figures. No host name, no paths."""
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
        code = "import importlib.metadata as m\nfor p in ('tensorflow-cpu','keras','torch'):\n  print(p, m.version(p))"
        found["peers"] = output(str(python), "-c", code).replace("\n", ", ")
    return found


def limits(python, data, seed, known):
    """sgemm 1024³ in GFLOP/s and the reading of memory in GB/s at 1 and 2 threads, into `known`.

    What is already known is only replaced by something better: a limit is a maximum.
    """
    for threads in (1, 2):
        how = {"framework": "torch", "mode": "machine", "threads": threads}
        try:
            worker = Worker(python, how, None, data, seed)
            answer = worker.ask(do="limits")
            worker.close()
        except Failed:
            continue
        for name, value in (("sgemm_gflops", answer["gflops"]), ("read_gbps", answer["read_gbps"])):
            found = known.setdefault(name, {})
            found[str(threads)] = max(value, found.get(str(threads), 0))
