#!/usr/bin/env bash
# Two daemons of Libreswan in network namespaces, as strongswan-keys.sh has strongSwan's. Libreswan asks for windows of 128 packets,
# and for associations in its own order; what it does is otherwise the same.
program=libreswan-keys
# shellcheck source=xtask/gateway/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# Debian does not install both beside each other; the package may lie unpacked in a folder (`dpkg -x`), named by LIBRESWAN.
tools=${LIBRESWAN:-}/usr/libexec/ipsec
[ -x "$tools/pluto" ] || lacks 'pluto (apt-get install libreswan, or LIBRESWAN=FOLDER with the package unpacked)'
# It finds its other programs at one path alone; `ip netns exec` gives it mounts of its own.
in_place=()
# shellcheck disable=SC2016 # its own arguments
[ -z "${LIBRESWAN:-}" ] ||
    in_place=(sh -c 'mount --bind "$0/usr/libexec" /usr/libexec && exec "$@"' "$(realpath "$LIBRESWAN")")
command -v certutil >/dev/null || lacks 'certutil (apt-get install libnss3-tools)'
build_both
make_sides

connection() { # SIDE NAME ENCAPSULATION ESP
    local other
    other=$(other_than "$1")
    cat <<END
conn $2
    ikev2=insist
    authby=secret
    left=$(address_of "$1")
    leftsubnet=$(net_of "$1").0/24
    leftid=@$2-$1
    rightid=@$2-$other
    leftupdown=%disabled
    right=$(address_of "$other")
    rightsubnet=$(net_of "$other").0/24
    ike=aes128-sha2_256;dh31
    esp=$4
    encapsulation=$3
    auto=add

END
}

pluto_conf() { # SIDE
    cat <<END
config setup
    protostack=xfrm
    listen=$(address_of "$1")
    logfile=$scratch/$1-pluto.log

$(connection "$1" raw no aes_gcm128-null)

$(connection "$1" udp yes aes256-sha2_256)
END
}

whack() { # SIDE ARGUMENTS...
    local side=$1
    shift
    within "$side" "$tools/whack" --ctlsocket "$scratch/$side/run/pluto.ctl" "$@" >>"$scratch/whack.log" 2>&1
}

has_loaded() { grep -q '"udp": added IKEv2 connection' "$scratch/$1-pluto.log" 2>/dev/null; }

for side in left right; do
    mkdir -p "$scratch/$side/nss" "$scratch/$side/run"
    certutil -N -d "sql:$scratch/$side/nss" --empty-password
    pluto_conf "$side" >"$scratch/$side/ipsec.conf"
    (umask 077 && echo ": PSK \"$secret\"" >"$scratch/$side/ipsec.secrets")
    start_daemon "$side" ${in_place[@]+"${in_place[@]}"} /usr/libexec/ipsec/pluto --nofork \
        --config "$scratch/$side/ipsec.conf" --secretsfile "$scratch/$side/ipsec.secrets" \
        --nssdir "$scratch/$side/nss" --rundir "$scratch/$side/run" --logfile "$scratch/$side-pluto.log"
done
for side in left right; do
    expect "the daemon of $side has its connections" until_true 15 has_loaded "$side"
done

check_connection() { # NAME PATTERN
    way=$1
    remember
    whack left --initiate --name "$1"
    expect_same 2 "$2"
    expect 'two associations listed on each side' until_true 10 lists 2
    remember
    whack left --rekey-ipsec --name "$1"
    expect_same 2 "$2"
    expect 'the old associations are gone' until_true 10 lists 2
    whack left --terminate --name "$1"
    expect 'no association is left' until_true 10 lists 0
    # Until then its policies stay, and the next connection is between the same networks.
    for side in left right; do whack "$side" --delete --name "$1"; done
    ok 'initiated, rekeyed, deleted'
}

check_connection raw 'raw rfc4106\(gcm\(aes\)\) [0-9a-f]{40} 128$'
check_connection udp 'udp 4500 4500 cbc\(aes\) [0-9a-f]{64} hmac\(sha256\) [0-9a-f]{64} 128$'
expect 'windows of 128 packets' grep -qE '^update .* window 128 ' "$scratch/left.out"

way=end
stop_daemons
expect 'nothing is left' until_true 10 lists 0
ok 'both daemons have ended and left no association'
