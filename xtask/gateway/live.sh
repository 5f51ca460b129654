#!/usr/bin/env bash
# The gateway among real programs, in network namespaces: hosts that ping and send streams through two gateways, strongSwan's daemon
# as the one who makes keys, strongSwan's own ESP as the other end, packets that nobody wants, and captures instead of interfaces.
#
# Usage: live.sh [STEP]...     lab, mtu, path, ipv6, ike, libipsec, hostile, files; all of them without a name
#
# CIPHERMILL names the program; without it, the checkout's is built. MEGABYTES is the length of the streams (100). Wants root, but
# for `files`. What it prints of speed is a remark: hosts, gateways and measurement share the machine's cores.
program=live
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../doors/common.sh"
PATH=$PATH:/usr/sbin:/sbin
here=$PWD/xtask/gateway
python=${PYTHON:-python3}
megabytes=${MEGABYTES:-100}
LIMIT_SECONDS=${LIMIT_SECONDS:-$((60 + megabytes / 5))}
steps=(lab mtu path ipv6 ike libipsec hostile files)
[ $# = 0 ] || steps=("$@")
for step in "${steps[@]}"; do
    case $step in lab | mtu | path | ipv6 | ike | libipsec | hostile | files) ;; *) echo "$program: there is no step $step" >&2 && exit 2 ;; esac
done

[ "$(id -u)" = 0 ] || lacks 'root, who makes network namespaces'
{ command -v ip && command -v tc; } >/dev/null || lacks 'ip and tc (apt-get install iproute2)'
command -v ping >/dev/null || lacks 'ping (apt-get install iputils-ping)'
command -v tracepath >/dev/null || lacks 'tracepath (apt-get install iputils-tracepath)'
command -v tcpdump >/dev/null || lacks 'tcpdump (apt-get install tcpdump)'
command -v curl >/dev/null || lacks 'curl (apt-get install curl)'
command -v setpriv >/dev/null || lacks 'setpriv (apt-get install util-linux)'
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || lacks 'Python 3.10 or later (apt-get install python3)'
ciphermill=${CIPHERMILL:-}
if [ -z "$ciphermill" ]; then
    # What tests have built will do; built by itself it would be built anew, with all below it.
    if [ "${PROFILE:-release}" = release ]; then
        cargo build -q --release --locked -p ciphermill-cli --no-default-features
    elif [ ! -x "$built/ciphermill" ]; then
        cargo build -q --locked -p ciphermill-cli
    fi
    ciphermill=$built/ciphermill
fi
ciphermill=$(realpath "$ciphermill")
# Those without rights use it too.
chmod 755 "$scratch"
lab=live$$

clean_up() {
    finish
    set +e
    for side in left west east right path; do ip netns del "ciphermill-$lab-$side" 2>/dev/null || true; done
}
trap clean_up EXIT

within() { # SIDE COMMAND...
    local side=$1
    shift
    limited ip netns exec "ciphermill-$lab-$side" "$@"
}

start_within() { # LOG SIDE COMMAND...
    local log=$1 side=$2
    shift 2
    start "$log" ip netns exec "ciphermill-$lab-$side" "$@"
}

helper() { # SIDE COMMAND ARGUMENTS...
    local side=$1
    shift
    within "$side" "$python" "$here/live.py" "$@"
}

declare -A gateway_of=() daemon_of=()

lab_up() { # TRANSFORM
    local each
    "$ciphermill" gateway lab up --name "$lab" --out "$scratch/lab" --transform "$1" >"$scratch/lab-up.log" 2>&1 ||
        lacks "namespaces: $(tail -n 1 "$scratch/lab-up.log")"
    for each in west east; do rm -f "$scratch/$each-gateway.log"; done
}

lab_down() {
    "$ciphermill" gateway lab down --name "$lab" >>"$scratch/lab-up.log" 2>&1
}

says() { grep -qE "$2" "$scratch/$1.log" 2>/dev/null; } # LOG PATTERN

start_gateway() { # SIDE [FILE]
    start_within "$1-gateway" "$1" "$ciphermill" gateway run "${2:-$scratch/lab/$1.toml}" --lab-static-keys \
        --metrics-socket "$scratch/$1.metrics"
    gateway_of[$1]=$server
    expect "the gateway of $1 runs" until_true 30 says "$1-gateway" 'the gateway runs'
}

