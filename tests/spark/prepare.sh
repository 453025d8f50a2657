#!/usr/bin/env bash
# A real standalone Spark cluster (master and two workers) on loopback makes shards while one worker is killed; the
# result must be the bytes that local threads make. Then wrong input, and a cluster that is not there.
set -euo pipefail
: "${PACELINE:?the program}" "${PYTHON:?a Python with pyspark}"

SPARK_HOME=$("$PYTHON" -c 'import pyspark, os; print(os.path.dirname(pyspark.__file__))')
export SPARK_HOME SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON=$PYTHON
folder=$(mktemp -d)
pids=()
# A process and all that it has started, by their ids.
family() { local child; echo "$1"; for child in $(ps -o pid= --ppid "$1"); do family "$child"; done; }
end() { local ids; ids=$(family "$1"); for id in $ids; do kill -9 "$id" 2>/dev/null || true; done; }
stop() { for pid in "${pids[@]}"; do end "$pid"; done; wait 2>/dev/null || true; rm -rf "$folder"; }
trap stop EXIT
cd "$folder"
fail() { echo "failed: $*" >&2; tail -n 40 ./*.log runs/*/spark.log >&2 2>/dev/null || true; exit 1; }
free_port() { "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

port=$(free_port)
master=spark://127.0.0.1:$port
"$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host 127.0.0.1 --port "$port" \
    --webui-port "$(free_port)" >master.log 2>&1 &
pids+=($!)
for i in 1 2; do
    "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --port "$(free_port)" \
        --webui-port "$(free_port)" --cores 1 --memory 1g --work-dir "$folder/work$i" "$master" >"worker$i.log" 2>&1 &
    pids+=($!)
done
for i in 1 2; do
    for _ in $(seq 600); do grep -qs "Successfully registered with master" "worker$i.log" && break; sleep 0.5; done
    grep -q "Successfully registered with master" "worker$i.log" || fail "worker $i did not register"
done

# Photos of several sizes, large enough that the job lasts some seconds.
"$PYTHON" - <<'END'
import os, random
from PIL import Image
random.seed(1)
for label in ("daisy", "roses", "tulips"):
    os.makedirs(f"photos/{label}")
    for i in range(200):
        side = random.choice((400, 600, 800))
        tile = Image.effect_noise((64, 64), 60).convert("RGB").resize((side, side * 3 // 4), Image.BICUBIC)
        tile.save(f"photos/{label}/{i:03}.jpg", quality=92)
END

"$PACELINE" prepare photos local --size 192 --shards 24 --validation 0.2 --quiet
spark=(--engine spark --master "$master" --conf spark.executor.memory=512m --conf spark.ui.enabled=false
       --conf spark.executor.cores=1)

"$PACELINE" prepare photos shards --size 192 --shards 24 --validation 0.2 "${spark[@]}" >prepare.log 2>&1 &
job=$!
# Kill one worker with its executor as soon as the first shard is there.
for _ in $(seq 600); do
    compgen -G "shards/*.tfrec" >/dev/null && break
    kill -0 "$job" 2>/dev/null || fail "it ended before the first shard: $(cat prepare.log)"
    sleep 0.1
done
done_before=$(find shards -maxdepth 1 -name '*.tfrec' | wc -l)
[ "$done_before" -lt 24 ] || fail "the job was done before a worker could be killed"
[ "$(family "${pids[1]}" | wc -l)" -gt 1 ] || fail "the first worker has no executor"
end "${pids[1]}"
wait "$job" || fail "the job failed after a worker was killed: $(cat prepare.log)"
echo "a worker was killed with $done_before of 24 shards done"
diff -r local shards || fail "Spark's shards are not those of local threads"
grep -q "partitions for" prepare.log || fail "the partitions are not told: $(cat prepare.log)"
echo "shards after a killed worker: the same bytes"

# Nothing to do the second time; bad images are counted over all tasks.
"$PACELINE" prepare photos shards --size 192 --shards 24 --validation 0.2 "${spark[@]}" | grep -q "nothing to do" ||
    fail "a complete folder is not recognised"
: >photos/daisy/empty.jpg
if "$PACELINE" prepare photos bad --size 64 --shards 4 "${spark[@]}" >bad.log 2>&1; then fail "a bad image was not noticed"; fi
grep -q "empty.jpg" bad.log || fail "the bad image is not named: $(cat bad.log)"
"$PACELINE" prepare photos bad --size 64 --shards 4 --skip-bad 1 "${spark[@]}" >bad.log 2>&1 || fail "$(cat bad.log)"
"$PACELINE" prepare photos bad-local --size 64 --shards 4 --skip-bad 1 --quiet
diff -r bad bad-local || fail "with a bad image Spark's shards are not those of local threads"
echo "bad images: named, then counted"

if "$PACELINE" prepare photos gone --engine spark --master "spark://127.0.0.1:$(free_port)" --shards 4 --skip-bad 1 \
    --conf spark.cores.max=1 >gone.log 2>&1; then fail "a missing master was not noticed"; fi
grep -q "did not finish the job" gone.log || fail "a missing master is not told: $(cat gone.log)"
echo "a missing master: told"
