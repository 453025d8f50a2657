"""Compares prepared images: record by record with Paceline's unencoded full decode, and with Pillow's.

All folders were made with the same seed, so that record i of each is the same photo. Which photo it
is, for Pillow, is found by likeness within its class: records do not carry file names.
"""

import io
import os

import numpy as np
import records
import worker
from PIL import Image


def images(folder):
    """[(label, pixels)] of all shards of a folder, decoded where they are encoded."""
    found = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith((".tfrec", ".tfrecord")):
            continue
        for record in records.read(os.path.join(folder, name)):
            features = records.features(record)
            image = features["image"]
            if image[:2] == b"\xff\xd8":
                pixels = np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))
            else:
                height, width = integers(features["size"])
                pixels = np.frombuffer(image, np.uint8).reshape(height, width, 3)
            found.append((features["label"].decode(), pixels))
    return found


def integers(packed):
    """The numbers of a packed list of varints."""
    values, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            value = shift = 0
    return values


def psnr(one, other):
    """Peak signal-to-noise ratio of two u8 images in dB; 99 when they are equal."""
    error = np.mean((one.astype(np.float64) - other) ** 2)
    return 99.0 if error == 0 else float(10 * np.log10(255**2 / error))


def by_pillow(path, size, filter):
    """Full decode, centre crop and antialiased resize by Pillow."""
    with Image.open(path) as image:
        image = image.convert("RGB")
        edge = min(image.size)
        left, top = (image.size[0] - edge) / 2, (image.size[1] - edge) / 2
        return np.asarray(image.resize((size, size), filter, box=(left, top, left + edge, top + edge)))


def thumbnail(pixels):
    return np.asarray(Image.fromarray(pixels).resize((16, 16), Image.Resampling.BOX), np.float32).ravel()


def figures(values):
    return {"mean": float(np.mean(values)), "min": float(np.min(values)), "count": len(values)}


def compare(request, size):
    reference, raw = images(request["reference"]), images(request["raw"])
    encoded, full = images(request["default"]), images(request["full"])
    labels = [[label for label, _ in one] for one in (reference, raw, encoded, full)]
    if any(one != labels[0] for one in labels):
        raise ValueError("the folders do not hold the same records in the same order")
    out = {"units": len(reference)}
    of_default = np.array([psnr(a, b) for (_, a), (_, b) in zip(encoded, reference)])
    of_full = np.array([psnr(a, b) for (_, a), (_, b) in zip(full, reference)])
    differs = np.array([not np.array_equal(a, b) for (_, a), (_, b) in zip(raw, reference)])
    out["default"], out["full"] = figures(of_default), figures(of_full)
    if differs.any():
        unencoded = [psnr(raw[i][1], reference[i][1]) for i in np.flatnonzero(differs)]
        out["default_scaled"], out["full_scaled"] = figures(of_default[differs]), figures(of_full[differs])
        out["raw_scaled"] = figures(unencoded)

    items, classes = worker.listing(request["source"])
    for filter in (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS):
        found = {name: [] for name in classes}
        for path, number in items:
            found[classes[number]].append(by_pillow(path, size, filter))
        small = {name: np.stack([thumbnail(p) for p in made]) for name, made in found.items()}
        against = {"reference": [], "raw": []}
        for (label, ours), (_, scaled) in zip(reference, raw):
            nearest = np.argmin(((small[label] - thumbnail(ours)) ** 2).sum(1))
            against["reference"].append(psnr(ours, found[label][nearest]))
            against["raw"].append(psnr(scaled, found[label][nearest]))
        out[f"pillow_{filter.name.lower()}"] = {name: figures(values) for name, values in against.items()}
    return out


def build(config):
    return "", lambda request: compare(request, config["size"])


if __name__ == "__main__":
    worker.serve(build)
