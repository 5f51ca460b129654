#!/usr/bin/env bash
# The whole workspace is named, so that nothing is built anew with other features.
# ESP's packets against Scapy's: makes a virtual environment with the packages of scapy.txt, and runs the tests that want it.
# Exit 77 says that this machine lacks something, and what.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
list=xtask/gateway/scapy.txt
work=$PWD/target/scratch/scapy

lacks() { echo "not run: $1" >&2; exit 77; }
python=${PYTHON:-python3}
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
    lacks 'Python 3.9 or later with its venv (apt-get install python3-venv)'
if ! cmp -s "$list" "$work/installed.txt"; then
    rm -rf "$work"
    mkdir -p "$work"
    "$python" -m venv "$work/environment"
    "$work/environment/bin/pip" install -q --no-cache-dir --disable-pip-version-check -r "$list" || lacks "the packages of $list"
    cp "$list" "$work/installed.txt"
fi
CIPHERMILL_SCAPY=$work/environment/bin/python cargo test --locked --workspace --test esp -- --ignored scapy | tee "$work/tests.log"
# A filter that matches nothing passes as well.
grep -Eq '^test result: ok\. [1-9][0-9]* passed' "$work/tests.log" || { echo "no test of scapy was run" >&2; exit 1; }
