#!/usr/bin/env bash
# HAProxy with asynchronous jobs: load, clients that leave in the middle of handshakes, too few descriptors, reloads; alone, and as a
# worker that is forked after its keys were loaded.
program=haproxy
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
command -v haproxy >/dev/null || lacks 'HAProxy (apt-get install haproxy)'
prepare
make_authority
make_pair rsa rsa
make_pair ecdsa ecdsa
make_content 1
free_port && rsa=$port
free_port && ecdsa=$port

configure() {
    cat >"$scratch/haproxy.cfg" <<END
global
    nbthread 2
    maxconn 2000
    stats socket $scratch/haproxy.sock level admin expose-fd listeners
    $([ "$way" = default ] || echo ssl-mode-async)
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 5s
frontend rsa
    bind 127.0.0.1:$rsa ssl crt $scratch/rsa.pem
    http-request return status 200 content-type application/octet-stream file $scratch/small
frontend ecdsa
    bind 127.0.0.1:$ecdsa ssl crt $scratch/ecdsa.pem
    http-request return status 200 content-type application/octet-stream file $scratch/small
END
}
# What HAProxy returns from a file has to fit into one of its buffers.
head -c 8000 "$scratch/root/content" >"$scratch/small"
checksum=$(sha256sum <"$scratch/small")

launch() {
    start haproxy "${with[@]}" haproxy -f "$scratch/haproxy.cfg" -db
    await "$rsa"
    await "$ecdsa"
}

descriptors() { find "/proc/$server/fd" -mindepth 1 | wc -l; }
descriptors_are() { [ "$(descriptors)" -le "$1" ]; }

answers() {
    local version
    for version in 1.2 1.3; do
        fetch "$rsa" "--tlsv$version" --tls-max "$version"
        fetch "$ecdsa" "--tlsv$version" --tls-max "$version"
    done
}

under_load() {
    local total=0 each
    for each in "$rsa" "$ecdsa"; do
        load_begin "$each" 128 2 /content
        load_ended
        total=$((total + handshakes))
    done
    expect_operations "$total"
    ok 'TLS 1.2 and 1.3 with RSA and ECDSA; 128 clients at a time, none of whom failed'
}

resident_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server/status"; }

# Fetches until it is told to stop, whatever others do; each time the content is compared.
fetch_on() {
    while [ ! -e "$scratch/enough" ]; do
        answers
        echo >>"$scratch/fetches"
    done
}

# Clients that are killed have their connections closed wherever these are just then. What a lost job keeps would be seen: the stack
# of one has 32 KiB.
storm() { # ROUNDS
    local round each
    for round in $(seq "$1"); do
        each=$rsa
        [ $((round % 3)) != 0 ] || each=$ecdsa
        load_begin "$each" 200 30
        sleep 0.15
        kill -s KILL "$load_pid"
        wait "$load_pid" 2>/dev/null || true
    done
}

abort_storm() {
    local before fetching grown
    fetch "$rsa"
    before=$(descriptors)
    storm 10
    grown=$(resident_kb)
    rm -f "$scratch/enough"
    : >"$scratch/fetches"
    fetch_on &
    fetching=$!
    storm 20
    touch "$scratch/enough"
    wait "$fetching"
    expect "fetches while others leave" [ "$(wc -l <"$scratch/fetches")" -gt 0 ]
    answers
    until_true 15 descriptors_are "$before" || failed "$LINENO" "$before descriptors before the storm, $(descriptors) after it"
    grown=$(($(resident_kb) - grown))
    expect "memory that has grown by less than 10 MB, but it did by $grown kB" [ "$grown" -lt 10000 ]
    ok "30 times 200 clients left in the middle of handshakes, others were served meanwhile; then its $before descriptors and its memory are as before"
}

# Some 100 connections have a descriptor then, or half as many with one for waiting each. Some of the clients leave as well.
too_few_descriptors() {
    local before limit
    before=$(descriptors)
    limit=$((before + 100))
    prlimit --pid "$server" --nofile="$limit:$limit"
    "$load" "127.0.0.1:$rsa" 300 3 >"$scratch/scarce.log" 2>&1 || true
    storm 5
    answers
    until_true 15 descriptors_are "$before" || failed "$LINENO" "$before descriptors before, $(descriptors) after"
    ok "300 clients and descriptors for 100; then it serves, with its $before descriptors as before"
}

reloads() {
    local old
    load_begin "$rsa" 64 6 /content
    for _ in 1 2 3; do
        sleep 1.5
        old=$server
        start haproxy "${with[@]}" haproxy -f "$scratch/haproxy.cfg" -db -x "$scratch/haproxy.sock" -sf "$old"
        expect 'the process before ends' until_true 15 is_gone "$old"
    done
    load_ended
    answers
    ok 'three reloads (-sf) under the load of 64 clients, none of whom failed'
}

# The youngest child of a master.
worker() { tr ' ' '\n' <"/proc/$1/task/$1/children" | sed '/^$/d' | tail -n 1; }

has_other_worker() { # MASTER BEFORE
    local now
    now=$(worker "$1")
    [ -n "$now" ] && [ "$now" != "$2" ] && is_gone "$2"
}

# As Debian's unit runs it: a master reads certificates and keys, and forks a worker; a reload reads them anew.
forked_workers() {
    local master before done_before
    done_before=$(operations)
    start haproxy "${with[@]}" haproxy -W -f "$scratch/haproxy.cfg"
    master=$server
    await "$rsa"
    await "$ecdsa"
    answers
    load_begin "$rsa" 64 6 /content
    for _ in 1 2 3; do
        sleep 1.5
        before=$(worker "$master")
        kill -s USR2 "$master"
        expect 'another worker takes over and the one before ends' until_true 15 has_other_worker "$master" "$before"
    done
    load_ended
    expect_operations $((done_before + handshakes))
    answers
    server=$(worker "$master")
    abort_storm
    server=$master
    stop USR1
    ok 'forked workers, three reloads (SIGUSR2) under the load of 64 clients, none of whom failed'
}

check() {
    configure
    launch
    answers
    under_load
    abort_storm
    reloads
    stop USR1
    # With fewer descriptors than it counts upon, a process of its own.
    launch
    too_few_descriptors
    stop TERM
    forked_workers
    ok 'stopped'
}
each_way check
