#!/usr/bin/env bash
# Two daemons of strongSwan in network namespaces, each with the preloaded library and a table in the place of its kernel: whether
# both sides install the same SPIs and keys, with and without UDP encapsulation; packets that need an association, limits that
# are reached, rekeying, deletion. Wants root, for namespaces.
program=strongswan-keys
# shellcheck source=xtask/gateway/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=xtask/gateway/swan.sh
. "$(dirname "${BASH_SOURCE[0]}")/swan.sh"
lacks_swan openssl kernel-netlink socket-default
build_both
make_sides

# shellcheck disable=SC2329 # by tell_daemon
connections() { # SIDE
    connection "$1" raw no aes128gcm16-x25519
    connection "$1" udp yes aes256-sha256-esn-noesn
    connection "$1" trapped yes chacha20poly1305-esn "$([ "$1" = right ] || printf 'start_action = trap\n')
            rekey_packets = 100
            rand_packets = 0
            life_packets = 10000"
}

for side in left right; do
    strongswan_conf "$side" 'openssl random nonce kdf kernel-netlink socket-default vici'
    start_daemon "$side" env "STRONGSWAN_CONF=$scratch/$side.conf" charon-systemd
    tell_daemon "$side"
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

# A peer behind a NAT that gives it another port.
way=mapped
incoming=$(through right ip xfrm state list | awk '/^src 10\.99\.0\.3/ { ours = 1; next } ours && /spi 0x/ { print substr($4, 3); exit }')
has_port() { [ "$(through right ip xfrm state list | grep -cE "[sd]port $1 ")" = 2 ]; }
expect 'the usual port' has_port 4500
echo "mapping $incoming 10.99.0.3 4600" >&"${feed_of[right]}"
expect 'the associations of the right side have the new port' until_true 10 has_port 4600
expect 'the same keys as before' [ "$(keys_of right)" = "$keys" ]
ok 'a peer whose port changes'

# A daemon that ends takes its associations and policies with it.
way=end
stop_daemons
expect 'nothing is left' until_true 10 lists 0
expect 'no policy is left' [ "$(through left ip xfrm policy list)$(through right ip xfrm policy list)" = '' ]
ok 'both daemons have ended and left nothing'
