// The playground: a conversation with a model through this gateway, and all that goes over the wire for it.

import { byId, el } from "./dom.js";
import { askKey } from "./key.js";
import { loadModels, onModels } from "./models.js";
import { Outcome, Session } from "./play_session.js";
import { Setup } from "./play_setup.js";
import { onStatus } from "./status.js";

class Composer {
  #message = byId("play-message");
  #send = byId("play-send");
  #stop = byId("play-stop");
  #setup;
  #session;

  /** @param {Setup} setup */
  constructor(setup) {
    this.#setup = setup;
    this.#session = new Session({
      onResults: (results) => this.#sendEntry({ kind: "results", results }, null),
      onRunning: (isRunning) => this.#showRunning(isRunning),
    });
    byId("play-composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#sendMessage();
    });
    this.#stop.addEventListener("click", () => this.#session.stop());
    byId("play-new").addEventListener("click", () => this.#begin());
    for (const part of [byId("play-composer"), byId("play-setup")]) {
      part.addEventListener("keydown", (event) => this.#sendByKey(event));
    }
  }

  /** One more press sends it, once it has been read. @param {string} text */
  suggest(text) {
    this.#message.value = text;
    this.#send.focus();
  }

  #sendByKey(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.#sendMessage();
  }

  async #sendMessage() {
    const text = this.#message.value;
    if (!text.trim()) {
      this.#message.focus();
      return;
    }
    const words = el("div", { class: "play-text", text });
    const head = el("header", { class: "play-head" }, el("strong", { text: "You" }));
    const you = el("article", { class: "play-you", "aria-label": "You" }, head, words);
    await this.#sendEntry({ kind: "message", text }, you);
  }

  /** @param {import("./play_conversation.js").Entry} entry @param {Element | null} shown */
  async #sendEntry(entry, shown) {
    if (!this.#setup.hasModels) await loadModels();
    if (!this.#setup.hasModels || this.#session.isRunning) return;
    const settings = this.#setup.read();
    if (!settings) return;
    if (shown) this.#message.value = "";
    const outcome = await this.#session.send(entry, settings, this.#setup.dialect, shown);
    // It can be mended and sent again.
    if (outcome === Outcome.FAILED && shown && !this.#message.value) this.#message.value = entry.text;
  }

  async #begin() {
    await this.#session.begin();
    this.#message.focus();
  }

  /** Who has the focus on a button that goes away finds it on the one that matters next. */
  #showRunning(isRunning) {
    const focused = document.activeElement;
    const wasOnButton = focused?.matches("button");
    this.#send.disabled = isRunning;
    this.#stop.disabled = !isRunning;
    if (isRunning && wasOnButton) this.#stop.focus();
    if (!isRunning && focused === this.#stop) this.#send.focus();
  }
}

export function startPlayground() {
  const setup = new Setup();
  const composer = new Composer(setup);
  for (const button of byId("play-hint").querySelectorAll("button")) {
    button.addEventListener("click", () => {
      if (button.dataset.tool) byId(`play-tool-${button.dataset.tool}`).checked = true;
      composer.suggest(button.dataset.message);
    });
  }
  byId("play-give-key").addEventListener("click", () => askKey("key"));
  onModels((ids, error) => setup.showModels(ids, error));
  onStatus((status, error) => {
    if (status) setup.showStatus(status);
    showNeedsKey(Boolean(error?.asksForKey));
  });
}

function showNeedsKey(isNeeded) {
  const panel = byId("play-needs-key");
  const hadFocus = panel.contains(document.activeElement);
  panel.hidden = !isNeeded;
  if (hadFocus && !isNeeded) byId("play-message").focus();
}
