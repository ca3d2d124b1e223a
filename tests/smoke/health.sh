#!/bin/sh
# Is it there, and can it answer?
. "$(dirname "$0")/common.sh"

send GET /livez ''
check 'the gateway is alive' 200 '"status":"ok"'
send GET /readyz ''
check 'the gateway is ready' 200 '"status":"ok"'
send GET /healthz ''
check 'health without a key' 200 '"ready":true'

finish
