#!/usr/bin/env bash
# The virtual cluster itself: hosts are what was asked for, wrong wishes are refused in words, and nothing is left behind, also
# after an `up` that fails or is killed half-way. Shares and rates are printed, not judged: the machine may be busy.
set -uo pipefail
lab=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../lab")
folder=$(mktemp -d)
trap '"$lab/down" --name ta >/dev/null 2>&1; "$lab/down" --name tb >/dev/null 2>&1; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
fail() { echo "failed: $*" >&2; exit 1; }
check() {                                   # check WHAT EXPECTED ACTUAL
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}
traces() {                                  # everything that a lab could leave on the machine
    find /run/netns /run/paceline-lab -mindepth 1 -not -name lock 2>/dev/null
    ip -o link | awk '{ print $2 }'
    find /sys/fs/cgroup -type d -name 'paceline-lab-t*'
    md5sum /etc/hosts
    findmnt -rno TARGET | grep -v '^/run/netns$'   # which iproute2 makes once for good
    ls -d /mnt/lab "$folder/deep" 2>/dev/null
    pgrep -a -f 'lib/keeper /run/paceline-lab/t[ab]|^sleep 360[012]'
    return 0
}
mkdir shared && touch shared/file
traces >before

# Two labs at once, with names of their own.
"$lab/up" --hosts 3 --rate 200mbit --name ta --disk 20m --disk 1:deep/er=1m >/dev/null 2>&1 && fail "a relative disk was accepted"
"$lab/up" --hosts 3 --rate 200mbit --cores 0.5 --memory 256m --slow 2:0.5 --rate 2:20mbit --name ta --disk 20m \
    --disk "1:$folder/deep/er=1m" --hide "1:$folder/shared" --etc-hosts >up.log || fail "lab/up: $(cat up.log)"
"$lab/up" --hosts 2 --name tb >>up.log || fail "a second lab: $(cat up.log)"
check "a lab of the same name" 1 "$("$lab/up" --hosts 2 --name tb >/dev/null 2>&1; echo $?)"
check "a name of its own" ta1 "$("$lab/run" --on ta1 hostname)"
check "the environment is kept, the folder too" "$folder x" "$(X=x "$lab/run" --on ta1 bash -c 'echo "$PWD $X"')"
check "as over ssh" "ta2 $HOME unset" "$(X=x "$lab/agent" -x -o A=b ta2 'echo $(hostname)' '$PWD ${X:-unset}')"
check "exit codes come through" 7 "$("$lab/agent" ta0 'exit 7'; echo $?)"
check "an unknown host" 255 "$("$lab/agent" tc0 true 2>/dev/null; echo $?)"
check "it sees only its own processes" 0 "$("$lab/run" --on ta0 pgrep -c -f 'paceline-lab/t[ab] t[ab][12]')"
check "a disk of its own" 1 "$("$lab/run" --on ta1 dd if=/dev/zero of=deep/er/x bs=1k count=2k >/dev/null 2>&1; echo $?)"
check "which others do not have" "" "$(ls deep/er)"
check "a hidden folder" "" "$("$lab/run" --on ta1 ls shared)"
check "which others see" file "$("$lab/run" --on ta0 ls shared)"
check "memory is limited" 137 "$("$lab/run" --on ta0 bash -c 'exec head -c 400m /dev/zero | tail -c 300m >/dev/null; exit ${PIPESTATUS[1]}' 2>/dev/null; echo $?)"
grep -q 'ta1$' /etc/hosts || fail "--etc-hosts wrote nothing"
"$lab/status" >status.txt || fail "lab/status"
grep -Eq '^ta2 .*up +0\.5×0\.5 +20mbit +256m' status.txt || fail "status does not say what was asked for: $(cat status.txt)"
! command -v python3 >/dev/null || "$lab/status" --json | python3 -c 'import json, sys; assert len(json.load(sys.stdin)) >= 2' || fail "status --json"
burn='TIMEFORMAT="%R %U %S"; time timeout 2 bash -c "while :; do :; done"'
for host in ta0 ta2; do
    echo "$host: $("$lab/run" --on $host bash -c "$burn" 2>&1 | awk '{ printf "%.3f", ($2 + $3) / $1 }') of a core (asked for: $([ $host = ta0 ] && echo 0.5 || echo 0.25))"
