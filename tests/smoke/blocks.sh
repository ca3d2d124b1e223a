#!/bin/sh
# A tool block that the model writes as text comes once, whole, and is counted.
. "$(dirname "$0")/common.sh"

BLOCK='<use_tool><name>readNote</name><path>smoke.md</path></use_tool>'

# How many blocks were told, by the usage that was asked for last.
count_blocks() {
    sed 's/.*"tool_buffer_metrics":{\([^}]*\)}.*/\1/' "$WORK/body" |
        sed -n 's/.*"tool_buffer_flushed":\([0-9]\{1,\}\).*/\1/p'
}

ask GET /v1/usage ''
before=$(count_blocks)
if check 'the usage' 200 '"object":"usage"' '"tool_buffer_metrics":{'; then
    ask POST /v1/chat/completions "$(chat "Say exactly: Look: $BLOCK" ',"stream":true')" \
        -H 'x-proxy-output-mode: obsidian-xml'
    if check 'a tool block in a stream' 200 '"finish_reason":"tool_calls"' '"name":"readNote"'; then
        same 'a tool block in a stream: whole' "Look: $BLOCK" "$(streamed_text)"
        frames=$(grep -c '"delta":{"content":"[^"]*<use_tool>' "$WORK/body")
        same 'a tool block in a stream: once' 1 "$frames"
        # Another worker of the gateway may be asked, which is told within a second.
        for pause in 0 1 1 1 1; do
            sleep "$pause"
            ask GET /v1/usage ''
            after=$(count_blocks)
            [ "${after:-0}" -le "$before" ] || break
        done
        if [ "${after:-0}" -gt "$before" ]; then
            ok 'a tool block is counted in the usage'
        else
            failed 'a tool block is counted in the usage' \
                "expected more than the $before tool_buffer_flushed of before, got ${after:-nothing}"
        fi
    fi
fi

finish
