// Chat completions: the conversation as a request's body, and a stream's frames as events.

import { parseFrame } from "./play_frame_json.js";

/** @typedef {import("./play_conversation.js").Entry} Entry */
/** @typedef {import("./play_conversation.js").PlayEvent} PlayEvent */
/** @typedef {import("./play_conversation.js").Settings} Settings */

export const chat = {
  name: "Chat Completions",
  path: "/v1/chat/completions",

  /** @param {Settings} settings */
  buildHeaders(settings) {
    return settings.outputMode ? { "x-proxy-output-mode": settings.outputMode } : {};
  },

  /** @param {Entry[]} entries @param {Settings} settings */
  buildBody(entries, settings) {
    const body = {
      model: settings.model,
      messages: [...buildOrders(settings.instructions), ...entries.flatMap(buildMessages)],
      stream: true,
      stream_options: { include_usage: true },
    };
    if (settings.effort) body.reasoning_effort = settings.effort;
    if (settings.tools.length) {
      body.tools = settings.tools.map((tool) => ({ type: "function", function: tool }));
    }
    return body;
  },

  openReader() {
    return new ChatReader();
  },
};

/** @param {string} instructions */
function buildOrders(instructions) {
  return instructions ? [{ role: "system", content: instructions }] : [];
}

/** @param {Entry} entry */
function buildMessages(entry) {
  switch (entry.kind) {
    case "message":
      return [{ role: "user", content: entry.text }];
    case "results":
      return entry.results.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text }));
    case "answer":
      return buildAnswer(entry);
  }
}

/** @param {import("./play_conversation.js").Answer} answer */
function buildAnswer({ text, calls }) {
  if (!calls.length) return text ? [{ role: "assistant", content: text }] : [];
  const toolCalls = calls.map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: call.arguments },
  }));
  return [{ role: "assistant", content: text || null, tool_calls: toolCalls }];
}

/** Reads one stream, frame by frame. */
class ChatReader {
  /** @type {Set<number>} */
  #openCalls = new Set();
  isOver = false;

  /** @param {string} data @returns {PlayEvent[]} */
  feed(data) {
    if (data === "[DONE]") {
      this.isOver = true;
      return [];
    }
    const chunk = parseFrame(data);
    if (chunk.error) {
      return [{ type: "failure", failure: { message: chunk.error.message, code: chunk.error.code } }];
    }
    return [...this.#readChoice(chunk.choices?.[0]), ...readUsage(chunk.usage)];
  }

  *#readChoice(choice) {
    const delta = choice?.delta ?? {};
    if (delta.reasoning_content) yield { type: "reasoning", text: delta.reasoning_content, part: "" };
    if (delta.content) yield { type: "text", text: delta.content };
    for (const call of delta.tool_calls ?? []) yield* this.#readCall(call);
    if (choice?.finish_reason) {
      for (const key of this.#openCalls) yield { type: "callDone", key };
      yield { type: "finish", reason: choice.finish_reason };
    }
  }

  *#readCall(call) {
    const key = call.index;
    if (!this.#openCalls.has(key)) {
      this.#openCalls.add(key);
      yield { type: "call", key, id: call.id, name: call.function.name };
    }
    // Beside `function` a delta may repeat all the arguments so far; clients add up those within.
    if (call.function?.arguments) yield { type: "arguments", key, text: call.function.arguments };
  }
}

/** @returns {PlayEvent[]} */
function readUsage(usage) {
  if (!usage) return [];
  const told = {
    input: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens,
    output: usage.completion_tokens,
    reasoning: usage.completion_tokens_details?.reasoning_tokens,
  };
  return [{ type: "usage", usage: told }];
}
