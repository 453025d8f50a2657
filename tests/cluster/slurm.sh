#!/usr/bin/env bash
# The job scripts of docs/cluster.md in a real Slurm of one node: scancel writes a checkpoint, USR1 writes one and queues the job again, and
# the run that was broken equals one that was not. Takes four minutes: Slurm waits for two before it starts a job again.
set -uo pipefail
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
: "${PACELINE:?the program, built with --features mpi}"
folder=$(mktemp -d /tmp/paceline-slurm-XXXXXX)   # a short path: munge's socket must fit into 108 bytes
daemons=()
clean() {
    local id
    [ ! -e "$folder/up" ] || scancel --full --signal=KILL --user=root >/dev/null 2>&1
    for id in "${daemons[@]}"; do kill "$id" 2>/dev/null; done
    sleep 0.5
    for id in "${daemons[@]}"; do kill -9 "$id" 2>/dev/null; done
    [ -n "${KEEP:-}" ] && echo "kept: $folder" || rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM
not_run() { echo "NOT RUN: $*"; exit 77; }
fail() {
    echo "failed: $*" >&2
    local log
    for log in "$folder"/*.log "$folder"/*.out; do [ ! -s "$log" ] || { echo "--- ${log##*/}"; tail -n 30 "$log"; } >&2; done
    exit 1
}