done
if command -v iperf3 >/dev/null; then
    for host in ta1 ta2; do
        "$lab/run" --on ta0 iperf3 -s -1 -D; sleep 0.3
        echo "$host to ta0: $("$lab/run" --on $host iperf3 -c ta0 -t 2 | awk '/receiver/ { print $7, $8 }') (asked for: $([ $host = ta1 ] && echo 200 || echo 20) Mbits/sec)"
    done
fi

# A cable, pulled and plugged in: nobody listens on port 9, so that a connected host refuses at once.
knock() {
    local said
    said=$(timeout 3 "$lab/run" --on ta1 bash -c 'exec 3<>/dev/tcp/ta0/9' 2>&1)
    if [[ $said == *refused* ]]; then echo answers; else echo silent; fi
}
check "a connected host" answers "$(knock)"
"$lab/cut" --name ta 0 >/dev/null || fail "cut does not take --name and a number"
check "a cut one" silent "$(knock)"
check "nor the agent" 255 "$("$lab/agent" ta0 true 2>/dev/null; echo $?)"
grep -q '^ta0 .* cut ' <("$lab/status") || fail "status does not say that ta0 is cut off"
"$lab/cut" --name tb ta0 >/dev/null 2>&1 && fail "cut takes a host of another lab, or a lab that is not there"
"$lab/mend" --name=ta ta0 >/dev/null || fail "mend does not take --name"
[ "$("$lab/run" --name ta --on 0 hostname)" = ta0 ] || fail "run does not find a host by its number"
"$lab/cut" --nmae ta 0 >/dev/null 2>&1; [ $? = 2 ] || fail "cut does not refuse an option that it does not know"
check "after mending" answers "$(knock)"

for mpirun in mpirun.openmpi mpirun.mpich; do
    command -v $mpirun >/dev/null || { echo "$mpirun is not installed: not tried"; continue; }
    check "$mpirun" "ta0 ta1 ta2" "$(timeout 120 "$lab/run" --name ta $mpirun -np 3 hostname 2>/dev/null | sort | tr '\n' ' ' | sed 's/ $//')"
done
"$lab/run" --name ta --slots 2 --only 0,2 --show paceline launch -- train | grep -q "'launch' '--hosts' 'ta0:2,ta2:2' '--agent' '$lab/agent' '--interface'" ||
    fail "lab/run does not fill in paceline launch"
"$lab/run" --name ta --show paceline --log info launch -- train | grep -q "'paceline' '--log' 'info' 'launch' '--hosts' 'ta0:1,ta1:1,ta2:1'" ||
    fail "lab/run does not look behind --log"
"$lab/run" --name ta --show paceline train a.toml | grep -qx "'paceline' 'train' 'a.toml'" || fail "lab/run changes what is no launch"

# Down ends what runs, and can be repeated.
("$lab/run" --on ta1 sleep 3600 & "$lab/agent" ta2 'sleep 3601 & sleep 3602' & wait) >/dev/null 2>&1 & sleepers=$!
sleep 0.5
"$lab/down" --name ta >/dev/null || fail "lab/down"
"$lab/down" --name ta >/dev/null || fail "lab/down for the second time"
wait $sleepers
"$lab/down" --name tb >/dev/null || fail "lab/down of the other lab"
traces >after
diff before after || fail "something was left behind (see above)"

