// One conversation on the page: what is sent, what comes, and what of it is kept.

import { byId } from "./dom.js";
import { AnswerView } from "./play_answer.js";
import { AnswerRecord, isSpoken } from "./play_conversation.js";
import { FiguresView } from "./play_figures.js";
import { createPainter, Follower } from "./play_flow.js";
import { FramesView } from "./play_frames.js";
import { RequestView } from "./play_request.js";
import { describeFailure, runTurn } from "./play_turn.js";

/** @typedef {import("./play_conversation.js").Entry} Entry */
/** @typedef {import("./play_conversation.js").Settings} Settings */
/** @typedef {import("./play_conversation.js").PlayEvent} PlayEvent */

/** @enum {string} how a request ended */
export const Outcome = { ANSWERED: "answered", STOPPED: "stopped", FAILED: "failed" };

/** Where the finish reason does not tell. */
const ENDS = {
  [Outcome.STOPPED]: "Stopped",
  [Outcome.FAILED]: "Failed, and left out of the conversation",
};

export class Session {
  #log = byId("play-log");
  #follower = new Follower(this.#log);
  #frames = new FramesView();
  #figures = new FiguresView();
  #request = new RequestView();
  #painter = createPainter(() => this.#paint());
  /** @type {Entry[]} */
  #entries = [];
  /** @type {AnswerView | null} the last one that was kept whole: its calls may still get their results */
  #latest = null;
  /** @type {{controller: AbortController, answer: AnswerView, record: AnswerRecord, sentAt: number} | null} */
  #running = null;
  /** Fulfilled when nothing runs any more. */
  #ending = Promise.resolve();
  #totalMs = 0;
  #hasSpoken = false;
  #onResults;
  #onRunning;

  /** @param {{onResults: (results: object[]) => void, onRunning: (isRunning: boolean) => void}} told */
  constructor({ onResults, onRunning }) {
    this.#onResults = onResults;
    this.#onRunning = onRunning;
    this.#figures.clear();
    this.#frames.clear();
  }

  get isRunning() {
    return this.#running !== null;
  }

  stop() {
    this.#running?.controller.abort();
  }

  /** Forgets everything, once an answer under way has been stopped. */
  async begin() {
    this.stop();
    await this.#ending;
    this.#entries = [];
    this.#latest = null;
    this.#log.querySelectorAll("article").forEach((article) => article.remove());
    this.#figures.clear();
    this.#frames.clear();
    this.#request.clear();
  }

  /**
   * Sends the conversation with one more entry, and shows what comes.
   * @param {Entry} entry
   * @param {Settings} settings
   * @param {object} dialect
   * @param {Element | null} shown the entry on the page, if it is to be one of the log
   * @returns {Promise<Outcome>}
   */
  async send(entry, settings, dialect, shown) {
    const answer = new AnswerView(`${settings.model} · ${dialect.name}`, this.#onResults);
    const record = new AnswerRecord();
    this.#latest?.close(entry.kind === "results");
    this.#log.append(...[shown, answer.node].filter(Boolean));
    this.#follower.jump();
    this.#running = { controller: new AbortController(), answer, record, sentAt: performance.now() };
    let tellEnd;
    this.#ending = new Promise((resolve) => (tellEnd = resolve));
    this.#onRunning(true);
    try {
      const outcome = await this.#run(dialect, settings, [...this.#entries, entry]);
      this.#keep(entry, outcome);
      return outcome;
    } finally {
      this.#running = null;
      tellEnd();
      this.#onRunning(false);
    }
  }

  async #run(dialect, settings, entries) {
    const { controller, answer, record, sentAt } = this.#running;
    try {
      const call = this.#buildCall(dialect, settings, entries);
      this.#startPanels(call);
      for await (const { frame, events } of runTurn(call)) this.#take(frame.raw, frame.at - sentAt, events);
      return record.hasFailed ? Outcome.FAILED : Outcome.ANSWERED;
    } catch (error) {
      if (controller.signal.aborted) return Outcome.STOPPED;
      this.#fail(answer, error);
      return Outcome.FAILED;
    } finally {
      this.#totalMs = performance.now() - sentAt;
      this.#painter.now();
    }
  }

  #buildCall(dialect, settings, entries) {
    return {
      path: dialect.path,
      headers: dialect.buildHeaders(settings),
      body: dialect.buildBody(entries, settings),
      reader: dialect.openReader(),
      signal: this.#running.controller.signal,
      onReply: (reply) => this.#showReply(reply),
    };
  }

  /** @param {Response | {status: number, headers: Headers, body: string}} reply */
  #showReply(reply) {
    this.#figures.showReply(reply.headers);
    this.#request.showReply(reply);
  }

  #startPanels(call) {
    this.#totalMs = 0;
    this.#hasSpoken = false;
    this.#figures.clear();
    this.#frames.clear();
    this.#request.show(call);
  }

  /** @param {string} raw @param {number} ms @param {PlayEvent[]} events */
  #take(raw, ms, events) {
    const { answer, record } = this.#running;
    this.#totalMs = ms;
    this.#frames.add(raw, ms);
    if (!this.#hasSpoken && isSpoken(events)) {
      this.#hasSpoken = true;
      this.#figures.showFirstToken(ms);
    }
    for (const event of events) {
      record.take(event);
      answer.take(event);
      if (event.type === "usage") this.#figures.showUsage(event.usage);
      if (event.type === "finish") this.#figures.showFinish(event.reason);
    }
    this.#painter.ask();
  }

  #fail(answer, error) {
    answer.showFailure(describeFailure(error));
    if (error.reply) this.#showReply(error.reply);
    // Stored under another key, or no more: told from its beginning, the conversation still goes on.
    if (error.code === "previous_response_not_found") {
      this.#entries = this.#entries.map((entry) => ({ ...entry, responseId: null }));
    }
  }

  /** A request that failed is as if it had not been sent. */
  #keep(entry, outcome) {
    const { answer, record } = this.#running;
    answer.end(ENDS[outcome] ?? record.finishReason);
    if (outcome === Outcome.ANSWERED) {
      this.#entries.push(entry, record.toEntry());
      this.#latest = answer;
    } else if (outcome === Outcome.STOPPED) {
      this.#entries.push(entry, record.toStoppedEntry());
      this.#figures.showFinish("stopped");
      this.#latest = null;
    }
    this.#latest?.open();
    this.#follower.follow();
  }

  #paint() {
    this.#running.answer.paint();
    this.#frames.paint();
    this.#figures.showTotal(this.#totalMs);
    this.#follower.follow();
  }
}
