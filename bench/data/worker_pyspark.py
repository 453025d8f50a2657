"""PySpark's worker: local[N], an RDD of paths, one partition a shard, Pillow in the Python workers.

Mode `session`: the session is started and a job has run before the clock, so that the Python workers are there.
Mode `application`: each run is a program of its own, from the interpreter's start to the session's end, as a person
who types a command waits for it and as Paceline is measured.
"""

import json

import os
import subprocess
import sys

import worker

HERE = os.path.dirname(os.path.abspath(__file__))


def shard(number, items, destination, count, constant, size, quality):
    """Runs in Spark's Python workers."""
    import photo

    yield photo.write_shard(worker.shard_path(destination, number, count), list(items), constant, size, quality)


def warm(_, items):
    import photo  # noqa: F401

    yield len(list(items))


def build(config):
    return application(config) if config["mode"] == "application" else session(config)


def application(config):
    """Every request starts this script anew."""

    def run(request):
        words = json.dumps({"config": {**config, "mode": "session"}, "request": request})
        done = subprocess.run([sys.executable, __file__, "application", words], stdout=subprocess.PIPE, check=True)
        # Processes that come and go escape the watch: no processor time is claimed for them.
        return {"units": int(done.stdout.split()[-1]), "cpu": 0}

    return "start of the session included", run


def session(config):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
    import records
    from pyspark import SparkConf, SparkContext

    settings = SparkConf().setMaster(f"local[{config['threads']}]").setAppName("bench").setAll([
        ("spark.ui.enabled", "false"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        # Between its turns the whole peer is stopped; that must not look like a lost executor.
        ("spark.executor.heartbeatInterval", "1h"),
        ("spark.network.timeout", "10h"),
    ])
    context = SparkContext(conf=settings)
    context.setLogLevel("ERROR")
    size, quality, shards = config["size"], config["quality"], config["shards"]
    items, classes = worker.listing(config["source"])
    constant = [records.constant_features(i, classes, size) for i in range(len(classes))]
    context.parallelize(range(64), 2 * config["threads"]).mapPartitionsWithIndex(warm).collect()

    def run(request):
        destination = request["destination"]

        def task(number, part):
            return shard(number, part, destination, shards, constant, size, quality)

        return sum(context.parallelize(items, shards).mapPartitionsWithIndex(task).collect())

    return "", run


if __name__ == "__main__":
    # Spark's Python workers must find these functions by name.
    import worker_pyspark

    if sys.argv[1:2] == ["application"]:
        words = json.loads(sys.argv[2])
        print(worker_pyspark.session(words["config"])[1](words["request"]))
    else:
        worker.serve(worker_pyspark.build)
