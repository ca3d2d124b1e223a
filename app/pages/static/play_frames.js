// The raw frames of the last request, as they came.

import { makeCopyButton } from "./copy.js";
import { byId, el, setText } from "./dom.js";
import { formatMs, formatNumber } from "./formats.js";
import { Follower } from "./play_flow.js";

const MAX_SHOWN = 2000;

export class FramesView {
  #list = byId("play-frames");
  #follower = new Follower(this.#list);
  #note = byId("play-frames-note");
  #copy = byId("play-copy-frames");
  #raws = [];
  /** @type {{raw: string, ms: number}[]} */
  #waiting = [];

  constructor() {
    makeCopyButton(this.#copy, () => this.#raws.join(""));
  }

  clear() {
    this.#raws = [];
    this.#waiting = [];
    this.#list.replaceChildren();
    this.#follower.jump();
    this.paint();
  }

  /** @param {string} raw @param {number} ms */
  add(raw, ms) {
    this.#raws.push(raw);
    this.#waiting.push({ raw, ms });
  }

  /** Shows what was added; of a burst only what will stay. */
  paint() {
    const list = this.#list;
    const fresh = this.#waiting.slice(-MAX_SHOWN);
    this.#waiting = [];
    list.append(...fresh.map(buildFrame));
    for (let surplus = list.childElementCount - MAX_SHOWN; surplus > 0; surplus -= 1) list.firstChild.remove();
    this.#copy.disabled = !this.#raws.length;
    setText(this.#note, describeCount(this.#raws.length));
    this.#follower.follow();
  }
}

function buildFrame({ raw, ms }) {
  return el("li", {}, el("span", { class: "play-at", text: formatMs(ms) }), el("code", { text: raw }));
}

function describeCount(count) {
  if (count > MAX_SHOWN) return `The newest ${formatNumber(MAX_SHOWN)} of ${formatNumber(count)} frames.`;
  return count ? `${formatNumber(count)} ${count === 1 ? "frame" : "frames"}.` : "None yet.";
}
