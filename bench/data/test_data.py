#!/usr/bin/env python3
"""Tests of the pure parts: python3 bench/data/test_data.py (standard library only)."""

import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import material  # noqa: E402
import paceline  # noqa: E402
import records  # noqa: E402
import report  # noqa: E402
import worker  # noqa: E402
from common import processes  # noqa: E402
from common.program import Failed  # noqa: E402

MACHINE = dict(cpu="c", cores=2, vector="", memory_gb=1, kernel="k", commit="x", load_before=0.0)


def result(**rows):
    return {"date": "2000-01-01", "options": {"repeats": 2, "seed": 1}, "machine": MACHINE, "rows": rows}


def entry(*samples, rss=1e8):
    return {"samples": list(samples), "peak_rss": rss}


def psnr(mean):
    return {"mean": mean, "min": mean - 5, "count": 4}


class Examples(unittest.TestCase):
    CLASSES = ["daisy", "roses"]

    def test_an_example_has_the_bytes_that_protobuf_gives_it(self):
        # tf.train.Example with the one feature `image` = b"ab", serialised by TensorFlow 2.21.
        self.assertEqual(records.example(b"ab", b"").hex(), "0a110a0f0a05696d61676512060a040a026162")

    def test_features_come_back(self):
        constant = records.constant_features(1, self.CLASSES, 192)
        image = bytes(range(256)) * 80
        found = records.features(records.example(image, constant))
        self.assertEqual(found["image"], image)
        self.assertEqual(found["label"], b"roses")
        self.assertEqual(found["class"], b"\x01")
        self.assertEqual(found["size"], b"\xc0\x01\xc0\x01")
        self.assertEqual(found["one_hot_class"].hex(), "000000000000803f")

    def test_records_come_back(self):
        with tempfile.NamedTemporaryFile() as file:
            for record in (b"", b"one", b"x" * 300):  # with any checksum: the reader here skips it
                file.write(len(record).to_bytes(8, "little") + b"....")
                file.write(record + b"....")
            file.flush()
            self.assertEqual([len(record) for record in records.read(file.name)], [0, 3, 300])


class Parts(unittest.TestCase):
    def test_parts_hold_everything_once_in_order(self):
        for count in (1, 3, 16, 40):
            parts = worker.parts(list(range(37)), count)
            self.assertEqual(len(parts), count)
            self.assertEqual([i for part in parts for i in part], list(range(37)))
            self.assertLessEqual(max(map(len, parts)) - min(map(len, parts)), 1)


