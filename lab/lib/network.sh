# shellcheck shell=bash
# The wires: one bridge for a lab, one cable (veth pair) to each host, shaped at both ends.

check_network() {                           # check_network DELAY: has this machine what we need?
    local command scratch=plprobe$$ reason
    for command in ip tc nsenter unshare flock; do
        command -v $command >/dev/null || stop 1 "$command is missing; Debian: apt-get install iproute2 util-linux"
    done
    ip netns add $scratch 2>/dev/null || stop 1 "the kernel does not let us make a network namespace (a container without CAP_SYS_ADMIN?); use a machine of your own"
    if ! reason=$(ip -n $scratch link add probe0 type veth peer name probe1 2>&1); then
        ip netns del $scratch
        stop 1 "the kernel makes no virtual cables (veth): $reason"
    fi
    if ! reason=$(tc -n $scratch qdisc add dev probe0 root tbf rate 1mbit burst 32kb latency 50ms 2>&1); then
        ip netns del $scratch
        stop 1 "the kernel cannot limit a link (qdisc tbf): ${reason%%$'\n'*}"
    fi
    if [ "$1" != 0 ] && ! reason=$(tc -n $scratch qdisc add dev probe1 root netem delay 1ms 2>&1); then
        ip netns del $scratch
        stop 1 "--delay needs the kernel's netem, which this one does not have (${reason%%$'\n'*}); load the module sch_netem, use a kernel with CONFIG_NET_SCH_NETEM, or leave out --delay"
    fi
    ip netns del $scratch
}

free_subnet() {                             # the first of 10.77.0, 10.77.1, … that no interface or route here uses
    local i used
    used=$(ip -4 -o addr show; ip -4 route show)
    for ((i = 0; i < 256; i++)); do
        [[ $used == *"10.77.$i."* ]] || { echo "10.77.$i"; return; }
    done
    stop 1 "all of 10.77.0.0/16 is in use on this machine"
}

shape() {                                   # shape NETNS|- DEVICE RATE DELAY: a link of this rate by the wall; 0 leaves free
    local where=() burst tbf=()
    [ "$1" = - ] || where=(-n "$1")
    if [ "$3" != 0 ]; then
        # A millisecond of the link (in the lab's time) at once: too little to hide the limit. At least what TCP hands over in
        # one piece, or the kernel would cut it up here and use several times the processor for it.
        burst=$(($3 * dilation / 1000 / 8 / 875)) && [ $burst -ge 68000 ] || burst=68000
        tc "${where[@]}" qdisc add dev "$2" root handle 1: tbf rate "$3"bit burst "$burst" latency "$((50 * dilation / 1000))"ms ||
            stop 1 "the kernel refused a rate of $(shown_rate "$3") on $2"
        tbf=(parent 1:1 handle 10:)
    fi
    if [ "$4" != 0 ]; then                  # a long queue, or fast links would lose what waits for its time
        [ ${#tbf[@]} -gt 0 ] || tbf=(root handle 10:)
        tc "${where[@]}" qdisc add dev "$2" "${tbf[@]}" netem delay "$4"us limit 20000 || stop 1 "the kernel refused a delay of $4 µs on $2"
    fi
}

make_bridge() {
    ip link add "$bridge" type bridge || stop 1 "cannot make the bridge $bridge"
    ip addr add "$subnet.254/24" dev "$bridge"
    ip link set "$bridge" up
}

plug_in() {                                 # plug_in HOST: its namespace and cable; half of the delay at each end
    ip netns add "$1" || stop 1 "cannot make the network namespace $1"
    ip link add "$cable" type veth peer name eth0 netns "$1" || stop 1 "cannot make a cable to $1"
    ip link set "$cable" master "$bridge" up
    ip -n "$1" link set lo up
    ip -n "$1" addr add "$address/24" dev eth0
    ip -n "$1" link set eth0 up
    shape "$1" eth0 "$rate" $((delay / 2))
    shape - "$cable" "$rate" $(((delay + 1) / 2))
}

unplug() {                                  # unplug HOST: the cable goes with the namespace
    ip link del "$cable" 2>/dev/null
    if [ -e "/run/netns/$1" ]; then ip netns del "$1" || return 1; fi
}
