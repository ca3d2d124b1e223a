#!/bin/sh
# In place of apt-get, git and certbot on the box, which has no network.
set -eu
for last in "$@"; do :; done

get_certificate() {
    mkdir -p /var/www/html/.well-known/acme-challenge
    echo proof > /var/www/html/.well-known/acme-challenge/token
    # As the authority would: over plain HTTP, by the domain's name.
    [ "$(curl -fsS "http://$DOMAIN/.well-known/acme-challenge/token")" = proof ]
    live=/etc/letsencrypt/live/$DOMAIN
    mkdir -p "$live"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$DOMAIN" \
        -addext "subjectAltName=DNS:$DOMAIN" -keyout "$live/privkey.pem" -out "$live/fullchain.pem" 2> /dev/null
    cp "$live/fullchain.pem" /usr/local/share/ca-certificates/box.crt
    update-ca-certificates > /dev/null 2>&1
}

case "${0##*/} $1" in
    "apt-get install") systemctl start nginx ;; # as Debian does
    "git clone") cp -R /srv/checkout "$last" ;;
    "git rev-parse") echo 0123456789abcdef0123456789abcdef01234567 ;;
    "certbot certonly") get_certificate ;;
esac
