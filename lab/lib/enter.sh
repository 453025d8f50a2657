# shellcheck shell=bash
# The way into a host: its limits first, so that nothing runs without them, then its namespaces.

enter_host() {                              # enter_host HOST PREFIX… -- COMMAND…: replaces this process; sets up nothing else
    local host_name=$1 found options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    found=$(lab_of_host "$host_name")
    [ -n "$found" ] || stop 255 "there is no host $host_name in any lab (lab/status lists them)"
    read_lab "${found%% *}"
    read_host "${found#* }"
    alive || stop 255 "host $host is not running any more; lab/down, then lab/up"
    [ "$limited" = 0 ] || enter_cgroup "$host"
    exec nsenter --target "$pid" --net --uts --ipc --mount --pid "${options[@]}" -- "$@"
}
