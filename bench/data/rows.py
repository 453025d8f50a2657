"""What is measured: the rows, the configurations of each row, and the figures required of them."""

from common.figures import Required

SIZE, QUALITY, SHARDS, THREADS, BATCH = 192, 90, 16, 2, 32

#: Files of the row `prepare`, bytes of the row `records`, and the sizes of the row `memory`.
PHOTOS, RECORD_BYTES = 4_000, 500_000_000
SMALL_FILES = (1_000, 10_000, 100_000)
DISTINCT_SMALL_FILES = 200

TITLES = {
    "prepare": f"photos → {SIZE}×{SIZE} crops, JPEG quality {QUALITY}, {SHARDS} TFRecord shards",
    "quality": "how far prepared images are from full decode and antialiased resize",
    "feed": f"records → decoded batches of {BATCH}",
    "decode": "JPEG photos in memory → RGB at full scale, one thread",
    "records": "records from the page cache, checksums verified",
    "memory": "prepare of many small files",
}

#: {row: {configuration: how}}; `framework` names the worker script of a peer.
CONFIGURATIONS = {
    "prepare": {
        "paceline/prepare": {},
        **{f"tf.data/{mode}": {"framework": "tensorflow", "mode": mode}
           for mode in ("ordered-python", "python", "graph", "graph-pool2")},
        "pillow/draft": {"framework": "pillow", "mode": "draft"},
        "pyspark/session": {"framework": "pyspark", "mode": "session"},
        "pyspark/application": {"framework": "pyspark", "mode": "application"},
    },
    "feed": {
        "paceline/feed": {},
        **{f"tf.data/{mode}": {"framework": "tensorflow", "mode": mode}
           for mode in ("sequential", "parallel-reads", "interleave", "batch-per-call", "pool2")},
    },
    "decode": {
        # The names that the example program image_speed gives to its steps.
        "paceline/decode": {"step": "decode"},
        "zune-jpeg/decode": {"step": "decode by zune-jpeg"},
        "libjpeg-turbo/pillow": {"framework": "decode", "mode": "pillow"},
    },
    "records": {
        # The names that the example program records_speed gives to its ways of reading.
        "paceline/scan": {"way": "scan, verified"},
        "paceline/open": {"way": "File::open, verified"},
        "paceline/reader": {"way": "Reader, verified"},
        "page-cache/map-and-copy": {"way": "map and copy"},
        "page-cache/read": {"way": "read into a buffer"},
        "memory/copy": {"framework": "memory", "mode": "copy"},
        **{f"tf.data/{mode}": {"framework": "tensorflow", "mode": mode}
           for mode in ("batches-32", "batches-256", "batches-2048", "buffer-16MB", "parallel-reads")},
    },
    "memory": {f"paceline/{count}": {"count": count} for count in SMALL_FILES},
}

#: What one unit of a row is called in the report, and how many of the units a sample counts make one.
UNITS = {"prepare": ("images/s", 1), "feed": ("images/s", 1), "decode": ("images/s", 1), "records": ("MB/s", 1e-6), "memory": ("images/s", 1)}

REQUIRED = [
    Required("prepare", "tf.data", ("tf.data/",), 2.0),
    Required("prepare", "a pool of Pillow workers in draft mode", ("pillow/",), 2.0),
    Required("prepare", "PySpark local[2] calling Pillow, a program as Paceline's is", ("pyspark/application",), 5.0),
    Required("prepare", "PySpark local[2] calling Pillow, session started before the clock", ("pyspark/session",), 5.0),
    Required("feed", "tf.data's best", ("tf.data/",), 1.5),
    Required("records", "TFRecordDataset", ("tf.data/",), 3.0),
    Required("records", "copying the same bytes out of the page cache", ("page-cache/",), 0.7),
]

#: Quality lost by decoding straight to a smaller scale, in dB of the mean PSNR.
MOST_LOST_DB = 1.0
#: Growth of peak memory from the fewest to the most files that counts as none.
MOST_GROWTH = 0.10
