#!/usr/bin/env bash
# kill -9 of ranks at random moments: a few, with one seed. `tests/cluster/soak --kills 100` does many.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/soak" --kills 4 --seed 5