start_gateways() {
    start_gateway west
    start_gateway east
}

# Ends a gateway as Ctrl-C does; it has to end well, and to give back what it took.
stop_gateway() { # SIDE
    local status=0
    kill -INT "${gateway_of[$1]}"
    wait "${gateway_of[$1]}" || status=$?
    expect "the gateway of $1 ends with 0, not $status" [ "$status" = 0 ]
    expect "the gateway of $1 says what it did" says "$1-gateway" '^out: [0-9]+ packets protected'
    expect "the socket of $1 is gone" [ ! -e "$scratch/$1.metrics" ]
    expect "the filters of $1 are gone" [ -z "$(within "$1" tc filter show dev out ingress)$(within "$1" tc filter show dev in ingress)" ]
}

stop_gateways() {
    stop_gateway west
    stop_gateway east
}

metrics() { # SIDE
    limited curl -sS --fail --unix-socket "$scratch/$1.metrics" http://localhost/metrics
}

metric() { # SIDE NAME-WITH-LABELS
    metrics "$1" | awk -v name="ciphermill_gateway_$2" '$1 == name { print $2 }'
}

# Until both ends know their neighbours, packets are lost.
warm() { # FROM ADDRESS
    within "$1" ping -q -c 5 -i 0.2 -W 1 "$2" >/dev/null || true
    expect "$1 reaches $2" within "$1" ping -q -c 1 -W 2 "$2" >>"$scratch/ping.log"
}

# Numbered echoes; each has to come back once.
ping_begin() { # FROM ADDRESS COUNT INTERVAL [ARGUMENTS...]
    within "$1" ping -q -c "$3" -i "$4" -W 2 "${@:5}" "$2" >"$scratch/ping.log" 2>&1 &
    ping_pid=$!
}

ping_ended() { # COUNT
    local side
    wait "$ping_pid" || true
    if ! grep -q " 0% packet loss" "$scratch/ping.log"; then
        # Who lost them, and why.
        for side in west east; do
            [ ! -e "$scratch/$side.metrics" ] || metrics "$side" |
                awk -v side="$side" '/^ciphermill_gateway_(dropped|port)_total/ && $2 > 0 { print side ": " $0 }' >&2
        done
    fi
    expect "$1 of $1 answers" grep -qE "^$1 packets transmitted, $1 received, 0% packet loss" "$scratch/ping.log"
    expect 'no answer twice' [ "$(grep -c duplicates "$scratch/ping.log")" = 0 ]
}

# What a gateway has dropped, both ways.
dropped_by() { # SIDE
    metrics "$1" | awk '/^ciphermill_gateway_dropped_total/ { sum += $2 } END { print sum + 0 }'
}

# The same where the other end is another program, which may lose what it has in its hands while it changes keys: that the gateway of the west
# dropped nothing is asked of its counters.
ping_ended_beside() { # COUNT DROPPED-BEFORE
    local now lost
    wait "$ping_pid" || true
    now=$(dropped_by west)
    expect "the west dropped nothing: $2, then $now" [ "$now" = "$2" ]
    lost=$(($1 - $(awk '/packets transmitted/ { print $4 }' "$scratch/ping.log")))
    expect "at most 5 of $1 lost by the other end: $lost" [ "$lost" -le 5 ]
    [ "$lost" = 0 ] || echo "$program, $way: the other end lost $lost of $1 while it changed keys" >&2
}

all_return() { # FROM ADDRESS COUNT INTERVAL [ARGUMENTS...]
    ping_begin "$@"
    ping_ended "$3"
}

# A stream from one host to another, whole.
stream() { # FROM TO ADDRESS
    local sent receiver
    rm -f "$scratch/receive.log"
    helper "$2" receive "$3" 5001 >"$scratch/received" 2>"$scratch/receive.log" &
    receiver=$!
    expect 'the receiver listens' until_true 10 says receive listens
    sent=$(helper "$1" send "$3" 5001 "$megabytes" 2>"$scratch/send.log") || failed "${BASH_LINENO[0]}" "a stream from $1 to $2"
    wait "$receiver" || failed "${BASH_LINENO[0]}" "a stream from $1 to $2: its receiver"
    expect "the stream from $1 to $2 as it was sent" [ "$(cat "$scratch/received")" = "$sent" ]
    ok "$megabytes MB from $1 to $2 ($(cat "$scratch/send.log"))"
}

