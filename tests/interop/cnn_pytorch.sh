#!/usr/bin/env bash
# PyTorch computes the same logits from Paceline's checkpoints of convolutional networks (examples/pytorch), to 1e-4.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${PACELINE:?is the program to test; ./test interop sets it}"
: "${PYTHON:?is a Python with torch and numpy; ./test interop sets it}"

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cargo build --quiet -p paceline --example logits
logits="$(dirname "$PACELINE")/examples/logits"
compare() { # compare PRESET HEIGHT CHANNELS
    "$PYTHON" tests/interop/cnn_pytorch.py make "$work/$1-data" "$2" "$3"
    "$PACELINE" train --quiet --run-dir "$work/$1" --set data.name="$work/$1-data" --set data.validation=test \
        --set model.preset="$1" --set train.epochs=1 --set train.batch=4 --set optimizer.name=sgd --set optimizer.rate=0.01 \
        --strategy mirrored --replicas 2 --threads 1
    "$logits" "$work/$1" >"$work/$1.json"
    "$PYTHON" tests/interop/cnn_pytorch.py compare "$work/$1" "$work/$1-data" "$work/$1.json"
}
compare lenet 28 1
compare alexnet 224 3
compare resnet18 64 3
