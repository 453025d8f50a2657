#!/usr/bin/env bash
# TensorFlow reads what Paceline wrote, to the bit, and Paceline reads what TensorFlow wrote: plain, gzip and zlib.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${PACELINE:?is the program to test; ./test interop sets it}"
: "${PYTHON:?is a Python with tensorflow; ./test interop sets it}"

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cargo run --quiet -p paceline-data --example write_records -- "$work"
"$PYTHON" tests/interop/tfrecord.py read "$work"

"$PYTHON" tests/interop/tfrecord.py write "$work"
for packing in plain gzip zlib; do
    "$PACELINE" data info "$work/$packing.tfrecord" --first 9 --json >"$work/$packing.json"
done
"$PYTHON" tests/interop/tfrecord.py compare "$work"

# The committed fixtures are what this TensorFlow writes. (Packed bytes depend on its zlib; what is in them does not.)
cp crates/data/tests/fixtures/make_tfrecords.py "$work"
(cd "$work" && "$PYTHON" make_tfrecords.py 2>/dev/null)
for name in lengths.tfrecord sequence.tfrecord plain.tfrecord; do
    cmp "$work/$name" "crates/data/tests/fixtures/$name"
done
echo "the fixtures are what this TensorFlow writes"
