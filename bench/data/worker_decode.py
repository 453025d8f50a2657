"""The row `decode`: libjpeg-turbo, as Pillow brings and calls it, on photos that lie in memory. One thread.

Beside the decoding itself a call of Pillow makes an image and copies it there; for a photo of half a megapixel
that is a few percent.
"""

import io
import time
from pathlib import Path

from PIL import Image, features

import worker


def build(config):
    photos = [path.read_bytes() for path in sorted(Path(config["source"]).rglob("*.jpg"))]

    def decode(photo):
        with Image.open(io.BytesIO(photo)) as image:
            image.convert("RGB") if image.mode != "RGB" else image.load()

    for photo in photos[:8]:
        decode(photo)

    def run(request):
        # Of each photo the fastest of the passes, as image_speed does.
        fastest = [float("inf")] * len(photos)
        for _ in range(config["passes"]):
            for number, photo in enumerate(photos):
                begin = time.perf_counter()
                decode(photo)
                fastest[number] = min(fastest[number], time.perf_counter() - begin)
        return {"seconds": sum(fastest), "units": len(photos), "share": 1 / config["passes"]}

    return f"libjpeg-turbo {features.version('libjpeg_turbo')}, one thread", run


if __name__ == "__main__":
    worker.serve(build)
