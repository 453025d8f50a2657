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

# An address that hosts do not reach: by hand, since lab/run gives the right one.
"$lab/run" --name $name bash -c '"$0" launch --hosts "$LAB_HOSTS" --agent "$LAB_AGENT" --interface "$LAB_SUBNET" \
    --address 203.0.113.9 -- train --quiet --run-dir r' "$program" >out.txt 2>&1
[ $? = 2 ] && grep -q "cannot reach paceline launch at 203.0.113.9" out.txt || fail "an address that nobody reaches: $(cat out.txt)"
echo "ok: $(tail -1 out.txt | cut -c1-150)"
refused 2 "no data set named" --max-restarts 3 -- train $small --set data.name=nosuch --run-dir r

"$lab/run" --on ${name}1 cp "$program" bin/paceline
"$lab/run" --on ${name}1 bash -c 'echo other >> bin/paceline'
program=$folder/bin/paceline refused 2 "processes 1 (${name}1) run another program" -- train $small --run-dir r
[ ! -e r ] || fail "a refused job leaves a run"
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
