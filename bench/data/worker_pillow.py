"""Pillow's worker: a pool of processes, each of which writes whole shards."""

import multiprocessing

import photo
import records
import worker
from common.workers import die_with_parent


def build(config):
    size, quality, shards = config["size"], config["quality"], config["shards"]
    items, classes = worker.listing(config["source"])
    constant = [records.constant_features(i, classes, size) for i in range(len(classes))]
    for path, _ in items[:8]:
        photo.shrunk(path, size, quality)  # plug-ins and tables are loaded before the fork

    def run(request):
        tasks = [
            (worker.shard_path(request["destination"], number, shards), part, constant, size, quality)
            for number, part in enumerate(worker.parts(items, shards))
        ]
        # Forking this small process takes milliseconds, and none is left behind between the turns.
        with multiprocessing.get_context("fork").Pool(config["threads"], die_with_parent) as pool:
            done = sum(pool.starmap(photo.write_shard, tasks, chunksize=1))
            pool.close()
            pool.join()
        return done

    return "", run


if __name__ == "__main__":
    worker.serve(build)