streams() {
    stream left right 10.77.2.2
    stream right left 10.77.1.2
}

datagrams() { # FROM TO ADDRESS COUNT RATE
    local receiver
    rm -f "$scratch/udp.log"
    helper "$2" udp-receive "$3" 5002 >"$scratch/received" 2>"$scratch/udp.log" &
    receiver=$!
    expect 'the receiver listens' until_true 10 says udp listens
    helper "$1" udp-send "$3" 5002 "$4" "$5"
    wait "$receiver"
    expect "$4 datagrams, none twice and all in order: $(cat "$scratch/received")" [ "$(cat "$scratch/received")" = "$4 0 0" ]
    ok "$4 datagrams"
}

# The last words of a command that has to fail, in one line.
complaint() { # WORDS COMMAND...: in the west
    local words=$1 status=0
    shift
    within west "$@" >"$scratch/complaint.log" 2>&1 </dev/null || status=$?
    expect "an error for: $words" [ "$status" != 0 ]
    expect "no panic for: $words" [ "$status" != 101 ]
    expect "$words in: $(cat "$scratch/complaint.log")" grep -qE "$words" "$scratch/complaint.log"
}

complaints() {
    local run=("$ciphermill" gateway run)
    complaint 'No such file' "${run[@]}" "$scratch/none.toml"
    sed 's/aes-128-gcm/aes-129-gcm/' "$scratch/lab/west.toml" >"$scratch/lab/bad.toml"
    complaint 'aes-129-gcm. is no ESP transform' "${run[@]}" "$scratch/lab/bad.toml"
    sed 's/"out"/"nowhere"/' "$scratch/lab/west.toml" >"$scratch/lab/bad.toml"
    complaint 'no interface nowhere|interface nowhere' "${run[@]}" "$scratch/lab/bad.toml" --lab-static-keys
    complaint 'lab-static-keys' "${run[@]}" "$scratch/lab/west.toml"
    # The file is readable, the interfaces are not.
    chmod a+rX "$scratch/lab" "$scratch/lab/west.toml"
    complaint '[Oo]peration not permitted|CAP_NET' setpriv --reuid 65534 --regid 65534 --clear-groups \
        "${run[@]}" "$scratch/lab/west.toml" --lab-static-keys
    ok 'errors that say what is wrong'
}

step_lab() {
    way=lab
    local told count each
    lab_up aes-128-gcm
    start_gateways
    warm left 10.77.2.2
    all_return left 10.77.2.2 500 0.005
    all_return right 10.77.1.2 500 0.005
    all_return left 10.77.2.2 200 0.005 -s 1372
    ok 'pings'
    datagrams left right 10.77.2.2 10000 5000
    streams
    ping_begin left 10.77.2.2 1500 0.002
    for each in 1 2 3 4 5; do
        sleep 0.4
        kill -HUP "${gateway_of[west]}" "${gateway_of[east]}"
    done
    ping_ended 1500
    for each in west east; do
        expect "$each has read its file again" [ "$(grep -c 'was read again' "$scratch/$each-gateway.log")" = 5 ]
    done
    ok 'SIGHUP under traffic'
    for each in west east; do
        count=$(metric "$each" 'done_total{way="out"}')
        expect "packets out of $each are counted: $count" [ "$count" -gt 5000 ]
        expect "two associations of $each" [ "$(metric "$each" 'associations{way="out"}')$(metric "$each" 'associations{way="in"}')" = 11 ]
    done
    "$ciphermill" top --socket "$scratch/west.metrics" --once >"$scratch/top.txt"
    expect "top shows the suite: $(cat "$scratch/top.txt")" grep -qi 'gcm' "$scratch/top.txt"
    ok 'metrics'
    complaint 'interface in: another gateway has it' "$ciphermill" gateway run "$scratch/lab/west.toml" --lab-static-keys
    stop_gateways
    ok 'Ctrl-C'
    complaints
    lab_down
}

# The insides carry longer packets than fit the path between the gateways within a tunnel.
lengthen() {
    local side
    for side in left west east right; do within "$side" ip link set in mtu 1500; done
}

