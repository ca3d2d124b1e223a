// One answer on the page: reasoning and text in the order in which they came, then its calls with their results.

import { el, setText } from "./dom.js";
import { CallCard } from "./play_call_card.js";
import { TextFlow } from "./play_flow.js";

/** @typedef {import("./play_conversation.js").PlayEvent} PlayEvent */
/** @typedef {import("./play_conversation.js").Failure} Failure */

/** What the gateway calls it when codex has no login that is valid. */
const LOGIN_MISSING = "upstream_unauthorized";

export class AnswerView {
  #state = el("span", { class: "play-state", text: "waiting" });
  #body = el("div", { class: "play-body" });
  /** Apart, as a block of text that spells a call is still told when the call is. */
  #calls = el("div", { class: "play-body" });
  #send = el("button", { type: "button", class: "primary", text: "Send results", disabled: true });
  #sendLine = el("p", { class: "actions", hidden: true }, this.#send);
  /** What grew since the last paint. */
  #grown = new Set();
  /** @type {Map<number, CallCard>} */
  #cards = new Map();
  /** What the next words belong to, if they are of the same kind. */
  #last = { kind: "", flow: null };

  /** @param {string} origin model and endpoint @param {(results: {id: string, text: string}[]) => void} onResults */
  constructor(origin, onResults) {
    const head = el(
      "header",
      { class: "play-head" },
      el("strong", { text: "Answer" }),
      el("span", { class: "muted", text: origin }),
      this.#state,
    );
    this.node = el(
      "article",
      { class: "play-answer", "aria-label": "Answer", "aria-busy": "true" },
      head,
      this.#body,
      this.#calls,
      this.#sendLine,
    );
    this.#send.addEventListener("click", () => onResults(this.#readResults()));
    this.node.addEventListener("keydown", (event) => this.#sendByKey(event));
  }

  /** @param {PlayEvent} event */
  take(event) {
    switch (event.type) {
      case "text":
        return this.#grow(this.#continue("text", buildText), event.text);
      case "reasoning":
        return this.#grow(this.#continue(`reasoning ${event.part}`, buildReasoning), event.text);
      case "call":
        return this.#addCall(event);
      case "arguments":
        return this.#grow(this.#cards.get(event.key), event.text);
      case "callDone":
        return this.#cards.get(event.key).finish();
      case "failure":
        return this.showFailure(event.failure);
    }
  }

  paint() {
    for (const grown of this.#grown) grown.paint();
    if (this.#grown.size) setText(this.#state, "answering");
    this.#grown.clear();
  }

  /** @param {Failure} failure */
  showFailure({ message, code, requestId }) {
    this.#body.append(
      el(
        "div",
        { class: "play-alert", role: "alert" },
        el("strong", { text: code ?? "error" }),
        el("p", { text: message }),
        code?.endsWith(LOGIN_MISSING) && buildLoginHint(),
        requestId && el("p", { class: "muted", text: `Request id ${requestId}` }),
      ),
    );
  }

  /** @param {string} state how it ended; "" where there is nothing to say of that */
  end(state) {
    this.paint();
    this.node.removeAttribute("aria-busy");
    setText(this.#state, state);
  }

  /** Results of its calls may be given. */
  open() {
    for (const card of this.#cards.values()) card.open();
    this.#sendLine.hidden = !this.#cards.size;
  }

  /** The conversation goes on, with the results or without. */
  close(wereSent) {
    for (const card of this.#cards.values()) card.close(wereSent);
    this.#sendLine.hidden = true;
  }

  #addCall({ key, id, name }) {
    const card = new CallCard({ id, name }, () => (this.#send.disabled = !this.#hasResults()));
    this.#cards.set(key, card);
    this.#calls.append(card.node);
    this.#grown.add(card);
  }

  #continue(kind, build) {
    if (this.#last.kind !== kind) {
      this.#last = { kind, flow: build(this.#body) };
    }
    return this.#last.flow;
  }

  #grow(flow, text) {
    flow.add(text);
    this.#grown.add(flow);
  }

  #hasResults() {
    return [...this.#cards.values()].every((card) => card.result);
  }

  #readResults() {
    return [...this.#cards.values()].map((card) => ({ id: card.id, text: card.result }));
  }

  #sendByKey(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !this.#sendLine.hidden) this.#send.click();
  }
}

/** @param {Element} body */
function buildText(body) {
  const node = el("div", { class: "play-text" });
  body.append(node);
  return new TextFlow(node);
}

/** Parts that follow one another are paragraphs of one thought. @param {Element} body */
function buildReasoning(body) {
  const node = el("p", { class: "play-text" });
  const before = body.lastElementChild;
  if (before?.matches("details")) before.append(node);
  else body.append(el("details", { class: "play-reasoning" }, el("summary", { text: "Reasoning" }), node));
  return new TextFlow(node);
}

/** Codex may take itself for logged in all the same, and then only a logout is offered. */
function buildLoginHint() {
  const place = el("a", { href: "#start", text: "Start" });
  return el("p", {}, "Codex has no valid login. On ", place, ", log in; where it says that it is, log out first.");
}
