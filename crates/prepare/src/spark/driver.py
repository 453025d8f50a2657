"""Submitted by `paceline ... --engine spark`: runs the program once for every partition of a list of tasks.

Spark schedules, retries and speculates. A partition's tasks go to the program as lines on its standard input, and the
lines that it prints come back. The program writes what it makes under a temporary name and renames it, so running a
task twice, or half, does no harm.

Works with PySpark 3.5 and 4.x. What it prints are events, one JSON object a line, each after the mark below: Spark may
print lines of its own.
"""

import json
import os
import socket
import subprocess
import sys
import time

from pyspark import SparkConf, SparkContext, SparkFiles, TaskContext

MARK = "paceline-event "


def say(**event):
    print(MARK + json.dumps(event), flush=True)


def run_partition(program, arguments):
    """A function for mapPartitionsWithIndex: the program over the tasks of one partition."""

    def run(index, tasks):
        tasks = list(tasks)
        if not tasks:
            return
        path = SparkFiles.get(program)
        if not os.access(path, os.X_OK):
            os.chmod(path, 0o755)
        begin = time.time()
        context = TaskContext.get()
        child = subprocess.run(
            [path] + arguments,
            input="".join(task + "\n" for task in tasks).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        words = child.stderr.decode(errors="replace").strip()
        where = socket.gethostname()
        if child.returncode == 2:
            # Wrong input: trying again would not help, so this is an answer and not a failure of the task.
            yield json.dumps({"partition": index, "host": where, "wrong": words})
            return
        if child.returncode != 0:
            raise RuntimeError("partition %d on %s: exit code %d: %s" % (index, where, child.returncode, words[-2000:]))
        yield json.dumps(
            {
                "partition": index,
                "host": where,
                "attempt": context.attemptNumber() if context else 0,
                "tasks": len(tasks),
                "seconds": time.time() - begin,
                "lines": child.stdout.decode().splitlines(),
            }
        )

    return run


def cores_of(context):
    """The cores of the cluster. Executors register one after another: wait until the number has settled."""
    context.parallelize([0], 1).count()
    last, since, begin = 0, time.time(), time.time()
    while time.time() - begin < 20:
        now = context.defaultParallelism
        if now != last:
            last, since = now, time.time()
        elif time.time() - since > 2:
            break
        time.sleep(0.2)
    return max(last, 1)


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    context = SparkContext(conf=SparkConf().setAppName(request["name"]))
    context.setLogLevel("WARN")
    context.addFile(request["program"])
    say(event="connected", master=context.master, version=context.version)
    cores = cores_of(context)
    tasks = request["tasks"]
    wanted = request["partitions"] or 3 * cores
    partitions = max(1, min(wanted, len(tasks)))
    say(event="started", cores=cores, wanted=wanted, partitions=partitions, tasks=len(tasks))
    # Round robin over partitions: a partition that fails early loses little, and long tasks are spread.
    dealt = [tasks[i::partitions] for i in range(partitions)]
    spread = context.parallelize(dealt, partitions).flatMap(lambda part: part)
    run = run_partition(os.path.basename(request["program"]), request["arguments"])
    for line in spread.mapPartitionsWithIndex(run).collect():
        say(event="partition", **json.loads(line))
    say(event="done")
    context.stop()


if __name__ == "__main__":
    main()
