# shellcheck shell=bash
# What the scripts of this folder share: a job that trains on the hosts of a lab, and what it must come to.
: "${PACELINE:?the program, built with --features mpi}"
lab=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../lab")
name=${LAB_TEST_NAME:-tj}                   # of the lab
folder=$(mktemp -d)
jobs=()                                     # process ids of launches that may still run

clean() {
    local id
    for id in "${jobs[@]}"; do kill -9 "$id" 2>/dev/null; done
    "$lab/down" --name "$name" >/dev/null 2>&1
    ! mountpoint -q "$folder/small" || umount "$folder/small"
    [ -n "${KEEP:-}" ] && echo "kept: $folder" || rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM

fail() {
    echo "failed: $*" >&2
    local log
    for log in "$folder"/*.log; do [ ! -s "$log" ] || { echo "--- ${log##*/}"; tail -n 40 "$log"; } >&2; done
    exit 1
}

up() { "$lab/up" --name "$name" "$@" >"$folder/up.txt" 2>&1 || { cat "$folder/up.txt" >&2; exit 1; }; }

# Enough steps for something to go wrong in the middle, a checkpoint every 40 of them, a number of samples that is no multiple of
# anything, so that last batches and unequal shares take part.
settings=(--strategy multi-worker-mirrored --threads 1 --set data.name=fake:28x28:10:4321 --set model.preset=mlp --set 'model.hidden=[256,128]'
    --set train.batch=60 --set train.epochs=10 --set train.seed=7 --set checkpoint.every=40 --set record.every=1)

launch() {                                  # launch NAME [OPTION…]: trains as runs/NAME, in the background; sets job
    local run=$1
    shift
    "$lab/run" --name "$name" "$PACELINE" launch "$@" -- train "${settings[@]}" --run-dir "$folder/runs/$run" >"$folder/$run.log" 2>&1 </dev/null &
    job=$!
    jobs+=("$job")
}

ended() {                                   # ended PID SECONDS: waits for its end and returns its code; 124 if it goes on for so long
    local i
    for ((i = 0; i < $2 * 10; i++)); do
        kill -0 "$1" 2>/dev/null || { wait "$1"; return; }
        sleep 0.1
    done
    return 124
}

now() { date +%s%N | cut -c 1-13; }         # milliseconds

records() { echo "$folder/runs/$1/steps.jsonl"; }

last_step() {                               # last_step RUN: number of the last step that any rank wrote down; -1 if none
    local found
    found=$(grep -s '"kind":"step"' "$(records "$1")" | sed -n 's/.*"step":\([0-9]*\).*/\1/p' | sort -n | tail -1)
    echo "${found:--1}"
}

until_step() {                              # until_step RUN STEP PID: waits for it
    local i
    for ((i = 0; i < 1200; i++)); do
        [ "$(last_step "$1")" -lt "$2" ] || return 0
        kill -0 "$3" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

checkpoint() {                              # checkpoint RUN: step of the newest; 0 if there is none
    local found
    found=$(find "$folder/runs/$1/checkpoints" -maxdepth 1 -name 'step-*' -type d 2>/dev/null | sed 's/.*step-//' | grep -x '[0-9]*' | sort -n | tail -1)
    echo "${found:-0}"
}

workers() { "$lab/run" --on "$1" pgrep -x "$(basename "$PACELINE" | cut -c 1-15)"; }   # workers HOST: ids of ranks there, in its own numbers

quiet() {                                   # quiet: no host runs anything any more; waits some seconds for it
    local i host left
    for ((i = 0; i < 100; i++)); do
        left=""
        for host in "$@"; do left+=$(workers "$host"); done
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    return 1
}

scores() {                                  # scores RUN: what each epoch came to, the last word on it, without times
    grep '"kind":"epoch"' "$(records "$1")" | sed 's/"attempt":[0-9]*,//; s/,"seconds".*//' | awk -F'"epoch":' '{ split($2, a, ","); last[a[1]] = $0 } END { for (e in last) print last[e] }' | sort
}

same() {                                    # same RUN OTHER: the same bits in the last checkpoint, the same scores in every epoch
    local step file
    step=$(checkpoint "$1")
    [ "$step" = "$(checkpoint "$2")" ] || { echo "last checkpoints differ: step $step and $(checkpoint "$2")"; return 1; }
    [ "$step" -gt 0 ] || { echo "there is no checkpoint"; return 1; }
    for file in "$folder/runs/$1/checkpoints/step-$step"/*.safetensors; do
        cmp "$file" "$folder/runs/$2/checkpoints/step-$step/${file##*/}" || return 1
    done
    diff <(scores "$1") <(scores "$2")
}
