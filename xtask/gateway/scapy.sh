#!/usr/bin/env bash
# ESP's packets against Scapy's: makes a virtual environment with the packages of scapy.txt, and runs the tests that want it.
# Exit 77 says that this machine lacks something, and what.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/target/scratch/scapy

lacks() { echo "not run: $1" >&2; exit 77; }
# shellcheck source=xtask/python-environment.sh
. xtask/python-environment.sh
needs_python 3.9
environment xtask/gateway/scapy.txt "$work/environment"
tests=(cargo test --locked -p ciphermill-esp --test esp --)
[ "${PROFILE:-release}" != dev ] || tests=(cargo xtask tests esp)
CIPHERMILL_SCAPY=$work/environment/bin/python "${tests[@]}" --ignored scapy | tee "$work/tests.log"
# A filter that matches nothing passes as well.
grep -Eq '^test result: ok\. [1-9][0-9]* passed' "$work/tests.log" || { echo "no test of scapy was run" >&2; exit 1; }
