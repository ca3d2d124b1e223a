// Text that grows while it is on the page, and the moments at which the page is painted.

/** Text shown to the letter; what is added waits for the next `paint`. */
export class TextFlow {
  #shown = new Text();
  #waiting = "";

  /** @param {Element} node */
  constructor(node) {
    this.node = node;
    node.append(this.#shown);
  }

  /** @param {string} text */
  add(text) {
    this.#waiting += text;
  }

  paint() {
    if (!this.#waiting) return;
    this.#shown.appendData(this.#waiting);
    this.#waiting = "";
  }

  read() {
    return this.#shown.data + this.#waiting;
  }

  /** @param {string} text */
  set(text) {
    this.#shown.data = text;
    this.#waiting = "";
  }
}

/** How far from its end a scrolled part may stand and still follow what comes. */
const NEAR_PX = 24;

/** Keeps the end of a scrolled part in sight, until the person scrolls back. */
export class Follower {
  #node;
  #follows = true;
  #top = 0;

  /** @param {Element} node */
  constructor(node) {
    this.#node = node;
    node.addEventListener("scroll", () => this.#look(), { passive: true });
  }

  /** Whatever the person did, the end matters now. */
  jump() {
    this.#follows = true;
    this.follow();
  }

  follow() {
    if (this.#follows) this.#node.scrollTop = this.#node.scrollHeight;
  }

  /** The event comes late: more may have grown below since, which is no reason to stop. */
  #look() {
    const { scrollTop, scrollHeight, clientHeight } = this.#node;
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) this.#follows = true;
    else if (scrollTop < this.#top) this.#follows = false;
    this.#top = scrollTop;
  }
}

/**
 * Paints once before the browser does, however often it is asked.
 * @param {() => void} paint
 * @returns {{ask: () => void, now: () => void}}
 */
export function createPainter(paint) {
  let asked = 0;
  const now = () => {
    cancelAnimationFrame(asked);
    asked = 0;
    paint();
  };
  const ask = () => {
    asked ||= requestAnimationFrame(now);
  };
  return { ask, now };
}
