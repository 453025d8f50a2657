#!/usr/bin/env bash
# Hosts and people that get in the way of a job: a cable is pulled, a rank hangs, a host is slow, the disk is full, a host cannot see the
# run, Ctrl-C, launch itself is killed. Whatever happens, nothing is left running, and what comes out in the end has the bits of
# the job that nobody disturbed. Seconds are printed, not judged.
set -uo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/jobs.bash"
mkdir "$folder/runs" "$folder/small"
all=("${name}0" "${name}1" "${name}2")

resume() {                                  # resume RUN: goes on with it, to the end
    timeout 300 "$lab/run" --name "$name" "$PACELINE" launch -- train --resume "$folder/runs/$1" >>"$folder/$1.log" 2>&1 </dev/null ||
        fail "$1: going on with it ended with $?"
}
until_said() {                              # until_said RUN PATTERN PID: waits for it in the output
    local i
    for ((i = 0; i < 600; i++)); do
        ! grep -Eq "$2" "$folder/$1.log" || return 0
        kill -0 "$3" 2>/dev/null || break
        sleep 0.1
    done
    grep -Eq "$2" "$folder/$1.log" || fail "$1: nothing says '$2'"
}
since() { local ms=$(($(now) - $1)); echo "$((ms / 1000)).$((ms % 1000 / 100)) s"; }
equal() { same "$1" whole || fail "$1 came to something else than the undisturbed job"; }

up --hosts 3
launch whole
ended "$job" 300 || fail "the undisturbed job ended with $?"
echo "undisturbed: $(($(last_step whole) + 1)) steps, last checkpoint at $(checkpoint whole)"

launch cut --max-restarts 5
until_step cut 45 "$job" || fail "cut: no step 45"
begin=$(now)
"$lab/cut" "${all[2]}" >/dev/null
until_said cut "${all[2]}.*(sign|silent|lost|reach|heard)" "$job"
echo "cut off: noticed after $(since "$begin")"
quiet "${all[@]}" || fail "cut: ranks still run, on the host that was cut off or elsewhere"
echo "cut off: all ranks had ended after $(since "$begin")"
"$lab/mend" "${all[2]}" >/dev/null
ended "$job" 300 || fail "cut: the job ended with $?"
echo "cut off: done $(since "$begin") after the cut"
equal cut

launch hang --max-restarts 1
until_step hang 30 "$job" || fail "hang: no step 30"
begin=$(now)
"$lab/run" --on "${all[1]}" kill -STOP "$(workers "${all[1]}" | head -1)" || fail "hang: no rank to stop"
ended "$job" 300 || fail "hang: the job ended with $?"
grep -q "${all[1]}" "$folder/hang.log" || fail "hang: nobody says which host it was"
echo "a rank that hangs: done after $(since "$begin")"
equal hang

launch ctrl
until_step ctrl 50 "$job" || fail "ctrl: no step 50"
begin=$(now)
kill -INT "$job"
ended "$job" 60
code=$?
[ $code = 130 ] || fail "ctrl: Ctrl-C ended with $code"      # as `train` alone
quiet "${all[@]}" || fail "ctrl: ranks still run"
[ "$(checkpoint ctrl)" -ge 50 ] || fail "ctrl: the last checkpoint is at $(checkpoint ctrl), not after step 50"
echo "Ctrl-C: all had ended after $(since "$begin"), with a checkpoint at $(checkpoint ctrl)"
resume ctrl
equal ctrl

launch orphans
until_step orphans 50 "$job" || fail "orphans: no step 50"
begin=$(now)
{ kill -9 "$job"; wait "$job"; } 2>/dev/null
quiet "${all[@]}" || fail "orphans: ranks still run although launch is gone"
echo "launch killed: all ranks had ended after $(since "$begin")"
resume orphans
equal orphans
"$lab/down" --name "$name" >/dev/null

# A host that cannot see the folder of runs: said before anything is trained.
up --hosts 3 --hide "1:$folder/runs"
launch unseen --max-restarts 3
ended "$job" 120
code=$?
[ $code = 1 ] || [ $code = 2 ] || fail "unseen: exit code $code"
grep -q "${all[1]}" "$folder/unseen.log" || fail "unseen: nobody says which host it is"
[ "$(last_step unseen)" = -1 ] || fail "unseen: it trained"
! grep -q "restart 1" "$folder/unseen.log" || fail "unseen: it was started again, to fail again"
echo "a folder that a host cannot see: $(grep -m 1 "${all[1]}" "$folder/unseen.log")"
"$lab/down" --name "$name" >/dev/null

# A slow host takes longer and changes nothing.
up --hosts 3 --cores 0.6 --slow 1:0.4
begin=$(now)
launch slow
ended "$job" 600 || fail "slow: the job ended with $?"
equal slow
echo "a host at 40 % speed: done after $(since "$begin"); $(grep -m 1 -E 'straggler|slower|ranks idle' "$folder/slow.log" || echo "nothing is said of it")"
"$lab/down" --name "$name" >/dev/null

# The disk fills while it trains; later there is room again.
mount -t tmpfs -o size=24m tmpfs "$folder/small"
mv "$folder/runs" "$folder/roomy"
ln -s small "$folder/runs"
up --hosts 3
launch full --max-restarts 1
until_step full 50 "$job" || fail "full: no step 50"
head -c 24m /dev/zero >"$folder/small/filler" 2>/dev/null
ended "$job" 120 && fail "full: it says that all is well"
[ "$(checkpoint full)" -gt 0 ] || fail "full: earlier checkpoints are gone"
grep -qiE "no space|disk is full|full" "$folder/full.log" || fail "full: nobody says that the disk is full"
quiet "${all[@]}" || fail "full: ranks still run"
echo "a full disk: $(grep -m 1 -iE 'no space|full' "$folder/full.log")"
launch fuller
ended "$job" 120 && fail "fuller: a job that has no room for its checkpoints was started"
echo "no room from the start: $(grep -m 1 -iE 'free|space|full|room' "$folder/fuller.log" || tail -1 "$folder/fuller.log")"
rm "$folder/small/filler"
resume full
mv "$folder/small/full" "$folder/roomy/"
umount "$folder/small"
rm "$folder/runs"
mv "$folder/roomy" "$folder/runs"
equal full
"$lab/down" --name "$name" >/dev/null
echo "failures: every job came to the bits of the undisturbed one"
