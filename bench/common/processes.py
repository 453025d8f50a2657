"""Peak memory and processor time of a process and all its descendants, from /proc."""

import os
import threading
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid):
    """`pid` and all its descendants that live now."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass  # ended meanwhile
    return found


def sizes(pid):
    """{field: bytes} of VmRSS and VmHWM; empty when the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmRSS:", "VmHWM:"))}


def cpu_seconds(pid):
    """Processor seconds of the tree, with those of children that have ended and were waited for."""
    total = 0
    for one in tree(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return total / TICKS


class Watch:
    """`with Watch(pid) as watch: …`, then `watch.peak_rss` and `watch.cpu`.

    The peak is the largest sum of resident sizes in samples taken 20 times a second; pages that
    forked processes share are counted in each of them. With `alone`, for a process that lives only for
    this measurement, the kernel's high-water mark is read instead as long as it has no children.
    `cpu` needs a process that still lives at the end.
    """

    def __init__(self, pid, alone=False):
        self.pid, self.alone = pid, alone
        self.peak_rss = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)

    def sample(self):
        while True:
            pids = tree(self.pid)
            field = "VmHWM" if self.alone and len(pids) == 1 else "VmRSS"
            self.peak_rss = max(self.peak_rss, sum(sizes(pid).get(field, 0) for pid in pids))
            if self.over.wait(0.05):
                return

    def __enter__(self):
        self.before = cpu_seconds(self.pid)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.cpu = cpu_seconds(self.pid) - self.before
