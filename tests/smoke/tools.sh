#!/bin/sh
# A tool is called, told its result, and the answer knows of it.
. "$(dirname "$0")/common.sh"

TOOLS='[{"type":"function","function":{"name":"get_weather","description":"The weather of a city.",
    "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]'
QUESTION='Call get_weather for Paris, then tell me what it said.'

ask POST /v1/chat/completions "$(chat "$QUESTION" ",\"tools\":$TOOLS")"
if check 'a tool call' 200 '"finish_reason":"tool_calls"' '"name":"get_weather"' '"arguments":"{.*Paris'; then
    call_id=$(sed 's/.*"tool_calls":\[{"id":"\([^"]*\)".*/\1/' "$WORK/body")
    arguments=$(field arguments)
    call="{\"id\":\"$call_id\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"$arguments\"}}"
    ask POST /v1/chat/completions "{\"model\":\"$MODEL\",\"tools\":$TOOLS,\"messages\":[
        {\"role\":\"user\",\"content\":\"$QUESTION\"},
        {\"role\":\"assistant\",\"content\":null,\"tool_calls\":[$call]},
        {\"role\":\"tool\",\"tool_call_id\":\"$call_id\",\"content\":\"21 degrees and clear\"}]}"
    check "a tool's result" 200 '"finish_reason":"stop"' '21 degrees'
fi

finish
