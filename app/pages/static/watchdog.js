// Patience with a stream: one that is silent for too long is dead, whatever the browser thinks of it.

/** A timer that is later than this was held up: the page slept, and could not hear what came. */
const LATE_MS = 2_000;

export class Watchdog {
  #patienceMs;
  #onSilence;
  #timer = null;
  #dueAt = 0;

  /** @param {number} patienceMs @param {() => void} onSilence */
  constructor(patienceMs, onSilence) {
    this.#patienceMs = patienceMs;
    this.#onSilence = onSilence;
  }

  /** From now on the silence counts anew. */
  feed() {
    this.end();
    this.#dueAt = Date.now() + this.#patienceMs;
    this.#timer = setTimeout(() => this.#look(), this.#patienceMs);
  }

  end() {
    clearTimeout(this.#timer);
  }

  #look() {
    if (Date.now() - this.#dueAt > LATE_MS) this.feed();
    else this.#onSilence();
  }
}
