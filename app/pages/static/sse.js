// Server-sent events out of text that comes in pieces.

/** @typedef {{raw: string, data: string | null}} Frame */

const LINE_END = /\r\n|\n|\r/g;

/** Any cut of the input gives the same frames, and their `raw` texts together are the input. */
export class SseParser {
  #text = "";
  #lineStart = 0;
  #searchFrom = 0;
  #lines = [];

  /** @param {string} text @returns {Frame[]} the frames that are complete now */
  feed(text) {
    this.#text += text;
    return this.#takeFrames(false);
  }

  /** @returns {Frame[]} what is left; a frame without its blank line was cut and brings no data */
  finish() {
    const frames = this.#takeFrames(true);
    if (this.#text) frames.push({ raw: this.#text, data: null });
    this.#text = "";
    this.#startFrame();
    return frames;
  }

  #takeFrames(isLast) {
    const frames = [];
    for (;;) {
      LINE_END.lastIndex = this.#searchFrom;
      const end = LINE_END.exec(this.#text);
      if (end === null || (!isLast && this.#mayGrow(end))) {
        this.#searchFrom = end === null ? this.#text.length : end.index;
        return frames;
      }
      const line = this.#text.slice(this.#lineStart, end.index);
      this.#lineStart = this.#searchFrom = end.index + end[0].length;
      if (line) this.#lines.push(line);
      else frames.push(this.#cutFrame());
    }
  }

  /** A CR at the end of a piece may be the first half of a CRLF. */
  #mayGrow(end) {
    return end[0] === "\r" && end.index + 1 === this.#text.length;
  }

  #cutFrame() {
    const frame = { raw: this.#text.slice(0, this.#lineStart), data: readData(this.#lines) };
    this.#text = this.#text.slice(this.#lineStart);
    this.#startFrame();
    return frame;
  }

  #startFrame() {
    this.#lineStart = this.#searchFrom = 0;
    this.#lines = [];
  }
}

/** The one field that this page reads: what an event is called its data tells as well. */
function readData(lines) {
  const data = [];
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
  }
  return data.length ? data.join("\n") : null;
}