step_mtu() {
    way=mtu
    local told
    lab_up aes-128-gcm
    lengthen
    start_gateways
    warm left 10.77.2.2
    told=$(within left ping -c 1 -W 1 -M 'do' -s 1472 10.77.2.2 2>&1 || true)
    expect "the sender hears of the MTU: $told" grep -qE 'From 10\.77\.1\.1 .*(mtu|MTU) = ?14[0-9][0-9]' <<<"$told"
    told=$(within left tracepath -n -m 4 10.77.2.2)
    expect "tracepath reaches the host: $told" grep -qE '10\.77\.2\.2 .*reached' <<<"$told"
    expect "tracepath finds the MTU: $told" grep -qE 'pmtu 14[0-9][0-9]' <<<"$told"
    within left ip route flush cache
    all_return left 10.77.2.2 20 0.02 -M dont -s 1472
    all_return left 10.77.2.2 20 0.02 -M dont -s 3000
    within left ip route flush cache
    streams
    ok 'packets that are too long'
    stop_gateways
    lab_down
}

# A router between the gateways, whose way to the east carries less than the interfaces.
add_router() {
    local side address
    ip netns add "ciphermill-$lab-path"
    within path sysctl -qw net.ipv4.ip_forward=1
    within west ip link del out
    for side in west east; do
        address=$(outside_of "$side")
        ip link add "$side" netns "ciphermill-$lab-path" type veth peer name out netns "ciphermill-$lab-$side"
        within path ip address add 203.0.113.1/32 dev "$side"
        within path ip link set "$side" up
        within path ip route add "$address" dev "$side"
        within "$side" ip address add "$address/32" dev out
        within "$side" ip link set out up
        within "$side" ip route add 203.0.113.1 dev out
    done
    within path ip route replace "$(outside_of east)" dev east mtu lock 1300
    within west ip route add "$(outside_of east)" via 203.0.113.1
    within east ip route add "$(outside_of west)" via 203.0.113.1
}

outside_of() { # SIDE
    sed -n 's/^local = "\(.*\)"/\1/p' "$scratch/lab/$1.toml" | head -n 1
}

step_path() {
    way=path
    local told
    lab_up aes-128-gcm
    lengthen
    add_router
    start_gateways
    warm left 10.77.2.2
    told=$(within left ping -c 4 -i 0.3 -W 1 -M 'do' -s 1300 10.77.2.2 2>&1 || true)
    expect "the gateway hears of the path, and the sender of what is left: $told" grep -qE 'From 10\.77\.1\.1 .*(mtu|MTU) = ?12[0-9][0-9]' <<<"$told"
    expect 'one error was heard' [ "$(metric west 'icmp_heard_total{way="in"}')" = 1 ]
    all_return left 10.77.2.2 20 0.02 -M dont -s 1300
    within left ip route flush cache
    streams
    ok 'a router whose way on carries less'
    stop_gateways
    lab_down
}

# IPv6 between the gateways and within, beside IPv4 within.
dual_stack() { # SIDE
    local own=1 other=2 inner=1 side
    [ "$1" = west ] || { own=2 && other=1 && inner=2; }
    side=$(sed -e "s/own_addresses = \[\"\([0-9.]*\)\"\]/own_addresses = [\"\1\", \"fd00:$inner::1\"]/" \
        -e "s/^local = .*/local = \"2001:db8::$own\"/" -e "s/^remote = .*/remote = \"2001:db8::$other\"/" \
        -e "s/^local_networks = \[\(.*\)\]/local_networks = [\1, \"fd00:$inner::\/64\"]/" \
        -e "s/^remote_networks = \[\(.*\)\]/remote_networks = [\1, \"fd00:$other::\/64\"]/" "$scratch/lab/$1.toml")
    echo "$side" >"$scratch/lab/$1.toml"
}

add_v6() { # SIDE INTERFACE ADDRESS
    within "$1" ip address add "$3/64" dev "$2" nodad
}

