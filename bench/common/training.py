"""`paceline train` as a process: its command line, and waiting for its records. What is read of them is the benchmark's own."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .program import Failed
from .workers import die_with_parent

FLAGS = ("strategy", "device", "replicas", "threads")


def line(settings, how, run_dir):
    """The command line of one run after the program's name: keys to set, and flags by their names."""
    words = ["train"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    for flag in FLAGS:
        if flag in how:
            words += [f"--{flag}", str(how[flag])]
    return [*words, "--run-dir", str(run_dir)]


class Process:
    """One training process; start several to have them run at the same time."""

    def __init__(self, launcher, arguments):
        """`launcher` is the binary, or the words of a command line before `train`; `arguments(run_dir)` are those after it."""
        self.folder = Path(tempfile.mkdtemp(prefix="paceline-bench-"))
        words = launcher if isinstance(launcher, (list, tuple)) else [launcher]
        self.log = open(self.folder / "log", "w+")
        self.process = subprocess.Popen(
            [*map(str, words), *arguments(self.folder / "run")],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            preexec_fn=die_with_parent,
        )

    def wait(self, read):
        """Waits, and returns `read(run_dir)`, a dict, with its peak_rss filled in if the records have none."""
        try:
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            if self.process.returncode != 0:
                self.log.seek(0)
                said = [text.strip() for text in self.log if text.strip()]
                raise Failed(f"exit code {self.process.returncode}: {said[-1][:300] if said else 'no message'}")
            answer = read(self.folder / "run")
            answer["peak_rss"] = answer["peak_rss"] or usage.ru_maxrss * 1024
            return answer
        finally:
            self.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def together(runs):
    """What each of several runs that were started at the same time gives; all are waited for before an error is raised."""
    results, errors = [], []
    for run in runs:
        try:
            results.append(run.finish())
        except Failed as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return results
