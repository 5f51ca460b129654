#!/usr/bin/env bash
# Apache with mod_ssl: versions of TLS, certificates of clients, a graceful restart under load.
program=apache
# shellcheck source=xtask/doors/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
command -v apache2 >/dev/null || lacks 'Apache (apt-get install apache2-bin)'
command -v curl >/dev/null || lacks 'curl (apt-get install curl)'
prepare
make_authority
make_pair rsa rsa
make_pair ecdsa ecdsa
make_pair client ecdsa
make_content 4
echo answered >"$scratch/root/small"
free_port && rsa=$port
free_port && ecdsa=$port
free_port && both=$port

host() { # PORT NAME
    printf 'Listen 127.0.0.1:%s\n<VirtualHost 127.0.0.1:%s>\nSSLEngine on\nSSLCertificateFile %s\nSSLCertificateKeyFile %s\n' \
        "$1" "$1" "$scratch/$2.crt" "$scratch/$2.key"
}

cat >"$scratch/apache.conf" <<END
$(apache_main)
$(host "$rsa" rsa)
</VirtualHost>
$(host "$ecdsa" ecdsa)
</VirtualHost>
$(host "$both" rsa)
SSLCACertificateFile $scratch/authority.crt
SSLVerifyClient require
</VirtualHost>
END

versions() {
    local version kind
    for version in 1.2 1.3; do
        for kind in "$rsa" "$ecdsa"; do fetch "$kind" "--tlsv$version" --tls-max "$version"; done
        fetch "$both" "--tlsv$version" --tls-max "$version" --cert "$scratch/client.crt" --key "$scratch/client.key"
    done
    ! limited curl -s --fail --cacert "$scratch/authority.crt" "https://localhost:$both/content" -o "$scratch/none" ||
        failed "$LINENO" 'a client without a certificate was served'
    expect_operations 12
    ok 'TLS 1.2 and 1.3 with RSA, ECDSA and certificates of clients, 4 MB each compared'
}

check() {
    start apache "${with[@]}" apache2 -f "$scratch/apache.conf" -D FOREGROUND
    await "$both"
    versions
    load_begin "$rsa" 32 3 /small
    sleep 1
    kill -s USR1 "$server"
    load_ended
    fetch "$rsa"
    ok 'a graceful restart under the load of 32 clients, none of whom failed'
    stop TERM
    ok 'stopped'
}
each_way check
