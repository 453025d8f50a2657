"""How a job is started: on this machine, over MPI here, or on the hosts of a lab. The one place that knows launch, lab and mpirun."""

import json
import os
import shutil
import subprocess

import paceline
from common.program import REPOSITORY, RELEASE, Failed
from common.training import together

LAB = REPOSITORY / "lab"
NAME = "bench"
WORKER = {"strategy": "multi-worker-mirrored", "threads": 1}
#: mpirun and how it is told that two processes may have two cores, also as root in a container.
MPIRUN = {
    "Open MPI": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
    "MPICH": ["mpirun.mpich"],
}

COMPILER = {"Open MPI": "mpicc.openmpi", "MPICH": "mpicc.mpich"}


def run(line, seconds=1800, **more):
    """A command's standard output; `Failed` with its last words if it fails."""
    try:
        done = subprocess.run([*map(str, line)], capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, **more)
    except subprocess.TimeoutExpired:
        raise Failed(f"{line[0]} took more than {seconds} s") from None
    except OSError as error:
        raise Failed(f"{line[0]}: {error.strerror}") from None
    if done.returncode != 0:
        said = [text.strip() for text in (done.stderr + done.stdout).splitlines() if text.strip()]
        raise Failed(f"{line[0]} ended with {done.returncode}: {said[-1][:300] if said else 'no message'}")
    return done.stdout


class Lab:
    """`with Lab(hosts, …) as lab:` a lab for the time of a row. Its name is its own, so that it disturbs no other."""

    def __init__(self, hosts, *options):
        self.line = [LAB / "up", "--hosts", hosts, "--name", NAME, *options]

    def __enter__(self):
        if os.geteuid() != 0:
            raise Failed("hosts of the lab are namespaces, which only root can make; leave out the rows that need them")
        run([LAB / "down", "--name", NAME])
        run(self.line)
        return self

    def __exit__(self, *_):
        run([LAB / "down", "--name", NAME])

    def on(self, host):
        """Words before a command that is to run on one host."""
        return [LAB / "run", "--on", f"{NAME}{host}"]

    def over(self, hosts):
        """Words before a launcher that is to use the first `hosts` hosts, one process on each."""
        return [LAB / "run", "--name", NAME, "--only", ",".join(map(str, range(hosts)))]


def launched(binary, processes=None, lab=None):
    """Words before `train …`: over `processes` on this machine, each kept to one core, or over the first hosts of a lab."""
    if lab:
        return [*lab.over(processes), binary, "launch", "--"]
    one_core = [f"--mpirun-arg={word}" for word in ("-bind-to", "core")]  # both libraries take it
    return [binary, "launch", "--np", processes, *one_core, "--"]


def independent(launchers, row, steps, how=lambda core: {"strategy": "single", "threads": 1}):
    """(seconds per example of all together, results) of runs that know nothing of each other."""
    results = together([paceline.Run(words, row, how(core), steps) for core, words in enumerate(launchers)])
    return 1 / sum(1 / result["seconds"] for result in results), results


def build(library, what, say):
    """The folder of release builds with this MPI library in them, after building `what` there.

    The crate mpi is built for one library, so that MPICH has a folder of its own, as in ./test.
    """
    needs(MPIRUN[library][0], COMPILER[library])
    target = RELEASE.parent / "mpich" if library == "MPICH" else RELEASE.parent
    line = ["cargo", "build", "--release", "--quiet", "--features", "mpi", *what]
    say("building: " + " ".join(line))
    run(line, cwd=REPOSITORY, env={**os.environ, "MPICC": COMPILER[library], "CARGO_TARGET_DIR": str(target)})
    return target / "release"


def lines_of_json(text):
    """The JSON objects among the lines of an output; launchers write other things too."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found


def needs(*commands):
    for command in commands:
        if not shutil.which(command):
            raise Failed(f"{command} is missing; Debian: apt-get install openmpi-bin libopenmpi-dev libclang-dev iproute2")
