// The last request as it was sent, and the head of its reply.

import { byId, setText } from "./dom.js";

const OURS = /^x-(proxy-|request-id|should-retry)/;

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

  /** @param {Response} reply */
  showReply({ status, headers }) {
    const ours = [...headers].filter(([name]) => OURS.test(name));
    setText(this.#reply, [`Reply: ${status}`, ...listHeaders(ours)].join("\n"));
  }
}

/** @param {[string, string][]} headers */
function listHeaders(headers) {
  return headers.map(([name, value]) => `${name}: ${value}`);
}
