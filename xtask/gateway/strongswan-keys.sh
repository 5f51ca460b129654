#!/usr/bin/env bash
# Two daemons of strongSwan in network namespaces, each with the preloaded library and a table in the place of its kernel: whether
# both sides install the same SPIs and keys, with and without UDP encapsulation; packets that need an association, limits that
# are reached, rekeying, deletion. Wants root, for namespaces.
program=strongswan-keys
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../doors/common.sh"
PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" = 0 ] || lacks 'root, who makes network namespaces'
command -v ip >/dev/null || lacks 'ip (apt-get install iproute2)'
command -v charon-systemd >/dev/null || lacks 'charon (apt-get install charon-systemd)'
command -v swanctl >/dev/null || lacks 'swanctl (apt-get install strongswan-swanctl)'
for plugin in openssl kernel-netlink socket-default; do
    [ -e "/usr/lib/ipsec/plugins/libstrongswan-$plugin.so" ] ||
        lacks "strongSwan's plugin $plugin (apt-get install libcharon-extra-plugins libstrongswan-standard-plugins)"
done
case ${PROFILE:-release} in release) build=(--release) ;; *) build=() ;; esac
cargo build -q --locked ${build[@]+"${build[@]}"} -p ciphermill-xfrm-shim
cargo build -q --locked ${build[@]+"${build[@]}"} -p ciphermill-xfrm --example xfrmd
shim=$(realpath "$built/libciphermill_xfrm_shim.so")
xfrmd=$(realpath "$built/examples/xfrmd")
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

ip netns add "$prefix-left" 2>"$scratch/netns.txt" || lacks "network namespaces: $(cat "$scratch/netns.txt")"
ip netns add "$prefix-right"
ip link add "$prefix-l" netns "$prefix-left" type veth peer name "$prefix-r" netns "$prefix-right" 2>"$scratch/netns.txt" ||
    lacks "veth: $(cat "$scratch/netns.txt")"

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
swan() { # SIDE ARGUMENTS...
    local side=$1 command=$2
    shift 2
    limited swanctl "--$command" --uri "unix://$scratch/$side.vici" "$@" >>"$scratch/swanctl.log" 2>&1
}

strongswan_conf() { # SIDE
    cat <<END
charon-systemd {
    load = openssl random nonce kdf kernel-netlink socket-default vici
    install_routes = no
    install_virtual_ip = no
    delete_rekeyed_delay = 1
    journal { default = -1 }
    filelog {
        all {
            path = $scratch/$1-charon.log
            default = 1
            knl = 2
            flush_line = yes
        }
    }
    plugins {
        vici { socket = unix://$scratch/$1.vici }
    }
}
END
}

connection() { # SIDE NAME ENCAP ESP MORE-OF-THE-CHILD
    local other
    other=$(other_than "$1")
    cat <<END
    $2 {
        version = 2
        local_addrs = $(address_of "$1")
        remote_addrs = $(address_of "$other")
        proposals = aes128-sha256-x25519
        encap = $3
        local { auth = psk
            id = $2-$1 }
        remote { auth = psk
            id = $2-$other }
        children { $2 {
            local_ts = $(net_of "$1").0/24
            remote_ts = $(net_of "$other").0/24
            esp_proposals = $4
            $5
        } }
    }
END
}

swanctl_conf() { # SIDE
    echo 'connections {'
    connection "$1" raw no aes128gcm16-x25519 ''
    connection "$1" udp yes aes256-sha256-esn-noesn ''
    connection "$1" trapped yes chacha20poly1305-esn "$([ "$1" = right ] || printf 'start_action = trap\n')
            rekey_packets = 100
            rand_packets = 0
            life_packets = 10000"
    echo '}'
    cat <<END
secrets {
    ike { secret = "$secret" }
}
END
}

# A table, whose standard input stays open for lines, and a daemon that has it for its kernel.
begin() { # SIDE
    local feed
    within "$1" ip address add "$(address_of "$1")/24" dev "$prefix-${1:0:1}"
    within "$1" ip link set "$prefix-${1:0:1}" up
    within "$1" ip link set lo up
    mkfifo "$scratch/$1.lines"
    setsid "$xfrmd" "$scratch/$1.xfrm" --keys <"$scratch/$1.lines" >"$scratch/$1.out" 2>>"$scratch/$1-table.log" 9>&- &
    started+=("$!")
    exec {feed}>"$scratch/$1.lines"
    feeds+=("$feed")
    feed_of[$1]=$feed
    expect "the table of $1 listens" until_true 5 test -S "$scratch/$1.xfrm"
    strongswan_conf "$1" >"$scratch/$1.conf"
    start "$1-daemon" ip netns exec "$prefix-$1" env "STRONGSWAN_CONF=$scratch/$1.conf" \
        "CIPHERMILL_XFRM=$scratch/$1.xfrm" "LD_PRELOAD=$shim" charon-systemd
    daemon_of[$1]=$server
    expect "the daemon of $1 listens" until_true 10 test -S "$scratch/$1.vici"
}

# What was installed since the mark, as both sides should have it: SPI, addresses and everything from the encapsulation on.
installed() { # SIDE
    tail -n "+$((mark_of[$1] + 1))" "$scratch/$1.out" | awk '/^(add|update) / {
        line = $2 " " $3 " " $4
        for (i = 10; i <= NF; i++) line = line " " $i
        print line
    }' | sort
}
remember() { for side in left right; do mark_of[$side]=$(wc -l <"$scratch/$side.out"); done; }
has_installed() { [ "$(installed "$1" | wc -l)" -ge "$2" ]; }
both_have_installed() { has_installed left "$1" && has_installed right "$1"; }

