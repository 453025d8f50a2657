"""Peers as long-lived worker processes, of which only the one that is asked runs.

Importing TensorFlow takes seconds and compiling a graph more, so that a worker lives for a
whole row. Between two requests it is stopped with SIGSTOP: thread pools that spin while idle
cannot disturb the others, and no wait policy has to be changed for that, which would slow a
peer in its own epoch. When the workers together would need more than the memory budget, the
one that was used longest ago is ended; it starts afresh (with an untimed epoch) when its turn
comes again.
"""

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from paceline import Failed

HERE = Path(__file__).resolve().parent


def die_with_parent():
    """A stopped worker must not outlive a killed benchmark (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Worker:
    """One peer configuration in its own process."""

    def __init__(self, python, configuration, row, data, seed):
        threads = configuration["threads"]
        config = {"mode": configuration["mode"], "threads": threads, "data": str(data), "seed": seed}
        config["row"] = row.as_json() if row else None
        env = dict(os.environ)
        env.update(
            OMP_NUM_THREADS=str(threads),
            MKL_NUM_THREADS=str(threads),
            CUDA_VISIBLE_DEVICES="",
            TF_CPP_MIN_LOG_LEVEL="2",
            TORCHINDUCTOR_COMPILE_THREADS="1",  # no pool of compile processes left behind
            PYTHONDONTWRITEBYTECODE="1",
        )
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(python), str(HERE / f"worker_{configuration['framework']}.py"), json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=env,
            preexec_fn=die_with_parent,
        )
        self.used = time.monotonic()
        ready = self.receive()
        self.note, self.rss = ready["note"], ready["rss"]
        self.pause()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

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
        self.process.send_signal(signal.SIGCONT)
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
            self.process.kill()  # nothing to save; works on a stopped process too
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


class Workers:
    """The live workers of one row, within a memory budget in bytes."""

    def __init__(self, python, row, data, seed, memory):
        self.python, self.row, self.data, self.seed, self.memory = python, row, data, seed, memory
        self.live = {}
        self.failed = {}
        self.typical = 1_200_000_000

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.live.values():
            worker.close()

    def get(self, name, configuration):
        if name in self.failed:
            raise Failed(self.failed[name])
        if name not in self.live:
            while self.live and sum(w.rss for w in self.live.values()) + self.typical > self.memory:
                oldest = min(self.live, key=lambda n: self.live[n].used)
                self.live.pop(oldest).close()
            try:
                self.live[name] = Worker(self.python, configuration, self.row, self.data, self.seed)
            except Failed as error:
                self.failed[name] = str(error)
                raise
        return self.live[name]

    def measure(self, name, configuration, epochs, budget):
        worker = self.get(name, configuration)
        try:
            answer = worker.ask(do="epochs", count=epochs, budget=budget)
            answer["note"] = worker.note
            answer.update(worker.ask(do="accuracy"))
        except Failed as error:
            self.failed[name] = str(error)
            self.live.pop(name, None)
            raise
        return answer
