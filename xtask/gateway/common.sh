# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what sources this sets one, and reads the others
# What the checks of IKE daemons share: two network namespaces, `left` and `right`, each with a daemon that has the preloaded
# library and a table (`net/xfrm/examples/xfrmd.rs`) in the place of its kernel. Each file beside it sources this, with its name in
# `program`; namespaces and processes go however it ends. Wants root.
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../doors/common.sh"
PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" = 0 ] || lacks 'root, who makes network namespaces'
command -v ip >/dev/null || lacks 'ip (apt-get install iproute2)'
prefix=cmx$$
feeds=()
declare -A mark_of daemon_of feed_of

clean_up() {
    local side feed
    for feed in ${feeds[@]+"${feeds[@]}"}; do exec {feed}>&-; done
    finish
    for side in left right; do ip netns del "$prefix-$side" 2>/dev/null || true; done
}
trap clean_up EXIT

# The library and the table's program, of this checkout.
build_both() {
    local profile=()
    [ "${PROFILE:-release}" != release ] || profile=(--release)
    cargo build -q --locked ${profile[@]+"${profile[@]}"} -p ciphermill-xfrm-shim
    cargo build -q --locked ${profile[@]+"${profile[@]}"} -p ciphermill-xfrm --example xfrmd
    shim=$(realpath "$built/libciphermill_xfrm_shim.so")
    xfrmd=$(realpath "$built/examples/xfrmd")
}

address_of() { [ "$1" = left ] && echo 10.99.0.1 || echo 10.99.0.2; }
net_of() { [ "$1" = left ] && echo 10.98.1 || echo 10.98.2; }
other_than() { [ "$1" = left ] && echo right || echo left; }

within() { # SIDE COMMAND...
    local side=$1
    shift
    limited ip netns exec "$prefix-$side" "$@"
}

through() { # SIDE COMMAND...: with the library
    local side=$1
    shift
    within "$side" env "CIPHERMILL_XFRM=$scratch/$side.xfrm" "LD_PRELOAD=$shim" "$@"
}

# Namespaces that are joined, and a table for each. Its standard input stays open for lines, as `feed_of`.
make_sides() {
    local side feed
    ip netns add "$prefix-left" 2>"$scratch/netns.txt" || lacks "network namespaces: $(cat "$scratch/netns.txt")"
    ip netns add "$prefix-right"
    ip link add "$prefix-l" netns "$prefix-left" type veth peer name "$prefix-r" netns "$prefix-right" \
        2>"$scratch/netns.txt" || lacks "veth: $(cat "$scratch/netns.txt")"
    for side in left right; do
        within "$side" ip address add "$(address_of "$side")/24" dev "$prefix-${side:0:1}"
        within "$side" ip link set "$prefix-${side:0:1}" up
        within "$side" ip link set lo up
        within "$side" ip address add "$(net_of "$side").1/24" dev lo
        mkfifo "$scratch/$side.lines"
        setsid "$xfrmd" "$scratch/$side.xfrm" --keys <"$scratch/$side.lines" >"$scratch/$side.out" \
            2>>"$scratch/$side-table.log" 9>&- &
        started+=("$!")
        exec {feed}>"$scratch/$side.lines"
        feeds+=("$feed")
        feed_of[$side]=$feed
        expect "the table of $side listens" until_true 5 test -S "$scratch/$side.xfrm"
    done
}

# A daemon with the library, in a process group of its own.
start_daemon() { # SIDE COMMAND...
    local side=$1
    shift
    start "$side-daemon" ip netns exec "$prefix-$side" env "CIPHERMILL_XFRM=$scratch/$side.xfrm" "LD_PRELOAD=$shim" "$@"
    daemon_of[$side]=$server
}

# What was installed since `remember`, as both sides should have it: SPI, addresses and everything from the encapsulation on.
installed() { # SIDE
    tail -n "+$((mark_of[$1] + 1))" "$scratch/$1.out" | awk '/^(add|update) / {
        line = $2 " " $3 " " $4
        for (i = 10; i <= NF; i++) line = line " " $i
        print line
    }' | sort
}

remember() {
    local side
    for side in left right; do mark_of[$side]=$(wc -l <"$scratch/$side.out"); done
}

has_installed() { [ "$(installed "$1" | wc -l)" -ge "$2" ]; }
both_have_installed() { has_installed left "$1" && has_installed right "$1"; }

# Both sides have installed so many associations since `remember`, with the same SPIs and keys, of this kind.
expect_same() { # COUNT PATTERN
    expect "$1 associations on both sides" until_true 10 both_have_installed "$1"
    expect "the same SPIs and keys on both sides" [ "$(installed left)" = "$(installed right)" ]
    expect "$1 associations as $2" [ "$(installed left | grep -cE "$2")" = "$1" ]
    expect "$1 keys that differ" [ "$(installed left | awk '{print $NF, $(NF-1)}' | sort -u | wc -l)" = "$1" ]
}

# How many associations `ip xfrm` lists.
listed() { through "$1" ip xfrm state list | grep -c '^src' || true; }
lists() { [ "$(listed left)" = "$1" ] && [ "$(listed right)" = "$1" ]; }

stop_daemons() {
    local side
    for side in left right; do
        server=${daemon_of[$side]}
        stop TERM
    done
}

# A secret of both sides.
secret=$(od -An -N 16 -t x1 /dev/urandom | tr -d ' \n')