# Wrong wishes: exit code, and a word of the message.
refused() {                                 # refused CODE WORD OPTION…
    local code=$1 word=$2 said
    shift 2
    said=$("$lab/up" --name ta "$@" 2>&1)
    check "exit code of lab/up $*" "$code" $?
    [[ $said == *"$word"* ]] || fail "lab/up $*: '$said' does not say '$word'"
}
cpus=$(nproc)
"$lab/up" --hosts "$cpus" --cores 1 --name ta >/dev/null || fail "as many hosts as cores"
seen=$(for ((i = 0; i < cpus; i++)); do "$lab/run" --name ta --on "ta$i" grep Cpus_allowed_list /proc/self/status; done | sort -u | wc -l)
check "processors that hosts of one core have for themselves" "$cpus" "$seen"
"$lab/down" --name ta >/dev/null || fail "lab/down of hosts with cores of their own"
refused 2 "how many hosts"
refused 2 "1 to 100" --hosts 0
refused 2 "needs a value" --hosts
refused 2 "no option" --hosts 2 --speed 3
refused 2 "is no rate" --hosts 2 --rate 1800
refused 2 "is no time" --hosts 2 --delay 5
refused 2 "write --slow HOST:VALUE" --hosts 2 --slow 0.5
refused 2 "needs --cores" --hosts 2 --slow 1:0.5
refused 2 "count from 0 to 1" --hosts 2 --cores 0.5 --slow 2:0.5
refused 2 "does not fit" --hosts 2 --memory 9999g
refused 2 "there is no folder" --hosts 2 --hide 1:/nonsense
refused 2 "is no size" --hosts 2 --disk /mnt/lab=many
refused 2 "does not exist on a machine" --hosts 1 --cores $((cpus + 1))
refused 1 "--dilation 6 would do" --hosts $((cpus * 5)) --cores 1
refused 2 "small letters" --hosts 2 --name L9
tc qdisc add dev lo root netem delay 0 2>/dev/null && tc qdisc del dev lo root || refused 1 "netem" --hosts 2 --delay 1ms
unprivileged=$(setpriv --reuid 65534 --clear-groups bash "$lab/up" --hosts 2 2>&1) && fail "it works without root?"
[[ $unprivileged == *"need root"* || $unprivileged == *"ermission denied"* ]] || fail "without root: $unprivileged"

# An `up` that fails at its second host, and one that is killed.
refused 1 "took down" --hosts 2 --disk 1:/proc/nowhere=1m
traces >after
diff before after || fail "a failed lab/up left something behind (see above)"
"$lab/up" --hosts 8 --name ta >/dev/null 2>&1 & up=$!
sleep 0.3
kill -9 $up 2>/dev/null
wait $up 2>/dev/null
"$lab/down" --name ta >/dev/null || fail "lab/down after a killed lab/up"
"$lab/up" --hosts 8 --name ta >/dev/null 2>&1 & up=$!
sleep 0.3
kill -TERM $up 2>/dev/null
wait $up 2>/dev/null
"$lab/down" --name ta >/dev/null
traces >after
diff before after || fail "a killed lab/up left something behind (see above)"

# What is written where cgroups are of version 2, which this machine may not have: into plain files, in its place.
mkdir v2 && echo "cpu memory" >v2/cgroup.controllers && echo "cpu memory" >v2/cgroup.subtree_control
written=$(LAB_CGROUPS=$folder/v2 lab=tc tool=test bash -c '. "$0/lib/units.sh"; . "$0/lib/cgroups.sh"
    check_cgroups; mkdir -p v2/paceline-lab-tc/tc0; touch v2/paceline-lab-tc/tc0/memory.swap.max
    limit_host tc0 166666 268435456; cd v2/paceline-lab-tc; cat cgroup.subtree_control tc0/cpu.max tc0/memory.max tc0/memory.swap.max' "$lab" | tr '\n' ';')
check "cgroups of version 2" "+cpu +memory;1666 10000;268435456;0;" "$written"
echo "cpuset" >v2/cgroup.controllers
LAB_CGROUPS=$folder/v2 tool=test bash -c '. "$0/lib/units.sh"; . "$0/lib/cgroups.sh"; check_cgroups' "$lab" >said 2>&1 && fail "a machine without the controller cpu was accepted"
grep -q "has no 'cpu'" said || fail "without the controller cpu: $(cat said)"
echo "lab: hosts are what was asked for, and nothing is left behind"
