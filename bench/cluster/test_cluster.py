#!/usr/bin/env python3
"""Tests of the pure parts: python3 bench/cluster/test_cluster.py (standard library only)."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "cnn")]

import figures  # noqa: E402
import jobs  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
from subjects import ALLREDUCE, CURVE, HERE as LOCAL, INDEPENDENT, KILLS, LAB, MATMUL  # noqa: E402

MACHINE = dict(cpu="c", cores=2, vector="", memory_gb=1, kernel="k", commit="x", load_before=0.0)


def entry(*rates, **more):
    return {"samples": [r and 1 / r for r in rates], **more}


def result(rows):
    options = {"repeats": 1, "seed": 1, "library": "Open MPI", "dilation": 5}
    return {"date": "2000-01-01", "options": options, "machine": MACHINE, "rows": rows}


def said(rows):
    return {text.rsplit(":", 1)[0]: met for met, text in report.checks(result(rows))}


def kill(**more):
    return {"recover_s": 2.0, "equal": True, "start_step": 40, "checkpoint_step": 40, "hung": False, "lost_steps": 7, **more}


class Figures(unittest.TestCase):
    def test_hidden_share(self):
        self.assertAlmostEqual(figures.hidden(0.2, 1.0), 0.8)
        self.assertEqual(figures.hidden(2.0, 1.0), 0.0)  # waiting longer than the exchange takes hides nothing
        self.assertIsNone(figures.hidden(0.2, 0.0))

    def test_the_wire(self):
        # 240 MB between two at 1.92 Gbit/s: each sends all of it once.
        self.assertAlmostEqual(figures.wire_seconds(240e6, 2, 1.92e9), 1.0)
        self.assertAlmostEqual(figures.wire_seconds(240e6, 4, 1.92e9), 1.5)
        self.assertEqual(figures.wire_seconds(240e6, 1, 1.92e9), 0.0)

    def test_bounds(self):
        self.assertEqual(figures.network_bound(0.5, 2.0), 4.0)
        self.assertEqual(figures.bound_share(0.5, 2.0), 0.25)
        self.assertEqual(figures.bound_share(2.0, 0.5), 1.0)
        self.assertTrue(figures.allows(1.0, 2.0))
        self.assertFalse(figures.allows(0.9, 2.0))

    def test_the_curve_is_in_the_labs_time(self):
        # One worker: 0.5 s for an example on the wall at dilation 5 is 10 examples/s in the lab.
        got = figures.curve({2: [0.25, 0.3, 0.2], 1: [0.5, None]}, 5)
        self.assertEqual([(n, round(rate, 6), over, efficiency) for n, rate, over, efficiency in got], [(1, 10.0, 1.0, 1.0), (2, 20.0, 2.0, 1.0)])
        self.assertEqual(figures.curve({4: [0.1]}, 1), [(4, 10.0, None, None)])

    def test_kills(self):
        records = [kill(), kill(recover_s=4.0, lost_steps=9), kill(recover_s=None, equal=False, hung=True, start_step=None)]
        got = figures.kills(records)
        self.assertEqual((got["recovered"], got["equal"], got["hung"], got["lost_steps_max"], got["recover_max"]), (2, 2, 1, 9, 4.0))
        self.assertEqual(figures.kills([kill(start_step=20)])["lost_too_much"], 1)


class Answers(unittest.TestCase):
    def test_json_among_other_lines(self):
        text = 'warning {"a":\n{"seconds": 0.5}\n{broken\n'
        self.assertEqual(jobs.lines_of_json(text), [{"seconds": 0.5}])

    def test_matmul(self):
        text = 'note\n{"layouts": [{"run": null}, {"run": {"flops": [1e9, 2e9], "waiting": [0.1, 0.2]}}]}\n'
        self.assertEqual(measure.matmul_flops(text), ([1e9, 2e9], [0.1, 0.2]))
        with self.assertRaises(measure.Failed):
            measure.matmul_flops('{"layouts": []}')


class Rounds(unittest.TestCase):
    def test_what_is_kept_is_the_middle_of_all_rounds(self):
        got = figures.middle_answer([{"a": 1, "s": {"x": 1.0}, "t": "p", "n": 61}, {"a": 9, "s": {"x": 3.0}, "t": "q", "n": 61}, {"a": 2, "s": {"x": 2.0}, "t": "r", "n": 61}])
        self.assertEqual(got, {"a": 2, "s": {"x": 2.0}, "t": "r", "n": 61})
        self.assertEqual(figures.middle_answer([{"a": None, "b": {}}, {"a": 4, "b": {"y": 1}}]), {"a": 4, "b": {"y": 1}})


class Requirements(unittest.TestCase):
    def test_allreduce(self):
        rows = {
            ALLREDUCE: {
                "threads, 240 MB": entry(1, bytes=1, series={"memory": [0.7], "plain": []}),
                "Open MPI, here, 1 MB": entry(1, bytes=1, series={"memory": [0.1], "plain": [0.9, 1.1, 1.2]}),
                "Open MPI, here, 25 MB": entry(1, bytes=1, series={"memory": [], "plain": [0.8]}),
                "MPICH, here, 1 MB": entry(None, error="no"),
            }
        }
        self.assertEqual([met for met, _ in report.checks(result(rows))], [True, True, False, None])

    def test_training(self):
        split = {"compute": 1.0, "transfer": 0.1, "wait": 0.1}
        rows = {"flowers": {INDEPENDENT: entry(100), LOCAL: entry(96, split=split, exposed=0.2, alone=0.5, parameters=10), LAB: entry(80, split=split, exposed=0.2, alone=0.3, parameters=10)}}
        got = said(rows)
        self.assertEqual(got["flowers, 2 processes here: ≥ 95% of two independent runs"], True)
        self.assertEqual([met for met, _ in report.checks(result(rows))], [True, False, True, False])

    def test_where_there_is_too_little_to_compute_nothing_is_required(self):
        split = {"compute": 0.4, "transfer": 0.9, "wait": 0.0, "update": 0.0}
        rows = {"alexnet": {LAB: entry(80, split=split, exposed=0.9, alone=1.2, parameters=61_000_000)}}
        met, text = report.checks(result(rows))[1]
        self.assertIsNone(met)
        self.assertIn("not enough to compute", text)
        drawn = report.draw(result(rows), markdown=True)
        self.assertIn("Network bound 3.0×", drawn)
        self.assertIn("a batch of 96 on each rank", drawn)

    def test_matmul(self):
        rows = {MATMUL: {"one product alone": entry(100), "two independent products": entry(180), "2 ranks, threads": entry(170, rank_flops=80)}}
        self.assertEqual([met for met, _ in report.checks(result(rows))], [True, False])

    def test_kills(self):
        self.assertEqual([met for met, _ in report.checks(result({KILLS: [kill()]}))], [True, True, True])
        bad = [kill(), kill(equal=False, recover_s=11.0)]
        self.assertEqual([met for met, _ in report.checks(result({KILLS: bad}))], [False, True, False])

    def test_everything_can_be_drawn(self):
        rows = {ALLREDUCE: {"threads, 1 MB": entry(None, error="x")}, "flowers": {}, CURVE: {"1 workers": entry(2), "2 workers": entry(None, error="y")}, KILLS: [kill()]}
        for markdown in (False, True):
            text = report.draw(result(rows), markdown)
            self.assertIn("failed: x", text)
            self.assertIn("2 workers: failed: y", text)


if __name__ == "__main__":
    unittest.main()
