# shellcheck shell=bash
# Quantities as people write them, as whole numbers that bash can count with: bit/s, bytes, microseconds, thousandths.

# What a command of the lab says when it cannot go on; $1 = 1 failed, 2 wrong input.
stop() { local code=$1; shift; printf '%s: %s\n' "${tool:-lab}" "$*" >&2; exit "$code"; }

thousandths() {                             # thousandths 0.5 -> 500; nothing if it is no number
    [[ $1 =~ ^([0-9]{1,6})(\.([0-9]{1,3})[0-9]*)?$ ]] || return 1
    local fraction=${BASH_REMATCH[3]}000
    echo $((10#${BASH_REMATCH[1]} * 1000 + 10#${fraction:0:3}))
}

decimal() {                                 # decimal 1500 -> 1.5
    local text
    printf -v text '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
    while [[ $text == *0 ]]; do text=${text%0}; done
    echo "${text%.}"
}

bits_per_second() {                         # 1800mbit, 1.8gbit, 100mbit, 64kbit
    local number unit
    [[ $1 =~ ^([0-9.]+)(k|m|g)bit$ ]] || return 1
    number=$(thousandths "${BASH_REMATCH[1]}") || return 1
    case ${BASH_REMATCH[2]} in k) unit=1 ;; m) unit=1000 ;; g) unit=1000000 ;; esac
    echo $((number * unit))
}

shown_rate() {                              # 1800000000 -> 1800mbit
    if [ "$1" = 0 ]; then echo unlimited; elif [ "$1" -ge 1000000 ]; then echo "$(decimal $(($1 / 1000)))mbit"
    else echo "$(decimal "$1")kbit"; fi
}

bytes() {                                   # 512k, 200m, 2g, 1.5g: powers of 1024, as cgroups and tmpfs have them
    local number unit
    [[ $1 =~ ^([0-9.]+)(k|m|g)$ ]] || return 1
    number=$(thousandths "${BASH_REMATCH[1]}") || return 1
    case ${BASH_REMATCH[2]} in k) unit=10 ;; m) unit=20 ;; g) unit=30 ;; esac
    echo $(((number << unit) / 1000))
}

shown_bytes() {
    if [ "$1" = 0 ]; then echo unlimited; elif [ "$1" -ge $((1 << 30)) ]; then echo "$(decimal $(($1 * 1000 >> 30)))g"
    elif [ "$1" -ge $((1 << 20)) ]; then echo "$(decimal $(($1 * 1000 >> 20)))m"; else echo "$(decimal $(($1 * 1000 >> 10)))k"; fi
}

microseconds() {                            # 0.5ms, 200us, 1s
    local number
    [[ $1 =~ ^([0-9.]+)(us|ms|s)$ ]] || return 1
    number=$(thousandths "${BASH_REMATCH[1]}") || return 1
    case ${BASH_REMATCH[2]} in us) echo $((number / 1000)) ;; ms) echo "$number" ;; s) echo $((number * 1000)) ;; esac
}
