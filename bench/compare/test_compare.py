#!/usr/bin/env python3
"""Tests of the pure parts: python3 bench/compare/test_compare.py (standard library only)."""

import random
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from compare import ROWS, Failed, Row, custom, figure, figures, median_interval, run_once, tensors, translated, verdict  # noqa: E402

OLD = """format = 1

[[machine]]
cpu = "c"

[[machine.convs]]
pass = "forward"
algorithm = "direct"
"""


class Bits(unittest.TestCase):
    def test_tensors_are_read_by_name_and_metadata_is_left_out(self):
        header = b'{"__metadata__":{"by":"x"},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            path.write_bytes(len(header).to_bytes(8, "little") + header + b"AAAABBBB")
            self.assertEqual(tensors(path), {"a": ("F32", [1], b"AAAA"), "b": ("F32", [1], b"BBBB")})

    def test_figures_have_no_times(self):
        summary = {"test_loss": 0.5, "seconds_total": 3.0, "epochs": [{"epoch": 1, "step": 9, "train_loss": 0.25, "seconds": 2.0}]}
        found = figures(summary)
        self.assertEqual((found["epoch 1 train_loss"], found["test_loss"], found["test_accuracy"]), (0.25, 0.5, None))
        self.assertFalse([key for key in found if "seconds" in key])


class Intervals(unittest.TestCase):
    def test_ranks_are_those_of_the_tables(self):
        # Published ranks of the 95 % interval of a median: 6 values (1, 6), 21 (6, 16), 41 (14, 28), counted from 1.
        for n, low, high in [(6, 1, 6), (21, 6, 16), (41, 14, 28)]:
            self.assertEqual(median_interval(range(1, n + 1)), (low, high), n)
        with self.assertRaises(Failed):
            median_interval(range(5))

    def test_it_holds_the_median_as_often_as_it_says(self):
        source = random.Random(7)
        held = 0
        for _ in range(2000):
            low, high = median_interval([source.lognormvariate(0, 1) for _ in range(21)])
            held += low <= 1 <= high
        self.assertGreater(held / 2000, 0.95)

    def test_a_disturbed_round_cancels_out(self):
        old = [1.0] * 15 + [4.0] * 6
        found = verdict(old, [x * 1.01 for x in old], 1.03)
        self.assertAlmostEqual(found["ratio"], 1.01)
        self.assertTrue(found["met"])

    def test_a_slower_program_is_found_and_noise_is_not_hidden(self):
        self.assertFalse(verdict([1.0] * 21, [1.05] * 21, 1.03)["met"])
        wide = verdict([1.0] * 21, [0.9, 1.1] * 10 + [1.0], 1.03)
        self.assertFalse(wide["met"])
        self.assertAlmostEqual(wide["ratio"], 1.0)


class Rows(unittest.TestCase):
    def test_every_row_asks_for_json(self):
        self.assertTrue(all("--json" in arguments for arguments in ROWS.values()))

    def test_a_typed_row(self):
        self.assertEqual(custom("epoch: train --json", "seconds_train"), Row("epoch", "train --json", "seconds_train"))
        for wrong in ["train --json", ": train", "epoch:"]:
            with self.assertRaises(Failed):
                custom(wrong, "seconds")

    def test_only_a_positive_number_is_a_figure(self):
        self.assertEqual(figure('{"seconds": 2}', "seconds"), 2.0)
        for wrong in ["", "[]", "{}", '{"seconds": null}', '{"seconds": 0}', '{"seconds": "1"}']:
            with self.assertRaises(Failed):
                figure(wrong, "seconds")

    def test_choices_take_the_format_of_their_reader(self):
        text = translated(OLD, "format = 2\n")
        self.assertIn("format = 2\n", text)
        self.assertIn("[[machine.convs]]\nsettled = true\nspread = 0.0\npass", text)
        self.assertEqual(translated(text, "format = 2\n"), text)
        with self.assertRaises(Failed):
            translated(OLD, "")

    def test_a_program_gets_a_cache_and_a_new_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            program.write_text('#!/bin/sh\ntest ! -e "$1" && mkdir "$1" && test -n "$PACELINE_CACHE" && echo \'{"seconds": 3}\'\n')
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            row = Row("r", "{dir}", "seconds")
            self.assertEqual([run_once(program, row, Path(folder) / "old") for _ in range(2)], [3.0, 3.0])
            with self.assertRaises(Failed):
                run_once(program, Row("r", "/", "seconds"), Path(folder) / "old")


if __name__ == "__main__":
    unittest.main()
