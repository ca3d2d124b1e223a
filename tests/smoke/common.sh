# shellcheck shell=sh
# What every smoke script begins with. POSIX sh and curl, nothing else.
#
#   BASE_URL   where the gateway is served, with or without /v1; http://127.0.0.1:11435
#   KEY        an access key, if it needs one; in the environment nobody else on the machine sees it
#   MODEL      which model is asked; demo

BASE=${BASE_URL:-http://127.0.0.1:11435}
BASE=${BASE%/}
BASE=${BASE%/v1}
MODEL=${MODEL:-demo}
FAILURES=0
STATUS=000

umask 077
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
trap 'exit 1' HUP INT TERM

# To curl the key goes in a file: what stands on a command line is everyone's to read.
: >"$WORK/key"
if [ -n "${KEY:-}" ]; then
    printf '%s' "$KEY" | sed 's/[\\"]/\\&/g; s/.*/header = "authorization: Bearer &"/' >"$WORK/key"
fi

ok() {
    echo "ok $1"
}

# failed WHAT DIFFERENCE
failed() {
    FAILURES=$((FAILURES + 1))
    echo "FAILED $1: $2"
    return 1
}

# send METHOD PATH BODY [more options of curl's]: the reply is in $STATUS, $WORK/headers and $WORK/body.
send() {
    method=$1 path=$2 body=$3
    shift 3
    if [ -n "$body" ]; then
        set -- -H 'content-type: application/json' --data-binary @- "$@"
    fi
    : >"$WORK/headers"
    : >"$WORK/body"
    STATUS=$(printf '%s' "$body" | curl -sSN --max-time 120 -X "$method" -o "$WORK/body" -D "$WORK/headers" \
        -w '%{http_code}' "$@" "$BASE$path" 2>"$WORK/complaint")
    STATUS=${STATUS:-000}
}

# The same with the key.
ask() {
    send "$@" --config "$WORK/key"
}

# What came, on one line and not too long of it.
show() {
    if [ "$STATUS" = 000 ]; then
        tr '\n' ' ' <"$WORK/complaint" | cut -c1-300
    else
        printf '%s %s' "$STATUS" "$(tr '\r\n' '  ' <"$WORK/body" | cut -c1-300)"
    fi
}

# check WHAT STATUS [PATTERN...]: the reply has this status, and its body each of these (as grep reads them).
check() {
    what=$1 expected=$2
    shift 2
    if [ "$STATUS" != "$expected" ]; then
        failed "$what" "expected status $expected, got $(show)"
        return 1
    fi
    for pattern in "$@"; do
        if ! grep -q -e "$pattern" "$WORK/body"; then
            failed "$what" "expected $pattern, got $(show)"
            return 1
        fi
    done
    ok "$what"
}

# same WHAT EXPECTED GOT
same() {
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        failed "$1" "expected $2, got ${3:-nothing}"
    fi
}

# The value of a header, in lower case.
header() {
    tr -d '\r' <"$WORK/headers" | tr '[:upper:]' '[:lower:]' | sed -n "s/^$1: *//p" | tail -n 1
}

# The first string of that name in the body, with its escapes.
field() {
    sed -n "/\"$1\":\"/{
s/\"$1\":\"/\\
/
p
q
}" "$WORK/body" | sed -n '2p' | sed -E 's/^(([^"\\]|\\.)*)".*/\1/'
}

# The text that a chat stream tells, as one line.
streamed_text() {
    sed -n 's/.*"delta":{"content":"\([^"]*\)".*/\1/p' "$WORK/body" | tr -d '\n'
}

# chat CONTENT [MORE]: the body of a chat request; MORE is JSON that begins with a comma.
chat() {
    printf '{"model":"%s","messages":[{"role":"user","content":"%s"}]%s}' "$MODEL" "$1" "${2:-}"
}

finish() {
    [ "$FAILURES" -eq 0 ]
    exit
}
