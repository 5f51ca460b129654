# shellcheck shell=bash
# shellcheck disable=SC2154 # what sources this has scratch and secret
# What strongSwan is told, and how it is asked: a daemon for each of two sides. What sources this has `connections SIDE`, which calls
# `connection`; `address_of`, `net_of` and `other_than` of a side; and what xtask/doors/common.sh has.

lacks_swan() { # PLUGINS...
    command -v charon-systemd >/dev/null || lacks 'charon (apt-get install charon-systemd)'
    command -v swanctl >/dev/null || lacks 'swanctl (apt-get install strongswan-swanctl)'
    local plugin
    for plugin in "$@"; do
        [ -e "/usr/lib/ipsec/plugins/libstrongswan-$plugin.so" ] ||
            lacks "strongSwan's plugin $plugin (apt-get install libcharon-extra-plugins libstrongswan-standard-plugins libstrongswan-extra-plugins)"
    done
}

swan() { # SIDE COMMAND ARGUMENTS...
    local side=$1 command=$2
    shift 2
    limited swanctl "--$command" --uri "unix://$scratch/$side.vici" "$@" >>"$scratch/swanctl.log" 2>&1
}

# The daemon's own file, for STRONGSWAN_CONF.
strongswan_conf() { # SIDE PLUGINS
    cat >"$scratch/$1.conf" <<END
charon-systemd {
    load = $2
    install_virtual_ip = no
    install_routes = $([[ $2 == *libipsec* ]] && echo yes || echo no)
    delete_rekeyed_delay = 1
    journal { default = -1 }
    filelog {
        all {
            path = $scratch/$1-charon.log
            default = 1
            time_format = %s
            time_add_ms = yes
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

# Waits for a daemon that was started, and tells it connections and secret.
tell_daemon() { # SIDE
    expect "the daemon of $1 listens" until_true 10 test -S "$scratch/$1.vici"
    { echo 'connections {' && connections "$1" && echo '}' && printf 'secrets { ike { secret = "%s" } }\n' "$secret"; } \
        >"$scratch/$1.swanctl"
    swan "$1" load-all --file "$scratch/$1.swanctl"
}

connection() { # SIDE NAME ENCAP ESP [MORE-OF-THE-CHILD]
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
            ${5:-}
        } }
    }
END
}
