#!/usr/bin/env bash
# HAProxy with the provider and without: full TLS handshakes a second with keys of three kinds, and whether all succeed.
# SECONDS_EACH (4) for each, CLIENTS (256) at a time, ROUNDS (3) of both in turns. HAProxy has the first core, the clients have the second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${SECONDS_EACH:-4} clients=${CLIENTS:-256} rounds=${ROUNDS:-3}
provider=$PWD/target/openssl
[ "$(nproc)" -ge 2 ] || { echo 'not run: this wants two cores' >&2; exit 77; }
cargo build --release --locked -p ciphermill-openssl --example handshakes
load=${CARGO_TARGET_DIR:-target}/release/examples/handshakes
scratch=$(mktemp -d)
haproxy=
finish() {
    [ -z "$haproxy" ] || kill "$haproxy" 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT
: >"$scratch/default.cnf"
cp "$provider/openssl.cnf" "$scratch/ciphermill.cnf"

configure() { # KEY PROVIDER
    cat <<END
global
    nbthread 1
    maxconn 2000
    $([ "$2" = default ] || echo ssl-mode-async)
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 5s
frontend tls
    bind 127.0.0.1:18443 ssl crt $scratch/$1.pem
    http-request return status 200 content-type text/plain string answered
END
}

# How many handshakes a second; nothing but the number.
measure() { # KEY PROVIDER
    configure "$1" "$2" >"$scratch/haproxy.cfg"
    OPENSSL_CONF=$scratch/$2.cnf taskset -c 0 haproxy -f "$scratch/haproxy.cfg" -db >"$scratch/haproxy.log" 2>&1 &
    haproxy=$!
    for _ in $(seq 100); do
        (exec 3<>/dev/tcp/127.0.0.1/18443) 2>/dev/null && break
        sleep 0.05
    done
    taskset -c 1 "$load" 127.0.0.1:18443 "$clients" "$seconds" >"$scratch/said"
    kill "$haproxy" && wait "$haproxy" 2>/dev/null || true
    haproxy=
    grep -q ' 0 failed' "$scratch/said" || { cat "$scratch/said" "$scratch/haproxy.log" >&2; exit 1; }
    cut -d' ' -f1 "$scratch/said"
}

printf '%-12s %12s %12s %8s\n' 'key' 'default /s' 'ours /s' 'ratio'
for key in rsa:2048 rsa:4096 ec:P-256; do
    name=${key/:/-}
    case $key in
    rsa:*) algorithm="RSA -pkeyopt rsa_keygen_bits:${key#*:}" ;;
    ec:*) algorithm="EC -pkeyopt ec_paramgen_curve:${key#*:}" ;;
    esac
    # shellcheck disable=SC2086 # the algorithm and its options are words
    openssl genpkey -algorithm $algorithm -out "$scratch/$name.key" 2>/dev/null
    openssl req -x509 -key "$scratch/$name.key" -subj /CN=localhost -days 2 -out "$scratch/$name.crt"
    cat "$scratch/$name.key" "$scratch/$name.crt" >"$scratch/$name.pem"
    for _ in $(seq "$rounds"); do
        before=$(measure "$name" default)
        after=$(measure "$name" ciphermill)
        printf '%-12s %12s %12s %8s\n' "$name" "$before" "$after" "$(awk "BEGIN { printf \"%.2f\", $after / $before }")"
    done
done
