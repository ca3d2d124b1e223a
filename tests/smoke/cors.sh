#!/bin/sh
# A browser asks before it sends: yes to pages that are let in (ORIGIN), nothing to others.
. "$(dirname "$0")/common.sh"

ORIGIN=${ORIGIN:-app://obsidian.md}

preflight() {
    send OPTIONS /v1/chat/completions '' -H "origin: $1" -H 'access-control-request-method: POST' \
        -H 'access-control-request-headers: authorization, content-type'
}

preflight "$ORIGIN"
if check 'a preflight' 204; then
    same 'a preflight: the origin' "$ORIGIN" "$(header access-control-allow-origin)"
    same 'a preflight: the headers' 'authorization, content-type' "$(header access-control-allow-headers)"
    case $(header access-control-allow-methods) in
    *post*) ok 'a preflight: the method' ;;
    *) failed 'a preflight: the method' "expected POST, got $(header access-control-allow-methods)" ;;
    esac
fi
preflight https://no-such-page.example
if check "another page's preflight" 204; then
    same "another page's preflight: no origin" '' "$(header access-control-allow-origin)"
fi

finish
