#!/bin/sh
# A wrong key opens nothing, nor does none.
. "$(dirname "$0")/common.sh"

send GET /v1/models '' -H 'authorization: Bearer no-such-key'
if [ "$STATUS" = 200 ]; then
    echo 'skipped: the gateway is open'
else
    check 'a wrong key is refused' 401 '"code":"invalid_api_key"'
    send GET /v1/models ''
    check 'no key is refused' 401 '"code":"invalid_api_key"'
    ask GET /v1/models ''
    check 'the key is taken' 200
fi

finish
