"""The figures of the dense rows: what common/figures.py gives, and the bound."""

from common.figures import check, checks, fastest, present, ratio, summary  # noqa: F401


def bound(row, machine, threads):
    """Seconds per epoch below which this machine's own sgemm cannot do the row's products."""
    peak = (machine.get("sgemm_gflops") or {}).get(str(threads))
    return row.flops() / (peak * 1e9) if peak else None
