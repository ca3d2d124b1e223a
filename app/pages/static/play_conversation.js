// The conversation in no dialect, and the events that an answer in either comes as.

/**
 * @typedef {{id: string, name: string, arguments: string}} Call
 * @typedef {{kind: "message", text: string}} Message
 * @typedef {{kind: "results", results: {id: string, text: string}[]}} Results
 * @typedef {{kind: "answer", text: string, calls: Call[], responseId: string | null}} Answer
 * @typedef {Message | Results | Answer} Entry
 *
 * @typedef {{input: number, cached: number, output: number, reasoning: number}} Usage
 * @typedef {{name: string, description?: string, parameters?: object, strict?: boolean}} Tool
 * @typedef {{model: string, effort: string, outputMode: string, instructions: string, tools: Tool[]}} Settings
 * @typedef {{message: string, code: string, requestId?: string}} Failure
 *
 * @typedef {{type: "text", text: string}
 *   | {type: "reasoning", text: string, part: string}
 *   | {type: "call", key: number, id: string, name: string}
 *   | {type: "arguments", key: number, text: string}
 *   | {type: "callDone", key: number}
 *   | {type: "usage", usage: Usage}
 *   | {type: "stored", responseId: string}
 *   | {type: "finish", reason: string}
 *   | {type: "failure", failure: Failure}} PlayEvent
 */

/** What a model says; the time to the first of these is the time to the first token. */
const SPOKEN = new Set(["text", "reasoning", "call", "arguments"]);

/** @param {PlayEvent[]} events */
export function isSpoken(events) {
  return events.some((event) => SPOKEN.has(event.type));
}

/** An answer as it grows. */
export class AnswerRecord {
  #text = "";
  /** @type {Map<number, Call>} */
  #calls = new Map();
  #responseId = null;
  hasFailed = false;
  finishReason = "";

  /** @param {PlayEvent} event */
  take(event) {
    switch (event.type) {
      case "text":
        this.#text += event.text;
        break;
      case "call":
        this.#calls.set(event.key, { id: event.id, name: event.name, arguments: "" });
        break;
      case "arguments":
        this.#calls.get(event.key).arguments += event.text;
        break;
      case "stored":
        this.#responseId = event.responseId;
        break;
      case "finish":
        this.finishReason = event.reason;
        break;
      case "failure":
        this.hasFailed = true;
        break;
    }
  }

  /** @returns {Answer} */
  toEntry() {
    return {
      kind: "answer",
      text: this.#text,
      calls: [...this.#calls.values()],
      responseId: this.#responseId,
    };
  }

  /**
   * What was said before it was stopped; a call may lack its end and is no part of it.
   * @returns {Answer}
   */
  toStoppedEntry() {
    return { kind: "answer", text: this.#text, calls: [], responseId: null };
  }
}
