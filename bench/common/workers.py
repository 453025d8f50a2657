"""Peers as long-lived worker processes, of which only the one that is asked runs.

Importing TensorFlow takes seconds and compiling a graph more, so that a worker lives for a
whole row. Between two requests it is stopped with SIGSTOP, with all processes of its group:
thread pools that spin while idle cannot disturb the others, and no wait policy has to be changed
for that, which would slow a peer in its own turn.
"""

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import time

from .program import Failed


def die_with_parent():
    """A stopped worker must not outlive a killed benchmark (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def own_group():
    die_with_parent()
    os.setpgid(0, 0)


class Worker:
    """A Python script in its own process, asked in JSON lines (see serving.py for its side)."""

    def __init__(self, python, script, config, threads, environment=None):
        env = dict(os.environ)
        env.update(
            OMP_NUM_THREADS=str(threads),
            MKL_NUM_THREADS=str(threads),
            CUDA_VISIBLE_DEVICES="",
            TF_CPP_MIN_LOG_LEVEL="2",
            PYTHONDONTWRITEBYTECODE="1",
            **(environment or {}),
        )
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(python), str(script), json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=env,
            preexec_fn=own_group,
        )
        self.used = time.monotonic()
        ready = self.receive()
        self.note, self.rss = ready["note"], ready["rss"]
        self.pause()

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass  # it has ended; receive() says why

    def pause(self):
        self.signal(signal.SIGSTOP)

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            said = [text.strip() for text in self.log if text.strip()]
            self.close()
            raise Failed(f"the worker ended without an answer: {said[-1][:200] if said else 'no message'}")
        answer = json.loads(line)
        if "error" in answer:
            self.close()
            raise Failed(answer["error"])
        return answer

    def ask(self, **request):
        """Wakes the worker, asks, and stops it again after the answer."""
        self.used = time.monotonic()
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # receive() says why
        answer = self.receive()
        self.rss = answer.get("rss", self.rss)
        self.pause()
        return answer

    def close(self):
        if self.process.returncode is None:
            self.signal(signal.SIGKILL)  # nothing to save; works on stopped processes too
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


class Workers:
    """The live workers of one row, within a memory budget in bytes; `start(name)` makes one.

    When the workers together would need more than the budget, the one that was used longest ago
    is ended; it starts afresh when its turn comes again. One that failed is not tried again.
    """

    #: What a worker is assumed to need before it has said so.
    TYPICAL = 1_200_000_000

    def __init__(self, start, memory):
        self.start, self.memory = start, memory
        self.live = {}
        self.failed = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.live.values():
            worker.close()

    def get(self, name):
        if name in self.failed:
            raise Failed(self.failed[name])
        if name not in self.live:
            while self.live and sum(w.rss for w in self.live.values()) + self.TYPICAL > self.memory:
                oldest = min(self.live, key=lambda n: self.live[n].used)
                self.live.pop(oldest).close()
            try:
                self.live[name] = self.start(name)
            except Failed as error:
                self.failed[name] = str(error)
                raise
        return self.live[name]

    def use(self, name, action):
        """`action(worker)` with the worker called `name`."""
        worker = self.get(name)
        try:
            return action(worker)
        except Failed as error:
            self.failed[name] = str(error)
            self.live.pop(name, None)
            raise
