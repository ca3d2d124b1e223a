// The last request as it was sent, and the head of its reply.

import { byId, setText } from "./dom.js";

const OURS = /^(x-(proxy-|request-id|should-retry|ratelimit-)|retry-after)/;

export class RequestView {
  #line = byId("play-request-line");
  #body = byId("play-request-body");
  #reply = byId("play-reply");

  clear() {
    for (const node of [this.#line, this.#body, this.#reply]) setText(node, "");
  }

  /** @param {{path: string, headers: Record<string, string>, body: object}} call */
  show({ path, headers, body }) {
    setText(this.#line, [`POST ${path}`, ...listHeaders(Object.entries(headers))].join("\n"));
    setText(this.#body, JSON.stringify(body, null, 2));
    setText(this.#reply, "");
  }

  /** The body is an error's, as text; what else comes is shown as frames. @param {Response | {body: string}} reply */
  showReply({ status, headers, body }) {
    const ours = [...headers].filter(([name]) => OURS.test(name));
    const lines = [`Reply: ${status}`, ...listHeaders(ours)];
    if (typeof body === "string") lines.push("", body);
    setText(this.#reply, lines.join("\n"));
  }
}

/** @param {[string, string][]} headers */
function listHeaders(headers) {
  return headers.map(([name, value]) => `${name}: ${value}`);
}
