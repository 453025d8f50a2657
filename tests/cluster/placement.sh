#!/usr/bin/env bash
# data.placement = "local": two processes that each find other files under the same name train together, say what they have,
# go on in mid-epoch equal in bits, and refuse what does not fit.
set -uo pipefail
: "${PACELINE:?the program to test}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
fail() { echo "failed: $*" >&2; exit 1; }
says() {                                    # says FILE WORDS…
    local file=$1 words
    shift
    for words in "$@"; do grep -qF -- "$words" "$file" || fail "'$words' is not in: $(cat "$file")"; done
}
number() { printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
part() {                                    # part FOLDER NAME SAMPLES SEED: random images of 8 × 8 in IDX files
    { printf '\x00\x00\x08\x03'; number "$3"; number 8; number 8
      awk -v n=$(($3 * 64)) -v s="$4" 'BEGIN { srand(s); for (i = 0; i < n; i++) printf "%c", 1 + int(rand() * 126) }'; } >"$1/$2-images-idx3-ubyte"
    { printf '\x00\x00\x08\x01'; number "$3"
      for ((i = 0; i < $3; i++)); do printf '%b' "\\x0$((i % 4))"; done; } >"$1/$2-labels-idx1-ubyte"
}
export LC_ALL=C                             # a %c of awk is a byte
for host in 0 1; do
    mkdir -p "host$host/set"
    part "host$host/set" train $((host == 0 ? 300 : 100)) $host
    part "host$host/set" t10k $((host == 0 ? 40 : 21)) 7$host
done
cat >host <<'END'
#!/usr/bin/env bash
cd "host${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" && exec "$PACELINE" "$@"
END
chmod +x host
export PACELINE
both() { mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n 2 ./host "$@" 2>&1; }
run=(train --set data.name=set --set "model.hidden=[8]" --set train.batch=20 --threads 1)

both "${run[@]}" --run-dir "$folder/shared" >log && fail "other samples were accepted as the same"
says log 'process 1' 'training samples' 'data.placement = "local"'

local=("${run[@]}" --set data.placement=local)
both "${local[@]}" --set train.epochs=4 --run-dir "$folder/whole" >log || fail "training: $(cat log)"
says log '270 (1.00 visits an epoch)' '90 (1.00 visits an epoch)' 'statistical' 'test '
says whole/summary.json '"exactness": "Statistical"'
# 61 test samples, each once: accuracies are whole numbers of them.
python3 - whole/summary.json <<'END' || fail "not every test sample was counted once"
import json, sys
right = json.load(open(sys.argv[1]))["test_accuracy"] * 61
sys.exit(abs(right - round(right)) > 1e-9)
END

for steps in 5 31 0; do                     # of 18 steps an epoch
    place=(--resume "$folder/parts")
    [ -e parts ] || place=("${local[@]:1}" --set train.epochs=4 --run-dir "$folder/parts")
    both train "${place[@]}" --set "train.max_steps=$steps" >log || fail "part up to step $steps: $(cat log)"
done
model() { sha256sum <"$(ls -d "$1"/checkpoints/step-* | sort -V | tail -n 1)/model.safetensors"; }
[ "$(model whole)" = "$(model parts)" ] || fail "a run in parts is not the whole run"

part host1/set train 101 5
both train --resume "$folder/parts" --set train.epochs=5 >log && fail "other files were accepted on resume"
says log 'the training samples'

part host1/set train 9 5
both "${local[@]}" --set train.batch=8 --run-dir "$folder/few" >log && fail "so few samples were accepted"
says log 'process 1' 'train.batch of at least'
echo "placement: all is well"