step_ipv6() {
    way=ipv6
    local told number=0 end
    lab_up chacha20-poly1305
    for end in 'left in fd00:1::2' 'west in fd00:1::1' 'west out 2001:db8::1' 'east out 2001:db8::2' 'east in fd00:2::1' \
        'right in fd00:2::2'; do
        read -r -a end <<<"$end"
        number=$((number + 1))
        add_v6 "${end[@]}"
        # Neighbours are looked for from one of these.
        add_v6 "${end[@]:0:2}" "fe80::$number"
    done
    within left ip -6 route add default via fd00:1::1
    within right ip -6 route add default via fd00:2::1
    dual_stack west
    dual_stack east
    lengthen
    start_gateways
    warm left fd00:2::2
    all_return left fd00:2::2 300 0.005
    all_return right fd00:1::2 300 0.005 -s 1300
    warm left 10.77.2.2
    all_return left 10.77.2.2 300 0.005
    ok 'pings of both families through IPv6'
    told=$(within left ping -c 1 -W 1 -M 'do' -s 1452 fd00:2::2 2>&1 || true)
    expect "the sender hears of the MTU: $told" grep -qE 'fd00:1::1 .*(mtu|MTU)[=: ]*1[34][0-9][0-9]' <<<"$told"
    told=$(within left tracepath -n -m 4 fd00:2::2)
    expect "tracepath reaches the host: $told" grep -qE 'fd00:2::2 .*reached' <<<"$told"
    within left ip route flush cache
    stream left right fd00:2::2
    stream right left fd00:1::2
    ok 'packets that are too long'
    stop_gateways
    lab_down
}

# shellcheck source=xtask/gateway/swan.sh
. "$here/swan.sh"
address_of() { [ "$1" = west ] && echo 192.0.2.1 || echo 192.0.2.2; }
net_of() { [ "$1" = west ] && echo 10.77.1 || echo 10.77.2; }
other_than() { [ "$1" = west ] && echo east || echo west; }

start_daemon() { # SIDE PLUGINS COMMAND-BEFORE...
    local side=$1 plugins=$2
    shift 2
    strongswan_conf "$side" "$plugins"
    start_within "$side-daemon" "$side" env "STRONGSWAN_CONF=$scratch/$side.conf" "$@" charon-systemd
    daemon_of[$side]=$server
    tell_daemon "$side"
}

stop_daemon() { # SIDE
    server=${daemon_of[$1]}
    stop TERM
    rm -f "$scratch/$1.vici"
}

build_shim() {
    shim=${SHIM:-}
    [ -n "$shim" ] || { cargo build -q --release --locked -p ciphermill-xfrm-shim && shim=$built/libciphermill_xfrm_shim.so; }
    shim=$(realpath "$shim")
}

# A gateway that has its keys from a daemon, and the daemon.
start_pair() { # SIDE
    cat >"$scratch/lab/$1-ike.toml" <<END
inside = { interface = "in" }
outside = { interface = "out" }
own_addresses = ["$(net_of "$1").1"]
ike = { socket = "../$1.xfrm", addresses = ["$(address_of "$1")"] }
END
    start_gateway "$1" "$scratch/lab/$1-ike.toml"
    expect "the gateway of $1 listens to daemons" until_true 10 test -S "$scratch/$1.xfrm"
    start_daemon "$1" 'openssl random nonce kdf kernel-netlink socket-default vici' \
        "CIPHERMILL_XFRM=$scratch/$1.xfrm" "LD_PRELOAD=$shim"
}

has_associations() { # SIDE COUNT
    [ "$(metric "$1" 'associations{way="out"}') $(metric "$1" 'associations{way="in"}')" = "$2 $2" ]
}

installed_by() { grep -cE 'CHILD_SA .* established|inbound CHILD_SA .* established' "$scratch/$1-charon.log" || true; }

# Child associations are replaced while echoes are on their way, and none is lost.
rekeys() { # NAME SIDES...
    local name=$1 side each before
    shift
    for side in "$@"; do
        before=$(dropped_by west)
        ping_begin left 10.77.2.2 1500 0.002
        for each in 1 2 3 4 5; do
            sleep 0.4
            swan "$side" rekey --child "$name"
        done
        if [ -n "${beside:-}" ]; then ping_ended_beside 1500 "$before"; else ping_ended 1500; fi
        ok "rekeyed 5 times by $side under traffic"
    done
}

terminated() { # NAME SIDE GATEWAYS...
    local side
    swan "$2" terminate --ike "$1"
    for side in "${@:3}"; do
        expect "no association is left in $side" until_true 10 has_associations "$side" 0
    done
    # Nothing goes in clear now.
    expect 'no packet comes through' [ "$(within left ping -q -c 3 -i 0.1 -W 1 10.77.2.2 | grep -c ' 0 received')" = 1 ]
    ok 'terminated'
}

