# shellcheck shell=bash
# A host: a process that keeps its namespaces (processes, mounts, name, IPC) and is killed to end everything in it.

start_host() {                              # start_host HOST: after its file is written and its cable is plugged in
    local wishes=() path i
    read_host "$1"
    for path in "${hidden[@]}"; do wishes+=(hide "$path"); done
    for path in "${disks[@]}"; do wishes+=(disk "${path%=*}" "${path##*=}"); done
    (
        [ "$limited" = 0 ] || enter_cgroup "$1"
        exec 9>&-
        exec setsid nsenter --net="/run/netns/$1" unshare --uts --ipc --mount --pid --fork --propagation private \
            "$here/lib/keeper" "$state" "$1" "${wishes[@]}"
    ) </dev/null >/dev/null 2>"$state/$1.errors" &
    for ((i = 0; i < 200; i++)); do
        read_host "$1"
        if alive; then rm -f "$state/$1.errors"; return; fi
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    stop 1 "host $1 did not start: $(cat "$state/$1.errors")"
}

start_head() {                              # the machine itself, only with the names of the hosts: where lab/run starts launchers
    local i
    (
        exec 9>&-
        exec setsid unshare --mount --propagation private \
            bash -c 'mount --bind "$1/names" /etc/hosts && echo "$$" >"$1/head" && exec sleep infinity' head "$state"
    ) </dev/null >/dev/null 2>"$state/head.errors" &
    for ((i = 0; i < 200; i++)); do
        if [ -s "$state/head" ]; then rm -f "$state/head.errors"; return; fi
        sleep 0.05
    done
    stop 1 "cannot show the names of the hosts to lab/run: $(cat "$state/head.errors")"
}

end_process() {                             # end_process PID: and wait until it is gone
    local i
    kill -9 "$1" 2>/dev/null || return 0
    for ((i = 0; i < 100; i++)); do [ -d "/proc/$1/ns" ] || return 0; sleep 0.05; done
    return 1
}

take_down() {                               # take_down, after read_lab: whatever of the lab there is; can be repeated
    local host names id bad=0
    mapfile -t names < <(host_names)
    for host in "${names[@]}"; do
        read_host "$host"
        ! alive || end_process "$pid" || { echo "$tool: process $pid of $host does not end" >&2; bad=1; }
        for id in $(processes_of "$host"); do end_process "$id" || bad=1; done
        unplug "$host" || { echo "$tool: the network namespace $host is still there" >&2; bad=1; }
    done
    [ ! -s "$state/head" ] || end_process "$(cat "$state/head")" || bad=1
    ip link del "$bridge" 2>/dev/null
    remove_cgroups "${names[@]}" || bad=1
    [ "${etc_hosts:-0}" = 0 ] || forget_names || bad=1
    for host in "${made[@]}"; do rmdir "$host" 2>/dev/null; done
    [ $bad = 0 ] && rm -rf "${state:?}"
}

learn_names() {                             # for --etc-hosts: a block of lines in the hosts file of the machine
    { printf '# lab %s: begin\n' "$lab"; grep -w "$subnet" "$state/names"; printf '# lab %s: end\n' "$lab"; } >>/etc/hosts
}

forget_names() {                            # written in place: /etc/hosts may be a mount
    local rest
    rest=$(sed "/^# lab $lab: begin$/,/^# lab $lab: end$/d" /etc/hosts; echo .) && printf '%s' "${rest%.}" >/etc/hosts
}
