#!/usr/bin/env bash
# PyTorch reads what Paceline wrote: a checkpoint's safetensors give the same logits, so the same accuracy on test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${PACELINE:?is the program to test; ./test interop sets it}"
: "${PYTHON:?is a Python with torch and numpy; ./test interop sets it}"

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
for activation in relu tanh gelu; do
    "$PACELINE" train --quiet --run-dir "$work/$activation" --set data.name=crates/data/sample --set data.validation=test \
        --set model.hidden='[64, 32]' --set model.activation=$activation --set train.epochs=2 \
        --strategy mirrored --replicas 2 --threads 1
    "$PYTHON" tests/interop/checkpoint_pytorch.py "$work/$activation" crates/data/sample
done
