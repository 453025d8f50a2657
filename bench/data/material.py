"""What is worked on: copies of photos, many small files, repeated shards. All in the scratch folder."""

import os
import shutil
from pathlib import Path

from common.program import REPOSITORY, Failed

IMAGES = (".jpg", ".jpeg")


def find(given, flag, variable, name, what):
    """The folder `given` by a flag, else $variable, else ../shared/data/NAME beside the repository."""
    for how, path in ((flag, given), (f"${variable}", os.environ.get(variable))):
        if path:
            if not Path(path).is_dir():
                raise Failed(f"{how} {path}: not a folder; needed is {what}")
            return Path(path)
    beside = REPOSITORY.parent / "shared/data" / name
    if not beside.is_dir():
        raise Failed(f"no data; give {flag} DIR or set {variable} to {what}")
    return beside


def photos(source):
    """{class: [paths]} of a folder with a folder of JPEG files for each class."""
    found = {
        folder.name: sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGES)
        for folder in sorted(source.iterdir())
        if folder.is_dir()
    }
    found = {name: paths for name, paths in found.items() if paths}
    if not found:
        raise Failed(f"{source}: no CLASS/*.jpg in it; it must hold one folder of JPEG files for each class")
    return found


def repeated_photos(source, least, target):
    """Copies the photos into `target` as often as gives `least` files; says how many there are.

    Real copies: links would share one copy in the page cache.
    """
    found = photos(source)
    times = -(-least // sum(map(len, found.values())))
    for name, paths in found.items():
        (target / name).mkdir(parents=True)
        for turn in range(times):
            for path in paths:
                shutil.copyfile(path, target / name / f"{turn:02d}_{path.name}")
    return times * sum(map(len, found.values()))


def repeated_shards(source, least, target):
    """Copies the shards of `source` into `target` until they are `least` bytes; says how many bytes."""
    shards = sorted(path for path in source.iterdir() if path.suffix in (".tfrec", ".tfrecord"))
    size = sum(path.stat().st_size for path in shards)
    if not size:
        raise Failed(f"{source}: no *.tfrec in it")
    times = -(-least // size)
    target.mkdir(parents=True)
    for turn in range(times):
        for path in shards:
            shutil.copyfile(path, target / f"{turn:02d}-{path.name}")
    return times * size


def warm(folder):
    """Reads every file once, so that all find the page cache warm."""
    buffer = bytearray(1 << 20)
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(parent, name), "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


def small_files(originals, count, target, classes=5):
    """`count` hard links in `classes` folders to the files in `originals`."""
    paths = sorted(originals.iterdir())
    for number in range(classes):
        (target / f"class{number}").mkdir(parents=True)
    for number in range(count):
        os.link(paths[number % len(paths)], target / f"class{number % classes}" / f"image-{number:06d}.jpg")
