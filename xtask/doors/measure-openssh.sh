#!/usr/bin/env bash
# scp of a gigabyte with the provider and without, in turns: time of the processor that either end took, in seconds of its user mode.
# MEGABYTES (1000), ROUNDS (3).
program=measure-openssh
# shellcheck source=xtask/doors/openssh-server.sh
. "$(dirname "${BASH_SOURCE[0]}")/openssh-server.sh"
rounds=${ROUNDS:-3}
make_content "${MEGABYTES:-1000}"
# Writing to a disk is not what is measured.
[ ! -d /dev/shm ] || { there=$(mktemp /dev/shm/ciphermill-XXXXXX) && trap 'finish; rm -f "$there"' EXIT; }
: "${there:=$scratch/there}"

# User time of the children that the server has waited for, in clock ticks (proc(5), cutime).
children_ticks() { sed 's/.*) //' "/proc/$server/stat" | cut -d' ' -f14; }

# Sets `client_s` and `server_s`.
measure() { # CIPHER default|ciphermill
    local begun
    use "$2"
    launch
    begun=$(children_ticks)
    TIMEFORMAT=%U
    { time LIMIT_SECONDS=300 secure_copy -c "$1" "$scratch/root/content" "$login:$there" 2>>"$scratch/client.log"; } 2>"$scratch/time"
    expect 'the server has waited for its child' until_true 5 has_no_child
    server_s=$(awk "BEGIN { printf \"%.2f\", ($(children_ticks) - $begun) / $(getconf CLK_TCK) }")
    client_s=$(cat "$scratch/time")
    expect 'the content as it was sent' [ "$(sha256sum <"$there")" = "$checksum" ]
    stop TERM
}

has_no_child() { ! pgrep -P "$server" >/dev/null; }

printf '%-26s %16s %16s %16s %16s\n' cipher 'default, client' 'ours, client' 'default, server' 'ours, server'
for cipher in aes128-ctr aes128-gcm@openssh.com; do
    for _ in $(seq "$rounds"); do
        # Not in a list with `&&`, where failures would be passed over.
        measure "$cipher" default
        client=$client_s before=$server_s
        measure "$cipher" ciphermill
        printf '%-26s %16s %16s %16s %16s\n' "$cipher" "$client" "$client_s" "$before" "$server_s"
    done
done
