#!/bin/sh
# Is the model on offer, and an unknown one not?
. "$(dirname "$0")/common.sh"

ask GET /v1/models ''
check "the models have $MODEL" 200 '"object":"list"' "\"id\":\"$MODEL\""
ask GET "/v1/models/$MODEL" ''
check "the model $MODEL" 200 "\"id\":\"$MODEL\""
ask GET /v1/models/no-such-model ''
check 'an unknown model is refused' 404 '"code":"model_not_found"'

finish
