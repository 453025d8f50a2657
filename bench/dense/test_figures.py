#!/usr/bin/env python3
"""Tests of the pure parts: python3 bench/dense/test_figures.py (standard library only)."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import figures  # noqa: E402
import paceline  # noqa: E402
import report  # noqa: E402
from common.figures import Required  # noqa: E402
from rows import ROWS  # noqa: E402


def entry(*samples):
    return {"samples": list(samples), "accuracy": 0.84, "peak_rss": 1e9}


class Figures(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        # The second round was disturbed by a factor of ten for both: no change.
        self.assertEqual(figures.ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]), 2.0)

    def test_a_failed_round_is_left_out(self):
        self.assertEqual(figures.ratio([2.0, None], [1.0, 1.0]), 2.0)
        self.assertIsNone(figures.ratio([None], [1.0]))

    def test_a_requirement_takes_the_best_of_both_sides(self):
        rows = {
            "paceline/single/1": entry(0.2),
            "paceline/single/2": entry(0.1),
            "torch/eager/1": entry(1.0),
            "torch/eager/2": entry(2.0),
            "torch/compile/1": entry(0.5),
        }
        reached, against = figures.check(rows, Required("r", "eager", ("torch/eager/",), 15))
        self.assertAlmostEqual(reached, 10.0)
        self.assertEqual(against, "torch/eager/1")

    def test_flops_of_the_matrix_products(self):
        by_name = {row.name: row for row in ROWS}
        self.assertEqual(by_name["softmax-b10"].flops(), 60_000 * 2 * 2 * 784 * 10)
        self.assertEqual(by_name["mlp-b32"].flops(), 60_000 * (2 * 2 * 784 * 128 + 3 * 2 * 128 * 10))


class Report(unittest.TestCase):
    def test_what_did_not_train_is_named(self):
        result = {
            "date": "2000-01-01",
            "options": {"repeats": 1, "epochs": 1, "seed": 1},
            "machine": dict(cpu="c", cores=2, vector="", memory_gb=1, kernel="k", commit="x", load_before=0.0),
            "rows": {"mlp-b32": {"torch/eager/1": {**entry(1.0), "accuracy": 0.1}}},
        }
        self.assertIn("DID NOT TRAIN", report.draw(result))
        self.assertIn("no figure", report.draw(result, markdown=True))


class CommandLine(unittest.TestCase):
    def test_flags(self):
        line = paceline.arguments(ROWS[0], {"strategy": "mirrored", "replicas": 2, "threads": 1}, 4, "dir")
        text = " ".join(line)
        self.assertTrue(text.startswith("train --set data.name=fashion-mnist"))
        self.assertTrue(text.endswith("--strategy mirrored --replicas 2 --threads 1 --run-dir dir"))

    def test_a_missing_summary_is_a_failure_not_a_zero(self):
        with self.assertRaises(paceline.Failed):
            paceline.read_summary("/nonexistent")


if __name__ == "__main__":
    unittest.main()
