# shellcheck shell=bash
# The way into a host: its limits first, so that nothing runs without them, then its namespaces.

enter_host() {                              # enter_host HOST FOLDER COMMAND…: replaces this process
    local folder=$2 found
    found=$(lab_of_host "$1")
    [ -n "$found" ] || stop 255 "there is no host $1 in any lab (lab/status lists them)"
    shift 2
    read_lab "${found%% *}"
    read_host "${found#* }"
    alive || stop 255 "host $host is not running any more; lab/down, then lab/up"
    [ "$limited" = 0 ] || enter_cgroup "$host"
    [ -z "$own" ] || taskset --cpu-list --pid "$own" $BASHPID >/dev/null || stop 1 "cannot keep $host to processor $own"
    # The folder is entered inside: from outside it would stay the machine's, without the host's own disks in it.
    # shellcheck disable=SC2016
    exec nsenter --target "$pid" --net --uts --ipc --mount --pid -- bash -c 'cd "$0" && exec "$@"' "$folder" "$@"
}
