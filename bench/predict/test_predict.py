#!/usr/bin/env python3
"""Tests of the pure parts: python3 bench/predict/test_predict.py (standard library only)."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases  # noqa: E402
import figures  # noqa: E402


class Figures(unittest.TestCase):
    def test_errors_are_relative_to_what_was_measured(self):
        entries = {("m", "a"): {"predicted": [9.0], "measured": [10.0, 12.0, 8.0]}, ("m", "b"): {"predicted": [3.0], "measured": [None]}}
        rows = figures.table(entries)
        self.assertEqual(rows[0], ("m", "a", 9.0, 10.0, 0.1))
        self.assertIsNone(rows[1][4])
        self.assertAlmostEqual(figures.mean_error(rows), 0.1)
        self.assertIsNone(figures.mean_error([]))

    def test_orders_count_only_within_a_model_and_where_steps_are_apart(self):
        row = lambda model, predicted, measured: (model, "", predicted, measured, 0.0)  # noqa: E731
        rows = [row("m", 1.0, 1.0), row("m", 5.0, 2.0), row("m", 0.5, 1.2), row("n", 9.0, 1.0)]
        # 1–2 kept, 1–1.2 too near, 2–1.2 kept.
        self.assertEqual(figures.orders(rows), (2, 2))
        self.assertEqual(figures.orders([row("m", 2.0, 1.0), row("m", 1.0, 2.0)]), (0, 1))

    def test_the_class_that_is_off(self):
        predicted = [{"compute": 3.0, "wait": 1.0, "transfer": 0.0, "update": None}]
        measured = [{"compute": 3.5, "wait": 2.0, "transfer": 1.0}]
        self.assertEqual(figures.off(predicted, measured), ("communication", 2.0))


class Cases(unittest.TestCase):
    def test_there_are_sixteen(self):
        all_of = cases.cases()
        self.assertEqual(len(all_of), 16)
        self.assertEqual(len({(model.name, layout) for model, layout, _ in all_of}), 16)

    def test_words(self):
        words = cases.arguments(cases.MODELS[1], "2 threads", 7, "c.toml", "run")
        self.assertEqual(words[words.index("--cluster") + 1], "c.toml")
        self.assertIn("mirrored", words)
        self.assertIn("train.max_steps=7", words)
        self.assertNotIn("mirrored", cases.arguments(cases.MODELS[1], "2 hosts", 7, "c.toml", "run"))


if __name__ == "__main__":
    unittest.main()
