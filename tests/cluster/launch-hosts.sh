#!/usr/bin/env bash
# What `paceline launch` says of hosts that do not fit together, before anything is trained; and a job that goes on without a
# host that is gone.
set -uo pipefail
lab=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../lab")
folder=$(mktemp -d)
name=lh
trap '"$lab/down" --name $name >/dev/null 2>&1; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
fail() { echo "failed: $*" >&2; exit 1; }
program=${PACELINE:?the program, built with --features mpi}
small="--quiet --set data.name=fake:4x4:3:200 --set model.hidden=[8] --set train.batch=16 --set strategy.threads=1"

refused() {                                 # refused CODE WORDS OPTION… -- ARGUMENT…: exit code and words of a job
    local code=$1 words=$2
    shift 2
    timeout 100 "$lab/run" --name $name "$program" launch "$@" >out.txt 2>&1
    local got=$?
    [ $got = "$code" ] || fail "launch $*: expected exit code $code, got $got: $(cat out.txt)"
    grep -q -- "$words" out.txt || fail "launch $*: expected '$words' in: $(cat out.txt)"
    ! pgrep -f "^$program --log" >/dev/null || fail "launch $*: processes are left"
    echo "ok: $(grep -- "$words" out.txt | head -1 | cut -c1-150)"
}

mkdir hidden bin && cp "$program" bin/paceline
size=$(($(stat -c %s bin/paceline) / 1000000 + 20))
"$lab/up" --hosts 2 --name $name --hide "1:$folder/hidden" --disk "1:$folder/bin=${size}m" >up.log 2>&1 || fail "$(cat up.log)"
refused 2 "processes 1 (${name}1) cannot see $folder/hidden" -- train $small --run-dir hidden/r
[ -z "$(ls -A hidden)" ] || fail "a refused job leaves files"

# A host without the configuration file, and one without the folder: it is named, and nothing is tried again.
echo 'format = 1' >hidden/cfg.toml
refused 2 "process 1 on ${name}1 failed: .*hidden/cfg.toml: no such file" --max-restarts 3 -- train hidden/cfg.toml $small --run-dir r
mkdir hidden/work && mv hidden/cfg.toml hidden/work
(cd hidden/work && refused 2 "process 1 on ${name}1 failed: .*cfg.toml: no such file.*has no folder $folder/hidden/work" --max-restarts 3 -- \
    train cfg.toml $small --run-dir "$folder/r") || exit 1
rm -r hidden/work

# An address that hosts do not reach: by hand, since lab/run gives the right one.
"$lab/run" --name $name bash -c '"$0" launch --hosts "$LAB_HOSTS" --agent "$LAB_AGENT" --interface "$LAB_SUBNET" \
    --address 203.0.113.9 --listen "$LAB_ADDRESS" --max-restarts 3 -- train --quiet --run-dir r' "$program" >out.txt 2>&1
[ $? = 2 ] && grep -q "cannot reach paceline launch at 203.0.113.9" out.txt || fail "an address that nobody reaches: $(cat out.txt)"
echo "ok: $(tail -1 out.txt | cut -c1-150)"
refused 2 "no data set named" --max-restarts 3 -- train $small --set data.name=nosuch --run-dir r

"$lab/run" --on ${name}1 cp "$program" bin/paceline
"$lab/run" --on ${name}1 bash -c 'echo other >> bin/paceline'
program=$folder/bin/paceline refused 2 "processes 1 (${name}1) run another program" -- train $small --run-dir r
[ ! -e r ] || fail "a refused job leaves a run"
"$lab/down" --name $name >/dev/null

# An outage: the host is named, in one sentence, and nobody has to read what mpirun thinks of it.
"$lab/up" --hosts 2 --name $name >up.log 2>&1 || fail "$(cat up.log)"
(timeout 300 "$lab/run" --name $name "$program" launch --max-restarts 3 --start-timeout 15 -- train $small --set train.epochs=1000000 \
    --set train.max_steps=20000 --set checkpoint.every=25 --run-dir outage >job.out 2>job.err; echo "exit $?" >>job.err) &
while [ "$(find outage/checkpoints -name 'step-*' 2>/dev/null | wc -l)" = 0 ]; do sleep 0.05; done
"$lab/cut" ${name}1 >/dev/null
for _ in $(seq 900); do ! grep -q "host ${name}1 does not answer" job.err || break; sleep 0.1; done
"$lab/mend" ${name}1 >/dev/null
wait
grep -q "host ${name}1 does not answer" job.err || fail "the host is not named: $(cat job.err)"
! grep -qE "ORTE|-----|PMIX" job.err || fail "what mpirun says: $(cat job.err)"
grep -q "exit 0" job.err || fail "it did not end well: $(cat job.err job.out)"
echo "ok: $(grep -m 1 'does not answer' job.err)"
"$lab/down" --name $name >/dev/null

# Ports: launch and all that it starts listen in the range only.
"$lab/up" --hosts 2 --name $name >up.log 2>&1 || fail "$(cat up.log)"
(timeout 100 "$lab/run" --name $name "$program" launch --ports 42000-42030 -- train $small --set train.epochs=1000000 \
    --set train.max_steps=3000 --set checkpoint.every=25 --run-dir ports >job.out 2>&1; echo "exit $?" >>job.out) &
while [ "$(find ports/checkpoints -name 'step-*' 2>/dev/null | wc -l)" = 0 ]; do sleep 0.05; done
for host in ${name}0 ${name}1; do
    "$lab/run" --on $host ss -ltnH | awk '{ print $4 }' | grep -v '^127\.\|^\[::1\]' >listening.txt
    grep -q . listening.txt || fail "$host: nothing listens, which cannot be"
    while read -r at; do
        port=${at##*:}
        { [ "$port" -ge 42000 ] && [ "$port" -le 42030 ]; } || fail "$host listens at $at: $(cat listening.txt)"
    done <listening.txt
done
wait
grep -q "exit 0" job.out || fail "ports: it did not end well: $(cat job.out)"
echo "ok: with --ports, hosts listen at $(sed 's/.*://' listening.txt | sort -u | tr '\n' ' ')"
"$lab/down" --name $name >/dev/null

# Elastic: the job goes on without the host, and ends as it should.
"$lab/up" --hosts 3 --name $name >up.log 2>&1 || fail "$(cat up.log)"
(timeout 200 "$lab/run" --name $name "$program" launch --elastic --max-restarts 3 --json -- train $small \
    --set train.epochs=1000000 --set train.max_steps=1500 --set checkpoint.every=25 --run-dir r >job.out 2>job.err; echo "exit $?" >>job.err) &
while [ "$(find r/checkpoints -name 'step-*' 2>/dev/null | wc -l)" = 0 ]; do sleep 0.05; done
"$lab/cut" ${name}1 >/dev/null
wait
grep -q '"how":"host-silent"' job.err || fail "the host is not named: $(cat job.err)"
grep -q "with 2 processes on ${name}0:1,${name}2:1, without ${name}1" job.err || fail "not without it: $(cat job.err)"
grep -q "exit 0" job.err || fail "it did not end well: $(cat job.err job.out)"
[ -d r/checkpoints/step-1500 ] || fail "it did not come to its end: $(ls r/checkpoints)"
echo "ok: $(grep -o '"reason":"[^"]*"' job.err)"