[ "$(id -u)" = 0 ] || not_run "Slurm's daemons need root here"
has_slurm() { command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null; }
if ! has_slurm; then
    command -v apt-get >/dev/null || not_run "Slurm is missing (slurmctld, slurmd, munged)"
    packages=(slurm-wlm munge)
    { apt-get install -y -qq --no-install-recommends "${packages[@]}" || { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}"; }; } \
        >"$folder/apt.log" 2>&1 || not_run "Slurm is missing, and apt-get install ${packages[*]} failed: $(tail -n 1 "$folder/apt.log")"
    has_slurm || not_run "Slurm is missing (slurmctld, slurmd, munged) after apt-get install ${packages[*]}"
fi

# One node, its own keys and ports, no control groups: what works in a container.
node=$(hostname -s)
mkdir -m 755 "$folder"/{munge,state,spool,bin}
chmod 755 "$folder"
ln -s "$PACELINE" "$folder/bin/paceline"
export PATH=$folder/bin:$PATH SLURM_CONF=$folder/slurm.conf
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 2>/dev/null && chmod 600 "$folder/munge/key"
# As root, since the folder above is root's; --force, because it would rather have another owner.
munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
    --log-file="$folder/munge.log" --seed-file="$folder/munge/seed" --num-threads=2 >"$folder/munged.log" 2>&1 &
daemons+=($!)
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' 2>/dev/null || echo $((20000 + RANDOM)); }
cat >"$folder/slurm.conf" <<END
ClusterName=paceline
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket,cred_expire=1
CredType=cred/munge
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=60
SchedulerParameters=sched_interval=1
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4 State=UP
END
slurmctld -D >"$folder/ctld.log" 2>&1 &
daemons+=($!)
slurmd -D -N "$node" >"$folder/d.log" 2>&1 &
daemons+=($!)
for ((i = 0; i < 120; i++)); do
    [[ $(sinfo --noheader --format=%t 2>/dev/null) == idle ]] && touch "$folder/up" && break
    sleep 0.5
done
[ -e "$folder/up" ] || not_run "Slurm did not come up within a minute: $(grep -hi 'error\|fatal' "$folder"/slurm*.log "$folder"/munge*.log | tail -n 2 | tr '\n' ' ')"
echo "$(slurmd -V) is up"

cd "$folder" || exit 1
cat >cfg.toml <<'END'
format = 1
[data]
name = "fake:28x28:10:4321"
[model]
hidden = [256, 128]
[train]
batch = 60
epochs = 60
seed = 7
[checkpoint]
every = "1h"
[strategy]
threads = 1
END
# The scripts as they are printed: every block of the page that begins with #!/bin/bash.
awk '/^    #!\/bin\/bash$/ { n++; inside = 1 } inside && !/^    / { inside = 0 } inside { print substr($0, 5) > "script-" n ".sh" }' "$here/../../docs/cluster.md"
[ -e script-1.sh ] && [ -e script-2.sh ] || fail "docs/cluster.md has no scripts"
sed -i "s|/share/runs|$folder/runs|; s|paceline train |paceline train --quiet |" script-1.sh script-2.sh
grep -q 'paceline launch' script-1.sh && grep -q 'srun --mpi=pmix paceline' script-2.sh || fail "the scripts of docs/cluster.md are not what this test is for"
tasks=$(($(nproc) < 2 ? 1 : 2))
submit() { sbatch --parsable --nodes=1 --ntasks-per-node=$tasks --overcommit --output="$folder/job-%j.out" "$1"; }
state() { squeue --noheader --states=all --job "$1" --format=%T 2>/dev/null; }
field() { scontrol show job "$1" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$2=//p" | head -1; }
until_state() {                             # until_state JOB STATE…: waits for one of them
    local i now
    for ((i = 0; i < 1200; i++)); do
        now=$(state "$1")
        [[ " ${*:2} " == *" ${now:-none} "* ]] && return 0
        sleep 0.25
    done
    fail "job $1 is ${now:-gone}, not ${*:2}"
}
until_steps() {                             # until_steps JOB MORE: waits for lines in its record
    local i lines
    for ((i = 0; i < 1200; i++)); do
        lines=$(grep -sc '"kind":"step"' "$folder/runs/$1/steps.jsonl")
        [ "${lines:-0}" -gt "$2" ] && return 0
        sleep 0.1
    done
    fail "job $1 does no steps: $(state "$1")"
}
newest() { find "$folder/runs/$1/checkpoints" -maxdepth 1 -name 'step-*' -printf '%f\n' 2>/dev/null | sed 's/step-//' | sort -n | tail -1; }
recorded() { sed -n 's/.*"kind":"step".*"step":\([0-9]*\).*/\1/p' "$folder/runs/$1/steps.jsonl" | sort -n | tail -1; }
saved() {                                   # saved JOB: the newest checkpoint stands after the last step that was done
    [ "$(newest "$1")" = $(($(recorded "$1") + 1)) ] || fail "job $1: the newest checkpoint is at $(newest "$1"), the last step is $(recorded "$1")"
}
summary() { sed -n 's/^ *"status": *"\([a-z]*\)".*/\1/p' "$folder/runs/$1/summary.json" | head -1; }
equal() { cmp "$folder/runs/$1/checkpoints/step-$(newest "$1")/model.safetensors" "$folder/whole/checkpoints/step-$(newest "$1")/model.safetensors"; }

paceline launch --np $tasks -- train cfg.toml --quiet --run-dir whole >whole.log 2>&1 || fail "the run that is not broken"

for script in script-1.sh script-2.sh; do
    way=$(grep -o 'paceline launch\|srun' $script | head -1)
    # USR1, as Slurm sends it before the time is up: to the script where it says B:, to the processes otherwise.
    batch=() && grep -q 'signal=B:' $script && batch=(--batch)
    job=$(submit $script) || fail "$way: sbatch"
    until_steps "$job" 5
    scancel "${batch[@]}" --signal=USR1 "$job"
    for ((i = 0; i < 1200; i++)); do [ "$(field "$job" Restarts)" = 1 ] && break; sleep 0.1; done
    [ "$(field "$job" Restarts)" = 1 ] || fail "$way: it was not queued again: $(state "$job")"
    at=$(newest "$job")
    [ -n "$at" ] || fail "$way: no checkpoint was written"
    until_state "$job" COMPLETED
    [ "$(summary "$job")" = done ] && equal "$job" || fail "$way: what went on is not what was not broken"
    echo "$way: stopped by USR1 at step $at, queued again, done, with the same bits"
    # scancel: everything is signalled at once.
    job=$(submit $script) || fail "$way: sbatch"
    until_steps "$job" 5
    scancel "$job"
    until_state "$job" CANCELLED
    for ((i = 0; i < 100; i++)); do [ "$(summary "$job")" = running ] || break; sleep 0.1; done
    [ "$(summary "$job")" = stopped ] || fail "$way: after scancel the run is $(summary "$job")"
    saved "$job"
    echo "$way: scancel wrote a checkpoint at step $(newest "$job")"
    paceline launch --np $tasks -- train --resume "$folder/runs/$job" --quiet >>resume.log 2>&1 || fail "$way: resume"
    equal "$job" || fail "$way: what was resumed is not what was not broken"
done
