# shellcheck shell=bash
# shellcheck disable=SC2034 # what sources this reads them
# A server of OpenSSH on a port of its own, and how clients reach it. Sourced by what checks it and what measures it.
# shellcheck source=xtask/doors/common.sh
[ -n "${scratch:-}" ] || . "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin
sshd=$(command -v sshd) || lacks 'sshd (apt-get install openssh-server)'
{ command -v ssh && command -v scp; } >/dev/null || lacks 'ssh and scp (apt-get install openssh-client)'
case $(getent passwd "$(id -u)") in
*nologin | *false) lacks "an account that may log in, which $(id -un) is not" ;;
esac
prepare
free_port
login=$(id -un)@127.0.0.1
# As root the server wants this folder, which the system makes when it starts the service.
if [ "$(id -u)" = 0 ] && [ ! -e /run/sshd ]; then
    mkdir -m 755 /run/sshd
    trap 'finish; rmdir /run/sshd' EXIT
fi

for kind in rsa ecdsa ed25519; do
    ssh-keygen -q -t "$kind" -N '' -f "$scratch/host-$kind"
    ssh-keygen -q -t "$kind" -N '' -f "$scratch/user-$kind"
    cat "$scratch/user-$kind.pub" >>"$scratch/authorized"
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$scratch/host-$kind.pub")" >>"$scratch/known"
done
# The name of its algorithm begins otherwise.
cp "$scratch/user-ed25519" "$scratch/user-ssh"
cat >"$scratch/sshd.conf" <<END
ListenAddress 127.0.0.1:$port
$(printf "HostKey $scratch/host-%s\n" rsa ecdsa ed25519)
AuthorizedKeysFile $scratch/authorized
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
PidFile none
MaxStartups 100
Subsystem sftp internal-sftp
END

# An absolute path: the server starts itself once more for each connection.
launch() {
    start sshd "${with[@]}" "$sshd" -D -e -f "$scratch/sshd.conf"
    await "$port"
}

options=(-F none -o "UserKnownHostsFile=$scratch/known" -o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes
    -o BatchMode=yes -o IdentitiesOnly=yes -o LogLevel=ERROR)

secure_shell() { # ARGUMENTS...
    limited "${with[@]}" ssh "${options[@]}" -p "$port" "$@" 2>>"$scratch/client.log"
}

secure_copy() { # ARGUMENTS...
    limited "${with[@]}" scp -q "${options[@]}" -P "$port" -i "$scratch/user-ssh" "$@" 2>>"$scratch/client.log"
}
