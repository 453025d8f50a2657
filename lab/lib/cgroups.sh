# shellcheck shell=bash
# Processor and memory limits: cgroup v1 (one tree for each controller) or v2 (one tree). What cannot be limited is refused.
cgroups=${LAB_CGROUPS:-/sys/fs/cgroup}      # another folder only in tests

cgroup_version() {                          # 1, 2, or nothing
    if [ -e "$cgroups/cgroup.controllers" ]; then echo 2
    elif [ -d "$cgroups/cpu" ] && [ -d "$cgroups/memory" ]; then echo 1; fi
}

check_cgroups() {                           # check_cgroups: can this machine limit processors and memory?
    case $(cgroup_version) in
        1) for controller in cpu memory; do
            [ -w "$cgroups/$controller/cgroup.procs" ] ||
                stop 1 "cannot write to $cgroups/$controller: this machine (a container?) does not let us limit hosts; leave out --cores, --memory and --dilation, or use a machine of your own"
        done
        [ -e "$cgroups/cpu/cpu.cfs_quota_us" ] || stop 1 "the kernel has no CPU quota (CONFIG_CFS_BANDWIDTH); leave out --cores and --dilation" ;;
        2) for controller in cpu memory; do
            grep -qw $controller "$cgroups/cgroup.controllers" ||
                stop 1 "$cgroups/cgroup.controllers has no '$controller': limits are not possible here; leave out --cores, --memory and --dilation"
            grep -qw $controller "$cgroups/cgroup.subtree_control" || echo "+$controller" >"$cgroups/cgroup.subtree_control" 2>/dev/null ||
                stop 1 "cannot enable '$controller' in $cgroups/cgroup.subtree_control (a container?): limits are not possible here; leave out --cores, --memory and --dilation, or use a machine of your own"
        done ;;
        *) stop 1 "no cgroups are mounted at $cgroups: processors and memory cannot be limited; leave out --cores, --memory and --dilation, or mount them" ;;
    esac
}

cgroup_folders() {                          # cgroup_folders HOST: all folders that make up its group
    case $(cgroup_version) in
        1) echo "$cgroups/cpu/paceline-lab-$lab/$1" "$cgroups/memory/paceline-lab-$lab/$1"
            if [ -d "$cgroups/cpuacct" ]; then echo "$cgroups/cpuacct/paceline-lab-$lab/$1"; fi ;;
        2) echo "$cgroups/paceline-lab-$lab/$1" ;;
    esac
}

# The kernel hands out processor time once each period. A short one, because a host that has used its share stands still
# until the next: with the usual 100 ms, ranks that wait for each other would mostly wait for periods. A share is at least
# 1 ms of a period, hence longer ones for small shares.
period_of() {                               # period_of SHARE (millionths of a core): microseconds
    local period=10000
    [ $((period * $1 / 1000000)) -ge 1000 ] || period=$(((1000 * 1000000 + $1 - 1) / $1))
    [ "$period" -le 1000000 ] || return 1
    echo "$period"
}

write_limit() { echo "$2" >"$1" || stop 1 "the kernel refused '$2' for $1"; }

limit_host() {                              # limit_host HOST SHARE MEMORY: 0 leaves free
    local folder period
    if [ "$(cgroup_version)" = 2 ]; then
        mkdir -p "$cgroups/paceline-lab-$lab"
        if [ "$2$3" != 00 ]; then write_limit "$cgroups/paceline-lab-$lab/cgroup.subtree_control" "+cpu +memory"; fi
    fi
    for folder in $(cgroup_folders "$1"); do
        mkdir -p "$folder" || stop 1 "cannot make $folder"
        if [ "$2" != 0 ]; then
            period=$(period_of "$2")
            case $folder in
                "$cgroups"/cpu/*) write_limit "$folder/cpu.cfs_period_us" "$period"
                    write_limit "$folder/cpu.cfs_quota_us" $((period * $2 / 1000000)) ;;
                "$cgroups"/paceline*) write_limit "$folder/cpu.max" "$((period * $2 / 1000000)) $period" ;;
            esac
        fi
        if [ "$3" != 0 ]; then
            case $folder in
                "$cgroups"/memory/*) write_limit "$folder/memory.limit_in_bytes" "$3"
                    if [ -e "$folder/memory.memsw.limit_in_bytes" ]; then write_limit "$folder/memory.memsw.limit_in_bytes" "$3"; fi ;;
                "$cgroups"/paceline*) write_limit "$folder/memory.max" "$3"
                    if [ -e "$folder/memory.swap.max" ]; then write_limit "$folder/memory.swap.max" 0; fi ;;
            esac
        fi
    done
}

allowed_cpus() {                            # the processors that we may use, one a line
    local range
    for range in $(awk '/^Cpus_allowed_list/ { gsub(",", " "); $1 = ""; print }' /proc/self/status); do
        seq "${range%-*}" "${range#*-}"
    done
}

enter_cgroup() {                            # enter_cgroup HOST: this process, and what it will start
    local folder
    for folder in $(cgroup_folders "$1"); do
        echo "$BASHPID" >"$folder/cgroup.procs" 2>/dev/null || stop 1 "cannot put a process into $folder; is $1 still up? (lab/status)"
    done
}

cpu_seconds() {                             # cpu_seconds HOST: processor time used so far, in thousandths; nothing if not counted
    local folder
    for folder in $(cgroup_folders "$1"); do
        if [ -e "$folder/cpuacct.usage" ]; then echo $(($(<"$folder/cpuacct.usage") / 1000000)); return; fi
        if grep -qs ^usage_usec "$folder/cpu.stat"; then awk '/^usage_usec/ { print int($2 / 1000) }' "$folder/cpu.stat"; return; fi
    done
}

remove_cgroups() {                          # remove_cgroups HOST…: after their processes ended
    local folder host try
    for host in "$@"; do
        for folder in $(cgroup_folders "$host"); do
            for try in 1 2 3 4 5 6 7 8 9 10; do
                [ -d "$folder" ] && ! rmdir "$folder" 2>/dev/null || break
                sleep 0.1                   # a process that was killed is still on its way out
            done
            [ ! -d "$folder" ] || { echo "${tool:-lab}: $folder is still in use after $try tries" >&2; return 1; }
        done
    done
    for folder in $(cgroup_folders x); do rmdir "${folder%/x}" 2>/dev/null; done
    return 0
}
