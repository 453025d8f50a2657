#!/usr/bin/env bash
# A speed study measured in the tasks of a Spark job, and its report beside a local one.
set -euo pipefail
: "${PACELINE:?the program}" "${PYTHON:?a Python with pyspark}"
SPARK_HOME=$("$PYTHON" -c 'import pyspark, os; print(os.path.dirname(pyspark.__file__))')
export SPARK_HOME SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON=$PYTHON
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "failed: $*" >&2; exit 1; }

"$PYTHON" - <<'END'
import os
from PIL import Image
for label in ("daisy", "roses"):
    os.makedirs(f"photos/{label}")
    for i in range(40):
        Image.effect_noise((160, 120), 60).convert("RGB").save(f"photos/{label}/{i:03}.jpg", quality=90)
END
"$PACELINE" prepare photos shards --size 96 --shards 4 --quiet
study=(photos shards --batch 2,4,8 --batches 2,4 --repetitions 2 --cache-state warm --variants partitioning,caching,neither,both --size 96)
"$PACELINE" speedtest "${study[@]}" --run-dir runs/local --quiet
"$PACELINE" speedtest "${study[@]}" --run-dir runs/spark --engine spark --master 'local[2]' \
    --conf spark.ui.enabled=false --time-limit none >spark.log 2>&1 || fail "$(cat spark.log)"
grep -q "partitions\? for 2 cores" spark.log || fail "the job is not told: $(cat spark.log)"
planned=$(wc -l <runs/local/measurements.jsonl)
[ "$(wc -l <runs/spark/measurements.jsonl)" = "$planned" ] || fail "Spark did not measure every cell"
grep -q '"engine":"spark"' runs/spark/measurements.jsonl || fail "the engine is not recorded"
"$PACELINE" report runs/local runs/spark >both.log || fail "$(cat both.log)"
grep -q spark report.html && grep -q local report.html || fail "the page does not show both engines"
echo "a study on Spark: $((planned - 1)) measurements, drawn beside the local one"
