#!/usr/bin/env python3
"""Tests of the pure parts: python3 bench/cnn/test_cnn.py (standard library only)."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import models  # noqa: E402
import paceline  # noqa: E402
import report  # noqa: E402
from rows import BATCHES, GROWING, PACELINE, ROWS, SCALING  # noqa: E402
from scaling import SUBJECTS  # noqa: E402

MACHINE = dict(cpu="c", cores=2, vector="", memory_gb=1, kernel="k", commit="x", load_before=0.0)


def entry(*rates, **more):
    return {"samples": [r and 1 / r for r in rates], "peak_rss": 1e9, **more}


def result(rows):
    return {"date": "2000-01-01", "options": {"repeats": 1, "budget": 1, "seed": 1}, "machine": MACHINE, "rows": rows}


def said(rows):
    """{beginning of a requirement: met} of a result."""
    return {text.split(":")[0]: met for met, text in report.checks(result(rows))}


class Models(unittest.TestCase):
    def test_flops_by_hand(self):
        # AlexNet's first convolution: 55×55 outputs of 64 channels, each over 11×11×3 values; no data gradient.
        first = 2 * 2 * 55 * 55 * 64 * 11 * 11 * 3
        rest = models.flops("alexnet", 224) - first
        forward = 27 * 27 * 192 * 64 * 25 + 13 * 13 * 9 * (384 * 192 + 256 * 384 + 256 * 256)
        forward += 9216 * 4096 + 4096 * 4096 + 4096 * 1000
        self.assertEqual(rest, 3 * 2 * forward)

    def test_residual_blocks_count_their_shortcut(self):
        # 1.81 GFLOP forward at 224×224 (multiplications and additions apart: 3.63), as published.
        self.assertAlmostEqual(models.flops("resnet18", 224) / 3 / 1e9, 3.6, delta=0.1)


class Requirements(unittest.TestCase):
    def test_speed_is_best_over_best(self):
        row = {
            "paceline/single/1": entry(50),
            "paceline/single/2": entry(100),
            "torch/eager-nhwc/2": entry(40),
            "tensorflow/step-nhwc/2": entry(50),
        }
        name = ROWS[0].name
        (met, text), *_ = report.checks(result({name: row}))
        self.assertTrue(met)
        self.assertIn("2.00× (tensorflow/step-nhwc/2)", text)
        row["tensorflow/step-nhwc/2"] = entry(70)
        self.assertFalse(report.checks(result({name: row}))[0][0])

    def test_memory_is_compared_with_the_leanest_pytorch(self):
        row = {"paceline/single/2": entry(1, peak_rss=5e8), "torch/a/1": entry(1, peak_rss=9e8), "torch/b/1": entry(1, peak_rss=8e8)}
        met, text = report.checks(result({ROWS[1].name: row}))[1]
        self.assertFalse(met)
        self.assertIn("62%", text)

    def test_growth(self):
        grows = dict(zip([r.name for r in GROWING], [entry(r) for r in (10, 12, 15, 15, 14.9, 16)]))
        key = "AlexNet examples/s grow with the batch and do not fall"
        self.assertTrue(said({BATCHES: grows})[key])
        grows[GROWING[-1].name] = entry(12)
        self.assertFalse(said({BATCHES: grows})[key])

    def test_scaling_and_missing_figures(self):
        rows = {SCALING: {SUBJECTS[0]: entry(100), SUBJECTS[1]: entry(96), SUBJECTS[2]: entry(None, error="no")}}
        self.assertEqual([met for met, _ in report.checks(result(rows))], [True, None])

    def test_a_refusal_is_not_a_failure(self):
        row = {"tensorflow/step-nchw/1": {"samples": [None], "error": "Refused: only supports NHWC"}}
        text = report.draw(result({ROWS[0].name: row}), markdown=True)
        self.assertIn("| Refused: only supports NHWC |", text)
        self.assertIn("no figure", text)


class Records(unittest.TestCase):
    def test_steps_after_the_first_ones_count(self):
        with tempfile.TemporaryDirectory() as folder:
            split = lambda s, wait: {"input": 0.0, "compute": s - wait, "wait": wait}  # noqa: E731
            steps = [
                {"kind": "step", "rank": rank, "step": i, "batch": 8, "steps": 1, "loss": 2.0 - i, "split": split(5.0 if i < paceline.WARM else 2.0, 0.5 + 0.25 * (rank == i % 2))}
                for i in range(4)
                for rank in (0, 1)
            ]
            Path(folder, "steps.jsonl").write_text("\n".join(map(json.dumps, [{"kind": "steps"}, *steps])))
            Path(folder, "summary.json").write_text(json.dumps({"peak_rss_bytes": 7, "parameters": 3}))
            got = paceline.read_records(folder, 4)
            self.assertEqual((got["seconds"], got["loss"], got["peak_rss"]), (0.25, [2.0, -1.0], 7))
            self.assertEqual(got["split"], {"input": 0.0, "compute": 1.375, "wait": 0.625})
            self.assertEqual(got["exposed"], 0.5)
            with self.assertRaises(paceline.Failed):
                paceline.read_records(folder, 5)

    def test_flags(self):
        text = " ".join(paceline.arguments(ROWS[0], PACELINE["paceline/mirrored/2"], 9, "dir"))
        self.assertIn("data.name=fake:192x192x3:5:256", text)
        self.assertIn("train.epochs=2", text)
        self.assertTrue(text.endswith("--strategy mirrored --replicas 2 --threads 1 --run-dir dir"))


if __name__ == "__main__":
    unittest.main()
