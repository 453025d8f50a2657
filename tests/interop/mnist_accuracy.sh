#!/usr/bin/env bash
# Softmax regression on MNIST, as in every tutorial: SGD with rate .01, 10 epochs, batch 10, at least 92.0 % on test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${PACELINE:?is the program to test; ./test interop sets it}"

bench/setup --data-only
mnist="${PACELINE_PEERS:-$HOME/.cache/paceline/peers}/mnist/package/data"
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
export PACELINE_CACHE="$work/cache"

"$PACELINE" data get mnist --from "$mnist"
for seed in ${SEEDS:-1}; do
    # The test part does not choose anything here: it is the last epoch that counts, whatever the ones before.
    "$PACELINE" train --json --run-dir "$work/run-$seed" --set data.name=mnist --set data.validation=test \
        --set model.preset=softmax --set optimizer.name=sgd --set optimizer.rate=0.01 \
        --set train.batch=10 --set train.epochs=10 --set train.seed="$seed" >"$work/summary.json"
    accuracy=$(sed -n 's/^  "final_val_accuracy": \([0-9.]*\),*$/\1/p' "$work/summary.json")
    echo "MNIST, softmax regression, seed $seed: $accuracy on test"
    awk -v a="$accuracy" 'BEGIN { exit !(a >= 0.92) }' || { echo "that is below 0.92" >&2; exit 1; }
done
