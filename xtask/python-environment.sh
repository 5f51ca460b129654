# shellcheck shell=bash
# Virtual environments with the packages of a list, for scripts that source this and have `lacks`. PYTHON names another interpreter.
python=${PYTHON:-python3}

# needs_python 3.9: at least that, with what makes environments.
needs_python() {
    "$python" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < tuple(map(int, '$1'.split('.'))))" 2>/dev/null ||
        lacks "Python $1 or later with its venv (apt-get install python3-venv)"
}

# environment LIST FOLDER: made again when the list changes.
environment() {
    local list=$1 folder=$2
    cmp -s "$list" "$folder/installed.txt" && return
    rm -rf "${folder:?}"
    mkdir -p "${folder%/*}"
    "$python" -m venv "$folder"
    "$folder/bin/pip" install -q --no-cache-dir --disable-pip-version-check -r "$list" || lacks "the packages of $list"
    cp "$list" "$folder/installed.txt"
}