step_ike() {
    way=ike
    local before side
    lacks_swan openssl kernel-netlink socket-default vici kdf
    build_shim
    # shellcheck disable=SC2329 # by start_daemon
    connections() {
        connection "$1" raw no aes128gcm16-x25519
        connection "$1" udp yes aes256-sha256-esn-x25519
        connection "$1" counted yes chacha20poly1305-esn-x25519 "rekey_packets = 300
            rand_packets = 0
            life_packets = 20000"
        connection "$1" trapped no aes128gcm16-x25519
    }
    lab_up aes-128-gcm
    for side in west east; do start_pair "$side"; done
    for way in raw udp; do
        swan west initiate --child "$way"
        warm left 10.77.2.2
        all_return left 10.77.2.2 500 0.005
        streams
        rekeys "$way" west east
        terminated "$way" east west east
    done
    way=counted
    swan west initiate --child counted
    warm left 10.77.2.2
    before=$(installed_by west)
    all_return left 10.77.2.2 3000 0.002
    expect "rekeyed a few times, from $before to $(installed_by west)" [ "$(installed_by west)" -ge $((before + 3)) ]
    ok "rekeyed $(($(installed_by west) - before)) times by counted packets"
    terminated counted west west east
    way=trapped
    swan west install --child trapped
    # The first packet asks for an association, and is lost.
    within left ping -q -c 3 -i 0.5 -W 1 10.77.2.2 >"$scratch/ping.log" || true
    warm left 10.77.2.2
    all_return left 10.77.2.2 200 0.005
    ok 'a packet that needs an association'
    way=killed
    kill -KILL "${daemon_of[west]}" "${gateway_of[west]}"
    expect 'both are gone' until_true 5 is_gone "${gateway_of[west]}"
    rm -f "$scratch/west.vici" "$scratch/west-gateway.log"
    start_pair west
    swan west initiate --child raw
    warm left 10.77.2.2
    all_return left 10.77.2.2 200 0.005
    ok 'a gateway and its daemon that were killed come back'
    way=end
    for side in west east; do
        stop_daemon "$side"
        expect "no association is left in $side" until_true 10 has_associations "$side" 0
    done
    stop_gateways
    lab_down
}

# strongSwan's own ESP, in user space, as the other end.
step_libipsec() {
    way=libipsec
    lacks_swan openssl kernel-netlink kernel-libipsec socket-default vici kdf chapoly
    [ -e /dev/net/tun ] || lacks '/dev/net/tun'
    build_shim
    # shellcheck disable=SC2329 # by start_daemon
    connections() {
        connection "$1" gcm yes aes128gcm16-x25519
        connection "$1" cbc yes aes128-sha256-x25519
        connection "$1" chacha yes chacha20poly1305-x25519
        connection "$1" esn yes aes128gcm16-esn-x25519
    }
    lab_up aes-128-gcm
    start_pair west
    within east sysctl -q -w net.ipv4.ip_forward=1
    local beside=strongswan
    start_daemon east 'openssl random nonce kdf chapoly kernel-libipsec kernel-netlink socket-default vici'
    for way in gcm cbc chacha; do
        swan west initiate --child "$way"
        warm left 10.77.2.2
        all_return left 10.77.2.2 500 0.005
        all_return right 10.77.1.2 500 0.005
        streams
        rekeys "$way" west east
        terminated "$way" east west
    done
    way=esn
    if swan west initiate --child esn && within left ping -q -c 5 -i 0.2 -W 1 10.77.2.2 >/dev/null; then
        all_return left 10.77.2.2 500 0.005
        ok '64-bit sequence numbers'
        terminated esn east west
    else
        omitted "64-bit sequence numbers, which this strongSwan's libipsec does not have"
        echo "$program, $way: left out: this strongSwan's libipsec has no 64-bit sequence numbers" >&2
    fi
    way=libipsec
    stop_daemon east
    stop_daemon west
    stop_gateway west
    lab_down
}

dropped() { metric "$1" "dropped_total{way=\"in\",reason=\"$2\"}"; }

capture_begin() { # SIDE INTERFACE FILE EXPRESSION...
    rm -f "$scratch/tcpdump.log"
    start_within tcpdump "$1" tcpdump -Z root -i "$2" -Q in -s 0 -w "$3" --immediate-mode -U -q "${@:4}"
    capture=$server
    expect 'tcpdump listens' until_true 10 says tcpdump 'listening on'
}

capture_ended() {
    sleep 0.3
    kill -INT "$capture"
    expect 'tcpdump ends' until_true 10 is_gone "$capture"
}

