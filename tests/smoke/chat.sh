#!/bin/sh
# A chat, as a body and as a stream.
. "$(dirname "$0")/common.sh"

ask POST /v1/chat/completions "$(chat 'Say exactly: the smoke rises')" -H "x-request-id: smoke-$$"
if check 'a chat' 200 '"object":"chat.completion"' '"finish_reason":"stop"' '"usage":{'; then
    same 'a chat: its answer' 'the smoke rises' "$(field content)"
    same 'a chat: its request id' "smoke-$$" "$(header x-request-id)"
fi

ask POST /v1/chat/completions "$(chat 'Say exactly: and drifts away' ',"stream":true')"
if check 'a chat stream' 200 '"object":"chat.completion.chunk"' '"finish_reason":"stop"'; then
    same 'a chat stream: its answer' 'and drifts away' "$(streamed_text)"
    same 'a chat stream: its type' 'text/event-stream; charset=utf-8' "$(header content-type)"
    same 'a chat stream: its end' 'data: [DONE]' "$(grep -v '^$' "$WORK/body" | tail -n 1)"
fi

ask POST /v1/chat/completions '{"model":"no-such-model","messages":[{"role":"user","content":"Hello"}]}'
check 'a chat with an unknown model is refused' 404 '"code":"model_not_found"'
ask POST /v1/chat/completions '{"messages":'
check 'a chat that is no JSON is refused' 400 '"type":"invalid_request_error"'

finish
