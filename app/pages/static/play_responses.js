// The Responses API: what is new in the conversation as a request's body, and a stream's events as ours.

import { parseFrame } from "./play_frame_json.js";

/** @typedef {import("./play_conversation.js").Entry} Entry */
/** @typedef {import("./play_conversation.js").PlayEvent} PlayEvent */
/** @typedef {import("./play_conversation.js").Settings} Settings */

export const responses = {
  name: "Responses",
  path: "/v1/responses",

  buildHeaders() {
    return {};
  },

  /** @param {Entry[]} entries @param {Settings} settings */
  buildBody(entries, settings) {
    // What came before a stored answer is stored with it.
    const stored = entries.findLastIndex((entry) => entry.responseId);
    const body = {
      model: settings.model,
      input: entries.slice(stored + 1).flatMap(buildItems),
      stream: true,
      store: true,
      reasoning: { summary: "auto" },
    };
    if (stored >= 0) body.previous_response_id = entries[stored].responseId;
    if (settings.instructions) body.instructions = settings.instructions;
    if (settings.effort) body.reasoning.effort = settings.effort;
    if (settings.tools.length) body.tools = settings.tools.map((tool) => ({ type: "function", ...tool }));
    return body;
  },

  openReader() {
    return new ResponsesReader();
  },
};

/** @param {Entry} entry */
function buildItems(entry) {
  switch (entry.kind) {
    case "message":
      return [{ role: "user", content: entry.text }];
    case "results":
      return entry.results.map(({ id, text }) => ({ type: "function_call_output", call_id: id, output: text }));
    case "answer":
      return buildAnswer(entry);
  }
}

/** @param {import("./play_conversation.js").Answer} answer */
function buildAnswer({ text, calls }) {
  const items = text ? [{ role: "assistant", content: text }] : [];
  for (const call of calls) {
    items.push({ type: "function_call", call_id: call.id, name: call.name, arguments: call.arguments });
  }
  return items;
}

/** Reads one stream, event by event. */
class ResponsesReader {
  #hasFailed = false;
  isOver = false;

  /** @param {string} data @returns {PlayEvent[]} */
  feed(data) {
    if (data === "[DONE]") return [];
    const event = parseFrame(data);
    switch (event.type) {
      case "response.output_text.delta":
        return [{ type: "text", text: event.delta }];
      case "response.reasoning_summary_text.delta":
        return [{ type: "reasoning", text: event.delta, part: `${event.item_id}/${event.summary_index}` }];
      case "response.output_item.added":
        return readItem(event);
      case "response.function_call_arguments.delta":
        return [{ type: "arguments", key: event.output_index, text: event.delta }];
      case "response.function_call_arguments.done":
        return [{ type: "callDone", key: event.output_index }];
      case "error":
        return this.#fail(event.error ?? event);
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
        return this.#end(event.response);
      default:
        return [];
    }
  }

  /** An `error` event and `response.failed` tell of one failure; the first of them tells more. */
  #fail(error) {
    if (this.#hasFailed) return [];
    this.#hasFailed = true;
    return [{ type: "failure", failure: { message: error.message, code: error.code } }];
  }

  #end(response) {
    this.isOver = true;
    const failures = response.status === "failed" ? this.#fail(response.error ?? {}) : [];
    const kept = response.store && !this.#hasFailed ? [{ type: "stored", responseId: response.id }] : [];
    return [...failures, ...kept, ...readUsage(response.usage), { type: "finish", reason: readReason(response) }];
  }
}

/** @returns {PlayEvent[]} */
function readItem({ output_index: key, item }) {
  return item.type === "function_call" ? [{ type: "call", key, id: item.call_id, name: item.name }] : [];
}

function readReason({ status, incomplete_details: details }) {
  return details?.reason ? `${status}: ${details.reason}` : status;
}

/** @returns {PlayEvent[]} */
function readUsage(usage) {
  if (!usage) return [];
  const told = {
    input: usage.input_tokens,
    cached: usage.input_tokens_details?.cached_tokens,
    output: usage.output_tokens,
    reasoning: usage.output_tokens_details?.reasoning_tokens,
  };
  return [{ type: "usage", usage: told }];
}
