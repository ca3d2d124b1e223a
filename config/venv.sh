#!/bin/sh
# Makes or repairs the virtual environment $VENV with the gateway and its $EXTRA installed.
set -eu

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "codex-gateway: needs Python 3.11 or newer as '$PYTHON' (set PYTHON=...)" >&2
    exit 1
fi
stamp="$(pwd) $("$PYTHON" -c 'import sys; print(sys.version)' | tr '\n' ' ') $(cksum setup.cfg pyproject.toml)"

is_current() { # an environment with the dev extra serves both
    "$VENV/bin/python" -c '' 2>/dev/null || return 1
    for extra in "$@"; do
        if [ -f "$VENV/stamp$extra" ] && [ "$(cat "$VENV/stamp$extra")" = "$stamp" ]; then return 0; fi
    done
    return 1
}

if is_current "$EXTRA" "[dev]"; then exit 0; fi

if ! is_current ""; then
    rm -rf "$VENV"
    if ! "$PYTHON" -m venv "$VENV" >&2; then
        rm -rf "$VENV"
        echo "codex-gateway: '$PYTHON' cannot make a virtual environment (Debian: apt install python3-venv)" >&2
        exit 1
    fi
fi
echo "codex-gateway: installing into $VENV ..." >&2
"$VENV/bin/python" -m pip install -qq --disable-pip-version-check --editable ".$EXTRA"
printf '%s\n' "$stamp" > "$VENV/stamp$EXTRA"
