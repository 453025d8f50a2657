# shellcheck shell=bash
# What is known of each lab that is up: a folder of small files, so that any command, also after a crash, can read it.
#
#   /run/paceline-lab/NAME/lab          shell assignments: subnet, bridge, dilation, …
#   /run/paceline-lab/NAME/hosts/HOST   shell assignments of one host: its limits, and pid, the process that keeps it
#   /run/paceline-lab/NAME/names        the hosts file that all of them see
labs=/run/paceline-lab

needs_root() {
    [ "$(id -u)" = 0 ] || stop 1 "network namespaces and cgroups need root; run it with sudo, or in a virtual machine of your own"
}

locked() {                                  # one command at a time makes or removes labs; give up after a minute
    mkdir -p $labs
    exec 9>$labs/lock
    flock -w 60 9 || stop 1 "another lab command has held $labs/lock for a minute; wait for it to end and try again"
}

lab_names() { local folder; for folder in "$labs"/*/; do [ -d "$folder" ] && basename "$folder"; done; return 0; }

chosen_lab() {                              # chosen_lab NAME: that lab; without a name $LAB_NAME, or the only one there is
    local names wanted=${1:-${LAB_NAME:-}}
    mapfile -t names < <(lab_names)
    if [ -n "$wanted" ]; then
        [ -d "$labs/$wanted" ] || stop 1 "there is no lab $wanted; running: ${names[*]:-none} (start one with lab/up)"
        echo "$wanted"
    elif [ ${#names[@]} = 0 ]; then stop 1 "no lab is running; start one with lab/up"
    elif [ ${#names[@]} = 1 ]; then echo "${names[0]}"
    else stop 1 "${#names[@]} labs are running (${names[*]}); say which: --name NAME"; fi
}

lab_of_host() {                             # lab_of_host HOST: the lab that it belongs to; an address works too
    local file
    for file in "$labs"/*/hosts/*; do
        [ -e "$file" ] || continue
        if [ "${file##*/}" = "$1" ] || grep -qx "address=$1" "$file"; then echo "${file#"$labs"/}"; return; fi
    done | sed 's|/hosts/| |'
}

find_host() {                               # find_host NAME HOST: "LAB HOST", by name, address, or number within the lab NAME (see chosen_lab)
    local found wanted=$2
    if [ -n "$1" ] || [[ $wanted =~ ^[0-9]+$ ]]; then
        local lab
        lab=$(chosen_lab "$1") || return
        [[ ! $wanted =~ ^[0-9]+$ ]] || wanted=$lab$((10#$wanted))
        found=$(lab_of_host "$wanted")
        [ "${found%% *}" = "$lab" ] || stop 1 "there is no host $2 in lab $lab (lab/status lists them)"
    else
        found=$(lab_of_host "$wanted")
        [ -n "$found" ] || stop 1 "there is no host $2 in any lab (lab/status lists them)"
    fi
    echo "$found"
}

read_lab() {                                # read_lab NAME: sets its variables
    lab=$1 state=$labs/$1
    # shellcheck source=/dev/null
    [ -e "$state/lab" ] && . "$state/lab"
}

read_host() {                               # read_host HOST, after read_lab: sets host, address, share, rate, …, pid
    local file=$state/hosts/$1
    [ -e "$file" ] || stop 1 "there is no host $1 in lab $lab; its hosts are $(host_names | tr '\n' ' ')"
    pid="" hidden=() disks=()
    # shellcheck source=/dev/null
    . "$file"
}

host_names() { find "$state/hosts" -type f -printf '%f\n' 2>/dev/null | sort -V; }

alive() { [ -n "${pid:-}" ] && [ -d "/proc/$pid/ns" ]; }

processes_of() {                            # processes_of HOST, after read_host: ids as this machine counts them
    local space folder
    alive || return 0
    space=$(readlink "/proc/$pid/ns/pid")
    for folder in /proc/[0-9]*; do
        [ "$(readlink "$folder/ns/pid" 2>/dev/null)" = "$space" ] && echo "${folder#/proc/}"
    done
    return 0
}
