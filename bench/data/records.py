"""TFRecord and tf.train.Example in a few lines of Python, for the peers that have no writer of their own.

The Pillow and PySpark peers must not pay for TensorFlow's import or for protobuf's Python
objects, so that their records are joined from bytes: all features but the image are the same for
every image of a class and made once. The reader serves the comparison of quality.
"""

import struct

try:
    from google_crc32c import value as crc32c  # 0.8 µs for 15 kB, a tie with the wheel `crc32c`
except ImportError:  # the report and the tests run without the peers' Python
    crc32c = None


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    """A length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def entry(key, kind, payload):
    """One feature in the map of an Example; kind 1 is bytes, 2 floats, 3 integers."""
    return field(1, field(1, key) + field(2, field(kind, payload)))


def constant_features(index, classes, size):
    """The features `class`, `label`, `size` and `one_hot_class` of every image of one class."""
    hot = struct.pack(f"<{len(classes)}f", *(float(i == index) for i in range(len(classes))))
    return (
        entry(b"class", 3, field(1, varint(index)))
        + entry(b"label", 1, field(1, classes[index].encode()))
        + entry(b"size", 3, field(1, varint(size) * 2))
        + entry(b"one_hot_class", 2, field(1, hot))
    )


def example(image, constant):
    """A serialised Example of encoded image bytes and the constant features of its class."""
    return field(1, entry(b"image", 1, field(1, image)) + constant)


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write(file, record):
    """Appends a record to an open file."""
    length = struct.pack("<Q", len(record))
    file.write(b"".join((length, masked(length), record, masked(record))))


def read(path):
    """The records of a file, checksums not verified."""
    with open(path, "rb") as file:
        while header := file.read(12):
            (length,) = struct.unpack_from("<Q", header)
            yield file.read(length)
            file.read(4)


def fields(data):
    """(number, payload) of the length-delimited fields of a message; others are an error."""
    position = 0

    def number():
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        tag = number()
        if tag & 7 != 2:
            raise ValueError(f"wire type {tag & 7} where a length was expected")
        length = number()
        yield tag >> 3, data[position : position + length]
        position += length


def features(record):
    """{name: payload of its list} of an Example: bytes as they are, packed numbers still packed."""
    found = {}
    for _, feature_map in fields(record):
        for _, pair in fields(feature_map):
            parts = dict(fields(pair))
            for _, values in fields(parts.get(2, b"")):
                found[parts[1].decode()] = next((value for _, value in fields(values)), b"")
    return found
