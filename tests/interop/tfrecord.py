"""The TensorFlow side of tfrecord.sh: read, write or compare records in a folder."""

import json
import os
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

PACKINGS = {"plain": "", "gzip": "GZIP", "zlib": "ZLIB"}


def shown(feature):
    """A feature as expected.json has it."""
    kind = feature.WhichOneof("kind")
    if kind == "bytes_list":
        return {"bytes": [value.hex() for value in feature.bytes_list.value]}
    if kind == "int64_list":
        return {"ints": [str(value) for value in feature.int64_list.value]}
    # Python makes a double of each float, which quiets a signalling NaN: the bits come from the message itself.
    packed = feature.float_list.SerializeToString()
    count = len(feature.float_list.value)
    return {"floats": list(struct.unpack(f"<{count}I", packed[len(packed) - 4 * count :]))}


def read(folder):
    expected = json.load(open(f"{folder}/expected.json"))
    for name, packing in [("", ""), (".gz", "GZIP"), (".zlib", "ZLIB")]:
        path = f"{folder}/examples.tfrecord{name}"
        examples = []
        for record in tf.data.TFRecordDataset(path, compression_type=packing):
            example = tf.train.Example.FromString(record.numpy())
            examples.append({key: shown(value) for key, value in example.features.feature.items()})
        assert len(examples) == len(expected), f"{path}: {len(examples)} records"
        for index, (found, wanted) in enumerate(zip(examples, expected)):
            assert found.keys() == wanted.keys(), f"{path} record {index}: {found.keys() ^ wanted.keys()}"
            for key in wanted:
                assert found[key] == wanted[key], f"{path} record {index}, feature {key}"
        print(f"TensorFlow {tf.__version__} reads examples.tfrecord{name}: {len(examples)} Examples, to the bit")


def write(folder):
    for name, packing in PACKINGS.items():
        with tf.io.TFRecordWriter(f"{folder}/{name}.tfrecord", options=packing) as writer:
            for n in range(9):
                features = {
                    "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[n, -n, 2**63 - 1])),
                    "f": tf.train.Feature(float_list=tf.train.FloatList(value=[n / 3, float("inf")])),
                    "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * n])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def compare(folder):
    for name in PACKINGS:
        info = json.load(open(f"{folder}/{name}.json"))
        assert info["kind"] == "records" and info["content"] == "example", info
        assert info["records"] == 9 and info["files"][0]["packing"] == name, info
        kinds = {feature["name"]: (feature["kind"], feature["values"]["sum"]) for feature in info["features"]}
        assert kinds == {"n": ("ints", 27), "f": ("floats", 18), "s": ("bytes", 9)}, kinds
        for n, record in enumerate(info["first"]):
            values = dict(record["features"])
            assert values["n"] == f"[{n}, {-n}, {2**63 - 1}]", values
            assert values["s"] == json.dumps("x" * n), values
            first, last = values["f"].strip("[]").split(", ")
            assert struct.pack("<f", float(first)) == struct.pack("<f", n / 3) and last == "inf", values
        print(f"paceline data info reads what TensorFlow {tf.__version__} wrote, {name}")


{"read": read, "write": write, "compare": compare}[sys.argv[1]](sys.argv[2])