class Material(unittest.TestCase):
    def test_photos_are_repeated_to_at_least_the_number_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            for name in ("a", "b"):
                (source / name).mkdir(parents=True)
                for number in range(3):
                    (source / name / f"{number}.jpg").write_bytes(b"x")
            self.assertEqual(material.repeated_photos(source, 13, Path(folder) / "out"), 18)
            items, classes = worker.listing(Path(folder) / "out")
            self.assertEqual((len(items), classes), (18, ["a", "b"]))
            self.assertEqual(sum(number for _, number in items), 9)

    def test_a_folder_without_classes_is_named(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(Failed, "one folder of JPEG files"):
            material.photos(Path(folder))


class Programs(unittest.TestCase):
    def test_raw_images_have_no_quality(self):
        self.assertIn("--quality 90", " ".join(paceline.arguments("s", "d", "r", 192)))
        self.assertNotIn("--quality", paceline.arguments("s", "d", "r", 192, "--raw"))

    def test_the_first_epoch_of_the_feed_does_not_count(self):
        text = (
            "3670 samples of Shape([192, 192, 3]), 2 threads\n"
            "epoch 0: 100 images/s, 36.700 s (check 1)\n"
            "epoch 1: 1000 images/s, 3.670 s (check 2)\n"
            "epoch 2: 3670 images/s, 1.000 s (check 3)\n"
        )
        self.assertEqual(paceline.feed_figures(text), (7340, 4.67))
        with self.assertRaises(Failed):
            paceline.feed_figures("epoch 0: 100 images/s, 36.700 s")

    def test_ways_of_reading_records(self):
        text = "map and copy               9000 MB/s   1.00 × copy         –\nscan, verified             8100 MB/s   0.90 × copy      3670 records\n"
        self.assertEqual(paceline.record_ways(text), {"map and copy": 9000.0, "scan, verified": 8100.0})

    def test_memory_of_this_process_is_seen(self):
        self.assertIn(processes.os.getpid(), processes.tree(processes.os.getpid()))
        with processes.Watch(processes.os.getpid()) as watch:
            held = bytearray(64 << 20)
            held[::4096] = b"x" * len(held[::4096])
            deadline = time.monotonic() + 20
            while watch.peak_rss <= 64 << 20 and time.monotonic() < deadline:
                time.sleep(0.01)  # the watch samples now and then
        self.assertGreater(watch.peak_rss, 64 << 20)


class Decode(unittest.TestCase):
    def test_steps_are_read_from_what_image_speed_prints(self):
        text = "3 images (0 passed over), 100 kpixels and 40 KB each\ndecode    1000.0 µs/image  40.0 MB/s\ndecode by zune-jpeg   1500.5 µs/image   26.7 MB/s\n"
        with unittest.mock.patch.object(paceline, "run", lambda line: (text, 1.0, 1.0, 5)):
            steps = paceline.decode("image_speed", "photos", 192, 3)
        self.assertEqual(sorted(steps), ["decode", "decode by zune-jpeg"])
        self.assertAlmostEqual(steps["decode"]["seconds"], 3e-3)
        self.assertEqual(steps["decode"]["units"], 3)
        with unittest.mock.patch.object(paceline, "run", lambda line: (text.replace("(0", "(1"), 1.0, 1.0, 5)), self.assertRaises(Failed):
            paceline.decode("image_speed", "photos", 192, 3)


class Report(unittest.TestCase):
    def test_requirements_are_judged_on_ratios_within_a_round(self):
        rows = {
            "paceline/prepare": entry(1.0, 10.0),
            "tf.data/graph": entry(2.5, 25.0),
            "tf.data/python": entry(4.0, 40.0),
            "pillow/draft": entry(1.5, 15.0),
            "pyspark/session": entry(None, None),
        }
        met = {text.split("× ")[1].split(":")[0]: met for met, text in report.checks(result(prepare=rows))}
        self.assertEqual(list(met.values()), [True, False, None, None])
        self.assertIn("2.50× (tf.data/graph)", report.draw(result(prepare=rows)))

    def test_seventy_percent_of_copying(self):
        rows = {"paceline/scan": entry(1.4), "page-cache/read": entry(1.0), "page-cache/map-and-copy": entry(2.0)}
        self.assertIn((True, "records: 0.7× copying the same bytes out of the page cache: 0.71× (page-cache/read)"),
                      report.checks(result(records=rows)))

    def test_growth_is_taken_from_the_fewest_to_the_most_files(self):
        rows = {"paceline/1000": entry(1.0, rss=1e7), "paceline/10000": entry(1.0, rss=5e7), "paceline/100000": entry(1.0, rss=1.2e7)}
        few, many, grown, bytes_a_file = report.growth(rows)
        self.assertEqual((few, many), (1_000, 100_000))
        self.assertAlmostEqual(grown, 0.2)
        self.assertAlmostEqual(bytes_a_file, 2e6 / 99_000)
        self.assertEqual([met for met, _ in report.checks(result(memory=rows))], [False])

    def test_quality_lost(self):
        quality = {"default": psnr(40.0), "full": psnr(40.5), "default_scaled": psnr(38.0), "full_scaled": psnr(40.5)}
        self.assertEqual([met for met, _ in report.checks(result(quality=quality))], [True, False])
        self.assertIn("38.00", report.draw(result(quality=quality), markdown=True))


if __name__ == "__main__":
    unittest.main()
