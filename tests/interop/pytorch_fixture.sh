#!/usr/bin/env bash
# The committed reference values are what this PyTorch computes: made again, they differ by less than 1e-12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${PYTHON:?is a Python with torch; ./test interop sets it}"

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cp fixtures/pytorch/make*.py "$work" # they write beside themselves
"$PYTHON" "$work/make.py"
"$PYTHON" "$work/make_cnn.py"
"$PYTHON" - fixtures/pytorch "$work" <<'END'
import json, math, sys

def compare(a, b, at):
    """The largest difference between the numbers of two values of the same structure."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), f"{at}: {a.keys() ^ b.keys()}"
        return max((compare(a[k], b[k], f"{at}.{k}") for k in a if k != "torch"), default=0.0)
    if isinstance(a, list):
        assert len(a) == len(b), f"{at}: {len(a)} and {len(b)} elements"
        return max((compare(x, y, f"{at}[{i}]") for i, (x, y) in enumerate(zip(a, b))), default=0.0)
    if isinstance(a, float):
        assert math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12), f"{at}: {a} and {b}"
        return abs(a - b)
    assert a == b, f"{at}: {a} and {b}"
    return 0.0

for name in ("dense", "cnn"):
    committed, made = (json.load(open(f"{folder}/{name}.json")) for folder in sys.argv[1:])
    worst = compare(committed, made, name)
    print(f"{name}: made with PyTorch {made['torch']}, committed with {committed['torch']}: at most {worst:.1e} apart")
END
