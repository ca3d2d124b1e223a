#!/bin/sh
# Responses: a body, a stream that goes on from it, and both deleted.
. "$(dirname "$0")/common.sh"

ask POST /v1/responses "{\"model\":\"$MODEL\",\"input\":\"Say exactly: first\"}"
if check 'a response' 200 '"object":"response"' '"status":"completed"' '"text":"first"'; then
    first=$(field id)
    ask GET "/v1/responses/$first" ''
    check 'a stored response' 200 "\"id\":\"$first\"" '"text":"first"'

    ask POST /v1/responses \
        "{\"model\":\"$MODEL\",\"input\":\"Say exactly: second\",\"previous_response_id\":\"$first\",\"stream\":true}"
    if check 'a response stream that follows' 200 '^event: response.created' '^event: response.output_text.delta' \
        '^event: response.completed' "\"previous_response_id\":\"$first\"" '"text":"second"'; then
        second=$(field id)
        ask GET "/v1/responses/$second/input_items" ''
        check 'what it follows' 200 '"text":"first"' '"text":"Say exactly: second"'
        ask DELETE "/v1/responses/$second" ''
        check 'the stream is deleted' 200 '"deleted":true'
    fi

    ask DELETE "/v1/responses/$first" ''
    check 'a response is deleted' 200 '"deleted":true'
    ask GET "/v1/responses/$first" ''
    check 'a deleted response is gone' 404 '"code":"response_not_found"'
fi

finish
