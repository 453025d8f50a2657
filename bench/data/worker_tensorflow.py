"""tf.data's worker: preparing images, feeding training, and reading records.

Where there are several ways to write the pipeline, each is a mode of its own and the report
takes the fastest as the peer.

prepare  The image is cropped to its central square before it is resized, which is less work than
         resizing all of it and cropping then (and the same picture). Resizing is tf.image.resize at
         its defaults (bilinear, no antialias). `ordered` keeps the order of the files, the others
         do not; `python` joins the Example in the consuming loop, `graph` inside the parallel map,
         where lengths come from a table of varints, so that Python only hands bytes to the writers.
feed     Images as u8 batches of 32 with their class; no shuffling, no scaling to floats.
records  Batches of records, so that Python is called rarely. Counting the records inside the graph
         (`reduce`) instead is three times slower: a function call for each of them.
"""

import os
import time

import numpy as np
import tensorflow as tf

import records
import worker

AUTOTUNE = tf.data.AUTOTUNE


def options(dataset, ordered=False, pool=None):
    chosen = tf.data.Options()
    chosen.deterministic = ordered
    if pool:
        chosen.threading.private_threadpool_size = pool
    return dataset.with_options(chosen)


class Prepare:
    MODES = {
        "ordered-python": dict(ordered=True, graph=False),
        "python": dict(ordered=False, graph=False, batch=True),
        "graph": dict(ordered=False, graph=True, batch=True),
        "graph-pool2": dict(ordered=False, graph=True, batch=True, pool=2),
    }

    def __init__(self, config):
        self.how = self.MODES[config["mode"]]
        self.size, self.quality, self.shards = config["size"], config["quality"], config["shards"]
        items, classes = worker.listing(config["source"])
        self.count = len(items)
        self.constant = [records.constant_features(i, classes, self.size) for i in range(len(classes))]
        if self.how["graph"]:
            # Varints of three bytes each, over-long where fewer would do: lengths stay simple sums.
            n = np.arange(1 << 18)
            table = np.stack([n & 127 | 128, n >> 7 & 127 | 128, n >> 14], 1).astype(np.uint8)
            self.varints = tf.constant([bytes(row) for row in table])
            self.tails = tf.constant(self.constant)
            self.tail_lengths = tf.constant([len(c) for c in self.constant])
        paths, numbers = zip(*items)
        dataset = tf.data.Dataset.from_tensor_slices((list(paths), list(numbers)))
        step = self.example if self.how["graph"] else lambda path, number: (self.image(path), number)
        dataset = dataset.map(step, num_parallel_calls=AUTOTUNE)
        if self.how.get("batch"):
            dataset = dataset.batch(32)
        self.dataset = options(dataset.prefetch(AUTOTUNE), self.how["ordered"], self.how.get("pool"))
        for _ in self.dataset.take(2):
            pass  # traced and initialised once before the clock

    def image(self, path):
        pixels = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        shape = tf.shape(pixels)
        edge = tf.minimum(shape[0], shape[1])
        pixels = tf.slice(pixels, [(shape[0] - edge) // 2, (shape[1] - edge) // 2, 0], [edge, edge, 3])
        pixels = tf.cast(tf.round(tf.image.resize(pixels, [self.size, self.size])), tf.uint8)
        return tf.io.encode_jpeg(pixels, quality=self.quality)

    def example(self, path, number):
        image = self.image(path)
        tail = tf.gather(self.tails, number)

        def varint(length):
            return tf.gather(self.varints, length)

        length = tf.strings.length(image)
        values = length + 4  # tag and length of the bytes in their list
        feature = values + 4
        pair = feature + 4 + 7  # with the key, `image`
        whole = pair + 4 + tf.gather(self.tail_lengths, number)
        parts = [varint(whole), b"\x0a", varint(pair), b"\x0a\x05image\x12", varint(feature), b"\x0a", varint(values)]
        return tf.strings.join([b"\x0a", *parts, b"\x0a", varint(length), image, tail])

    def elements(self):
        for element in self.dataset.as_numpy_iterator():
            if self.how["graph"]:
                yield from element
            elif self.how.get("batch"):
                for image, number in zip(*element):
                    yield records.example(image, self.constant[number])
            else:
                yield records.example(element[0], self.constant[element[1]])

    def run(self, request):
        elements, done = self.elements(), 0
        for shard in range(self.shards):
            end = (shard + 1) * self.count // self.shards
            with tf.io.TFRecordWriter(worker.shard_path(request["destination"], shard, self.shards)) as writer:
                while done < end:
                    writer.write(next(elements))
                    done += 1
        assert next(elements, None) is None
        return done


FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}


class Feed:
    MODES = {
        "sequential": dict(reads=None),
        "parallel-reads": dict(reads=AUTOTUNE),
        "interleave": dict(reads="interleave"),
        "batch-per-call": dict(reads=None, fused=True),
        "pool2": dict(reads=None, pool=2),
    }

    def __init__(self, config):
        how = self.MODES[config["mode"]]
        batch, files = config["batch"], record_files(config["shards"])
        if how["reads"] == "interleave":
            dataset = tf.data.Dataset.from_tensor_slices(files)
            dataset = dataset.interleave(tf.data.TFRecordDataset, num_parallel_calls=AUTOTUNE)
        else:
            dataset = tf.data.TFRecordDataset(files, num_parallel_reads=how["reads"], buffer_size=4 << 20)
        if how.get("fused"):
            # One parallel call decodes a whole batch: less overhead for each element.
            dataset = dataset.batch(batch).map(self.whole_batch, num_parallel_calls=AUTOTUNE)
        else:
            dataset = dataset.map(self.single, num_parallel_calls=AUTOTUNE).batch(batch)
        self.dataset = options(dataset.prefetch(AUTOTUNE), pool=how.get("pool"))
        self.epochs = config["epochs"]
        self.epoch()

    def decode(self, image):
        return tf.io.decode_jpeg(image, channels=3)

    def single(self, record):
        parsed = tf.io.parse_single_example(record, FEATURES)
        return self.decode(parsed["image"]), parsed["class"]

    def whole_batch(self, batch):
        parsed = tf.io.parse_example(batch, FEATURES)
        images = tf.map_fn(self.decode, parsed["image"], fn_output_signature=tf.uint8, parallel_iterations=1)
        return images, parsed["class"]

    def epoch(self):
        images = 0
        for batch, _ in self.dataset:
            images += batch.shape[0]
        return images

    def run(self, request):
        return sum(self.epoch() for _ in range(self.epochs))


def record_files(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith((".tfrec", ".tfrecord")))


class Records:
    MODES = {
        "batches-32": dict(batch=32),
        "batches-256": dict(batch=256),
        "batches-2048": dict(batch=2048),
        "buffer-16MB": dict(batch=256, buffer=16 << 20),
        "parallel-reads": dict(batch=256, reads=2),
    }

    def __init__(self, config):
        how = self.MODES[config["mode"]]
        files = record_files(config["shards"])
        self.bytes, self.passes = sum(map(os.path.getsize, files)), config["passes"]
        dataset = tf.data.TFRecordDataset(files, buffer_size=how.get("buffer"), num_parallel_reads=how.get("reads"))
        self.dataset = options(dataset.batch(how["batch"]).prefetch(2))
        self.records = self.once()

    def once(self):
        return sum(int(batch.shape[0]) for batch in self.dataset)

    def run(self, request):
        """The best of a few passes: Paceline's side counts its best pass too."""
        best = float("inf")
        for _ in range(self.passes):
            begin = time.perf_counter()
            if self.once() != self.records:
                raise ValueError("a pass gave another number of records")
            best = min(best, time.perf_counter() - begin)
        return {"seconds": best, "units": self.bytes, "share": 1 / self.passes}


def build(config):
    tf.config.threading.set_intra_op_parallelism_threads(config["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(config["threads"])
    one = {"prepare": Prepare, "feed": Feed, "records": Records}[config["row"]](config)
    return "", one.run


if __name__ == "__main__":
    worker.serve(build)
