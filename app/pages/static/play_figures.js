// The figures of the last request.

import { byId, setText } from "./dom.js";
import { formatMs, formatNumber, NOTHING } from "./formats.js";

export class FiguresView {
  #fields = byId("play-figures").querySelectorAll("dd");

  clear() {
    for (const field of this.#fields) setText(field, NOTHING);
  }

  /** @param {number} ms */
  showFirstToken(ms) {
    setText(byId("play-first-token"), formatMs(ms));
  }

  /** @param {number} ms */
  showTotal(ms) {
    setText(byId("play-total"), formatMs(ms));
  }

  /** @param {Headers} headers */
  showReply(headers) {
    setText(byId("play-continuation"), headers.get("x-proxy-continuation") ?? NOTHING);
    setText(byId("play-request-id"), headers.get("x-request-id") ?? NOTHING);
  }

  /** @param {import("./play_conversation.js").Usage} usage */
  showUsage(usage) {
    for (const [name, count] of Object.entries(usage)) {
      setText(byId(`play-${name}-tokens`), formatNumber(count));
    }
  }

  /** @param {string} reason */
  showFinish(reason) {
    setText(byId("play-finish"), reason);
  }
}
