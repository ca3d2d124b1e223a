#!/bin/sh
# Puts the gateway in /opt/codex-gateway on this machine as a service, as docs/operations.md tells.
#
# Says what it would do; does it with APPLY=1. Doing it again changes nothing. What an operator edits (the settings,
# the keys, the nginx site) is written once and never again.
#   DOMAIN   the nginx site's name; without it no site is written
#   PYTHON   the interpreter of the gateway's environment
#   DESTDIR  files go below this folder, and nothing else is touched
set -eu
umask 022
cd "$(dirname "$0")/.."

user=codex-gateway
place=/opt/codex-gateway
here=$(pwd -P)
settings=/etc/codex-gateway
state=/var/lib/codex-gateway
site=/etc/nginx/sites-available/codex-gateway.conf
apply=${APPLY:-}
root=${DESTDIR:-}
domain=${DOMAIN:-}
changes=0

say() { # VERB WHAT
    printf '%-16s %s\n' "$1" "$2"
}

fail() {
    echo "install-service: $1" >&2
    exit 1
}

is_as_it_should_be() {
    say "as it should be" "$1"
}

# Whether to do what is announced: WOULD-VERB DID-VERB WHAT
begin() {
    changes=$((changes + 1))
    if [ -n "$apply" ]; then
        say "$2" "$3"
    else
        say "would $1" "$3"
        return 1
    fi
}

set_owner() { # OWNER PATH; only on the machine itself
    if [ -z "$root" ]; then chown "$1" "$2"; fi
}

# CONTENT is a file; the target is replaced in one step.
write_file() { # CONTENT TARGET MODE OWNER
    mkdir -p "$root$(dirname "$2")"
    install -m "$3" "$1" "$root$2.new"
    set_owner "$4" "$root$2.new"
    mv "$root$2.new" "$root$2"
}

# Ours: kept as in this checkout.
keep_file() { # CONTENT TARGET MODE
    if cmp -s "$1" "$root$2"; then
        is_as_it_should_be "$2"
        return
    fi
    news=new
    if [ -e "$root$2" ]; then news=changed; fi
    if begin write wrote "$2 ($news)"; then write_file "$1" "$2" "$3" root:root; fi
}

# The operator's: written where there is none.
offer_file() { # CONTENT TARGET MODE OWNER
    if [ -e "$root$2" ]; then
        say "left alone" "$2 (yours)"
    elif begin write wrote "$2 (new)"; then
        write_file "$1" "$2" "$3" "$4"
    fi
}

offer_site() {
    if [ -z "$domain" ] && [ -e "$root$site" ]; then
        domain=$(sed -n 's/^ *server_name \([^;]*\);.*/\1/p' "$root$site" | head -n 1)
    fi
    if [ -z "$domain" ]; then
        say "left out" "$site (no DOMAIN given)"
        return
    fi
    sed "s/gateway\.example\.org/$domain/g" config/nginx/codex-gateway.conf > "$scratch/site"
    if [ ! -e "$root$site" ]; then
        offer_file "$scratch/site" "$site" 644 root:root
    elif cmp -s "$scratch/site" "$root$site"; then
        is_as_it_should_be "$site"
    else
        say "left alone" "$site (yours; it differs from this version's)"
        say "" "see: sed 's/gateway\\.example\\.org/$domain/g' $place/config/nginx/codex-gateway.conf | diff $site -"
    fi
}

write_command() {
    cat <<EOF
#!/bin/sh
# A command of the gateway, run as its service runs: its user, its settings, its folder. For root.
#   codex-gateway doctor    codex-gateway login
set -eu
stdio=--pipe
if [ -t 0 ] && [ -t 1 ]; then stdio=--pty; fi
exec systemd-run --quiet --collect --wait "\$stdio" \\
    --property=User=$user --property=Group=$user --property=UMask=0077 --property=NoNewPrivileges=yes \\
    --property=StateDirectory=codex-gateway --property=StateDirectoryMode=0700 \\
    --property=WorkingDirectory=$place --property=EnvironmentFile=$settings/env \\
    --property=LimitNOFILE=65536 --property=TasksMax=4096 \\
    --setenv=PROXY_STATE_DIR=$state \\
    $place/.venv/bin/python -m app "\$@"
EOF
}

