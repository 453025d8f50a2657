"""Peak memory of a process and all its descendants, sampled from /proc."""

import threading
from pathlib import Path


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


def status(pid):
    """{field: bytes} of the memory fields of /proc/PID/status; empty when the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmRSS:", "VmHWM:"))}


class Peak:
    """`with Peak(pid) as peak: …; peak.bytes`: the largest sum of the resident sizes, 20 times a second.

    Pages that forked processes share are counted in each of them. A process without children is
    told exactly by the kernel's own high-water mark, when `alone` says that it lives only for this
    measurement.
    """

    def __init__(self, pid, alone=False):
        self.pid, self.alone = pid, alone
        self.bytes = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while True:
            pids = tree(self.pid)
            field = "VmHWM" if self.alone and len(pids) == 1 else "VmRSS"
            self.bytes = max(self.bytes, sum(status(pid).get(field, 0) for pid in pids))
            if self.over.wait(0.05):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
