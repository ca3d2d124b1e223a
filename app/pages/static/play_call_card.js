// A tool call on the page: its arguments as they stream, and the place for its result.

import { el, setText } from "./dom.js";
import { TextFlow } from "./play_flow.js";
import { formatJson } from "./play_json.js";
import { buildExampleResult } from "./play_tools.js";

let cards = 0;

export class CallCard {
  #flow = new TextFlow(el("code"));
  #result;
  #fillIn;
  #answer;
  #state = el("span", { class: "play-result-state muted" });

  /** @param {{id: string, name: string}} call @param {() => void} onChange */
  constructor({ id, name }, onChange) {
    const resultId = `play-result-${(cards += 1)}`;
    this.id = id;
    this.#result = el("textarea", { id: resultId, rows: 2, spellcheck: "false", on: { input: onChange } });
    this.#fillIn = el("button", { type: "button", class: "small", text: "Fill in an example" });
    this.#fillIn.addEventListener("click", () => {
      this.#result.value = buildExampleResult(name);
      onChange();
    });
    this.#answer = el(
      "div",
      { class: "play-result", hidden: true },
      el("p", { class: "play-result-head" }, el("label", { for: resultId, text: "Result" }), this.#fillIn, this.#state),
      this.#result,
    );
    this.node = el(
      "article",
      { class: "play-call", "aria-label": `Call of ${name}` },
      el("p", { class: "play-call-head" }, el("strong", { text: name }), el("span", { class: "play-id", text: id })),
      el("pre", { tabindex: "0", role: "group", "aria-label": "Arguments" }, this.#flow.node),
      this.#answer,
    );
  }

  /** @param {string} text */
  add(text) {
    this.#flow.add(text);
  }

  paint() {
    this.#flow.paint();
  }

  /** All the arguments are there: from now on as they read best. */
  finish() {
    const text = this.#flow.read();
    this.#flow.set(formatJson(text) ?? text);
  }

  /** A result may be given, or changed. */
  open() {
    this.#answer.hidden = false;
    this.#setOpen(true, "");
  }

  /** What was written and went nowhere must not look like what the model was told. */
  close(wasSent) {
    this.#answer.hidden = !wasSent && !this.result;
    this.#setOpen(false, wasSent ? "sent" : "not sent");
  }

  #setOpen(isOpen, state) {
    this.#result.readOnly = !isOpen;
    this.#fillIn.hidden = !isOpen;
    setText(this.#state, state);
    this.#answer.classList.toggle("unsent", state === "not sent");
  }

  get result() {
    return this.#result.value;
  }
}
