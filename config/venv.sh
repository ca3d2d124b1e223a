#!/bin/sh
# Makes the virtual environment $VENV with the gateway and its $EXTRA installed, or brings up to date the one there is:
# a service may be running from it, and is to go on if what is wanted cannot be fetched.
set -eu

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "codex-gateway: needs Python 3.11 or newer as '$PYTHON' (set PYTHON=...)" >&2
    exit 1
fi
origin="$(pwd) $("$PYTHON" -c 'import sys; print(sys.version)' | tr '\n' ' ')"
stamp="$origin $(cksum setup.cfg pyproject.toml)"

is_whole() { # finished once, in this place and by this interpreter
    "$VENV/bin/python" -c '' 2>/dev/null && [ "$(cat "$VENV/origin" 2>/dev/null)" = "$origin" ]
}

is_current() { # an environment with the dev extra serves both
    for extra in "$@"; do
        if [ -f "$VENV/stamp$extra" ] && [ "$(cat "$VENV/stamp$extra")" = "$stamp" ]; then return 0; fi
    done
    return 1
}

if ! is_whole; then
    rm -rf "$VENV"
    if ! "$PYTHON" -m venv "$VENV" >&2; then
        rm -rf "$VENV"
        echo "codex-gateway: '$PYTHON' cannot make a virtual environment (Debian: apt install python3-venv)" >&2
        exit 1
    fi
elif is_current "$EXTRA" "[dev]"; then
    exit 0
fi
echo "codex-gateway: installing into $VENV ..." >&2
rm -f "$VENV"/stamp*
"$VENV/bin/python" -m pip install -qq --disable-pip-version-check --upgrade --upgrade-strategy eager \
    --editable ".$EXTRA"
printf '%s\n' "$origin" > "$VENV/origin"
printf '%s\n' "$stamp" > "$VENV/stamp$EXTRA"