step_hostile() {
    way=hostile
    local count sent each before
    lab_up aes-128-gcm
    start_gateways
    warm left 10.77.2.2
    capture_begin east out "$scratch/esp.pcap" esp
    all_return left 10.77.2.2 200 0.005
    capture_ended
    count=$("$python" "$here/live.py" count "$scratch/esp.pcap")
    expect "200 packets of ESP, not $count" [ "$count" = 200 ]
    # What the host behind the gateway gets from now on.
    capture_begin right in "$scratch/right.pcap" ip
    sent=$(helper west replay out "$scratch/esp.pcap")
    expect '200 packets that were replayed' until_true 5 counted east replayed "$sent"
    ok "$sent packets that had been there"
    before=$(metric east 'not_esp_total{way="in"}')
    # The SPI of what goes to the east.
    helper west hostile 192.0.2.2 "$(sed -n 's/^spi_in = //p' "$scratch/lab/east.toml")" 100
    for each in unknown_spi integrity malformed; do
        expect "100 packets dropped as $each, not $(dropped east "$each")" until_true 5 counted east "$each" 100
    done
    capture_ended
    count=$("$python" "$here/live.py" count "$scratch/right.pcap")
    expect "nothing reaches the host, but $count packets did" [ "$count" = 0 ]
    expect "keep-alives are the kernel's" [ "$(metric east 'not_esp_total{way="in"}')" = "$before" ]
    ok 'ESP that nobody asked for, and keep-alives'
    all_return left 10.77.2.2 200 0.005
    # The other end has gone and come back: with static keys its numbers begin again, and the window refuses them.
    kill -KILL "${gateway_of[west]}"
    expect 'the gateway is gone' until_true 5 is_gone "${gateway_of[west]}"
    rm -f "$scratch/west-gateway.log"
    start_gateway west
    within left ping -q -c 20 -i 0.01 -W 1 10.77.2.2 >"$scratch/ping.log" || true
    # What was lost for want of a neighbour at the beginning has numbers that were never seen.
    expect 'nothing comes through' grep -qE ', [0-5] received' "$scratch/ping.log"
    ok 'keys that are used again'
    stop_gateways
    lab_down
}

counted() { [ "$(dropped "$1" "$2")" = "$3" ]; } # SIDE REASON COUNT

# Captures instead of interfaces, without any rights.
step_files() {
    way=files
    local folder=$scratch/files keys each
    mkdir "$folder"
    "$python" "$here/live.py" make "$folder/in.pcap" 10.77.1.2 10.77.2.2 2000
    keys=$(od -An -N 20 -t x1 /dev/urandom | tr -d ' \n')
    (umask 077 && printf '%s\n%s\n' "$keys" "$(od -An -N 20 -t x1 /dev/urandom | tr -d ' \n')" >"$folder/out.keys")
    (umask 077 && tac "$folder/out.keys" >"$folder/back.keys")
    files_gateway 'inside = { pcap_in = "in.pcap" }' 'outside = { pcap_out = "esp.pcap" }' 1 2 out >"$folder/out.toml"
    files_gateway 'inside = { pcap_out = "back.pcap" }' 'outside = { pcap_in = "esp.pcap" }' 2 1 back >"$folder/back.toml"
    chown -R 65534:65534 "$folder"
    for each in out back; do
        limited setpriv --reuid 65534 --regid 65534 --clear-groups "$ciphermill" gateway run "$folder/$each.toml" \
            --lab-static-keys >>"$scratch/files.log" 2>&1
    done
    expect '2000 packets as they were' [ "$("$python" "$here/live.py" compare "$folder/in.pcap" "$folder/back.pcap")" = 2000 ]
    ok '2000 packets out and back'
}

files_gateway() { # INSIDE OUTSIDE OWN OTHER KEYS
    cat <<END
$1
$2
[[tunnel]]
name = "files"
transform = "aes-128-gcm"
local = "192.0.2.$3"
remote = "192.0.2.$4"
local_networks = ["10.77.$3.0/24"]
remote_networks = ["10.77.$4.0/24"]
spi_out = $((0x1000 + $3))
spi_in = $((0x1000 + $4))
keys = { static_file = "$5.keys" }
END
}

# A secret of both daemons.
secret=$(od -An -N 16 -t x1 /dev/urandom | tr -d ' \n')
for step in "${steps[@]}"; do "step_$step"; done
way=end
ok 'all'