# Both sides have installed so many associations since the mark, with the same SPIs and keys, of this kind.
expect_same() { # COUNT PATTERN
    expect "$1 associations on both sides" until_true 10 both_have_installed "$1"
    expect "the same SPIs and keys on both sides" [ "$(installed left)" = "$(installed right)" ]
    expect "$1 associations as $2" [ "$(installed left | grep -cE "$2")" = "$1" ]
    expect "$1 keys that differ" [ "$(installed left | awk '{print $NF, $(NF-1)}' | sort -u | wc -l)" = "$1" ]
}

# How many associations `ip xfrm` lists.
listed() { through "$1" ip xfrm state list | grep -c '^src' || true; }
lists() { [ "$(listed left)" = "$1" ] && [ "$(listed right)" = "$1" ]; }

secret=$(od -An -N 16 -t x1 /dev/urandom | tr -d ' \n')
for side in left right; do begin "$side"; done
for side in left right; do
    swanctl_conf "$side" >"$scratch/$side.swanctl"
    swan "$side" load-all --file "$scratch/$side.swanctl"
done

check_connection() { # NAME PATTERN
    way=$1
    remember
    swan left initiate --child "$1"
    expect_same 2 "$2"
    expect 'two associations listed on each side' until_true 10 lists 2
    remember
    swan left rekey --child "$1"
    expect_same 2 "$2"
    expect 'the old associations are gone' until_true 10 lists 2
    swan right terminate --ike "$1"
    expect 'no association is left' until_true 10 lists 0
    ok 'initiated, rekeyed, deleted'
}

check_connection raw 'raw rfc4106\(gcm\(aes\)\) [0-9a-f]{40} 128$'
check_connection udp 'udp 4500 4500 cbc\(aes\) [0-9a-f]{64} hmac\(sha256\) [0-9a-f]{64} 128$'

# A packet that needs an association, and then as many as the association may carry before it is replaced.
way=trapped
remember
echo 'acquire 10.98.1.7 10.98.2.7' >&"${feed_of[left]}"
expect_same 2 'rfc7539esp\(chacha20,poly1305\) [0-9a-f]{72} 128$'
ok 'a packet that needs an association'
outgoing=$(installed left | awk '$2 == "10.99.0.1" { print $1 }')
remember
echo "packets $outgoing 200" >&"${feed_of[left]}"
expect_same 2 'rfc7539esp\(chacha20,poly1305\) [0-9a-f]{72} 128$'
expect 'the old associations are gone' until_true 10 lists 2
ok 'a limit that is reached'

# Another address of the left side: both move their associations there, with the keys that their kernels tell them.
way=moved
keys_of() { through "$1" ip xfrm state list | awk '/^\taead/ { print $3 }' | sort; }
has_moved() { [ "$(through "$1" ip xfrm state list | grep -c '10\.99\.0\.3')" = 2 ] && lists 2; }
keys=$(keys_of left)
expect 'two keys' [ "$(wc -l <<<"$keys")" = 2 ]
within left ip address del 10.99.0.1/24 dev "$prefix-l"
within left ip address add 10.99.0.3/24 dev "$prefix-l"
expect 'the associations of the left side have moved' until_true 20 has_moved left
expect 'those of the right side have moved' until_true 20 has_moved right
expect 'the same keys as before, on both sides' [ "$(keys_of left) $(keys_of right)" = "$keys $keys" ]
ok 'an address that changes'

# A daemon that ends takes its associations and policies with it.
way=end
for side in left right; do
    server=${daemon_of[$side]}
    stop TERM
done
expect 'nothing is left' until_true 10 lists 0
expect 'no policy is left' [ "$(through left ip xfrm policy list)$(through right ip xfrm policy list)" = '' ]
ok 'both daemons have ended and left nothing'