make_user() {
    if getent passwd "$user" > /dev/null; then
        is_as_it_should_be "user $user"
    elif begin create created "user $user"; then
        useradd --system --user-group --home-dir "$state" --no-create-home --shell /usr/sbin/nologin "$user"
    fi
}

read_stamps() {
    cat .venv/stamp* 2> /dev/null || true
}

make_environment() {
    if [ -z "$apply" ]; then
        if [ -x "$place/.venv/bin/python" ]; then
            say "would check" "$place/.venv (make venv)"
        else
            begin make made "$place/.venv (make venv)" || true
        fi
        return
    fi
    stamps=$(read_stamps)
    PYTHON="${PYTHON:-python3}" VENV=.venv EXTRA='' sh config/venv.sh
    if [ "$(read_stamps)" = "$stamps" ]; then
        is_as_it_should_be "$place/.venv"
    else
        begin make made "$place/.venv"
    fi
    # The service may not write here: without this it would compile everything at each start. What is compiled
    # already may be closed to it: a gateway that root tried here keeps what it writes to itself.
    find app config -name __pycache__ -prune -exec rm -rf {} +
    (umask 022 && .venv/bin/python -m compileall -q app wsgi.py)
    check_service_can_read
}

# A checkout is as open as the umask of whoever cloned or pulled it.
check_service_can_read() {
    closed=$(runuser -u "$user" -- \
        find . \( -name .git -o -name __pycache__ \) -prune -o ! -readable -print -quit 2>&1) || true
    if [ -n "$closed" ]; then fail "the user $user cannot read $closed (chmod -R go+rX $place)"; fi
    runuser -u "$user" -- .venv/bin/python -c 'import app' ||
        fail "the user $user cannot run $place/.venv/bin/python (chmod -R go+rX $place; PYTHON outside of /root and /home)"
}

make_folder() {
    if [ -d "$root$settings" ]; then
        is_as_it_should_be "$settings"
    elif begin make made "$settings"; then
        mkdir -p "$root$settings"
        chmod 0750 "$root$settings"
        set_owner "root:$user" "$root$settings"
    fi
}

enable_service() {
    if [ -n "$apply" ]; then systemctl daemon-reload; fi
    if systemctl is-enabled --quiet $user 2> /dev/null; then
        is_as_it_should_be "$user starts at boot"
    elif begin enable enabled "$user (starts at boot)"; then
        systemctl enable --quiet $user
    fi
}

case $domain in
    *[!A-Za-z0-9.-]*) fail "DOMAIN=$domain: must be a domain name" ;;
esac
if [ -z "$root" ] && [ -n "$apply" ]; then
    if [ "$here" != "$place" ]; then
        fail "the service runs the checkout in $place: git clone $here $place, and go on there"
    fi
    if [ "$(id -u)" != 0 ]; then fail "APPLY=1 needs root"; fi
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
write_command > "$scratch/command"
: > "$scratch/keys"

if [ -z "$root" ]; then
    if [ "$here" != "$place" ]; then say "would copy" "this checkout to $place (git clone $here $place)"; fi
    make_user
    make_environment
fi
make_folder
offer_file config/codex-gateway.env.example "$settings/env" 600 root:root
offer_file "$scratch/keys" "$settings/keys.toml" 640 "root:$user"
keep_file config/systemd/codex-gateway.service /etc/systemd/system/codex-gateway.service 644
keep_file "$scratch/command" /usr/local/bin/codex-gateway 755
offer_site
if [ -z "$root" ]; then enable_service; fi

echo
if [ "$changes" = 0 ]; then
    echo "Nothing to do."
elif [ -z "$apply" ]; then
    echo "Nothing was changed. To do it, as root:  make install-service APPLY=1${domain:+ DOMAIN=$domain}"
else
    echo "Done. What comes next is in docs/operations.md."
fi
