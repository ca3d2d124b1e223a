// The last hour in plots.

import { el, setText } from "./dom.js";
import { formatMinute, formatSeconds, formatShort } from "./formats.js";
import { buildOptions } from "./plot_options.js";
import uPlot from "./vendor/uPlot.esm.js";

const HOUR_S = 3_600;
const SHORTEST_S = 600;
const MINUTE_S = 60;
const NO_DATA = "no data yet";

/** A line's value, out of the samples of the minute that ends with the one drawn. */
const perMinute = (name) => (minute) => add(minute, name);
const gauge = (name) => (minute) => minute.at(-1)[name];
const meanFirstToken = (minute) => {
  const count = add(minute, "first_tokens");
  return count ? add(minute, "first_token_s") / count : null;
};

function add(samples, name) {
  return samples.reduce((sum, sample) => sum + sample[name], 0);
}

/** Each: its name, its lines (label, colour, value), and how a value is written. */
const PLOTS = [
  ["Requests per minute", [["requests", "--series-1", perMinute("requests")]], formatShort],
  [
    "Tokens per minute",
    [
      ["input", "--series-1", perMinute("input_tokens")],
      ["cached", "--series-2", perMinute("cached_tokens")],
      ["output", "--series-3", perMinute("output_tokens")],
      ["reasoning", "--series-4", perMinute("reasoning_tokens")],
    ],
    formatShort,
  ],
  ["Errors per minute", [["errors", "--bad", perMinute("errors")]], formatShort],
  ["Time to first token", [["mean", "--series-1", meanFirstToken]], formatSeconds],
  [
    "Codex processes",
    [
      ["warm", "--series-1", gauge("idle")],
      ["owned", "--series-2", gauge("owned")],
      ["parked", "--series-3", gauge("parked")],
      ["ending", "--series-4", gauge("ending")],
    ],
    formatShort,
  ],
  [
    "Tool buffers per minute",
    [
      ["started", "--series-1", perMinute("tool_buffer_started")],
      ["flushed", "--series-2", perMinute("tool_buffer_flushed")],
      ["aborted", "--bad", perMinute("tool_buffer_aborted")],
    ],
    formatShort,
  ],
];

/** @param {HTMLElement} root @returns {{take(samples: object[], periodS?: number): void}} */
export function startPlots(root) {
  const plots = PLOTS.map(([name, lines, format]) => new Plot(name, lines, format));
  root.append(...plots.map(({ figure }) => figure));
  const byTime = new Map();
  let period = 10;
  const colours = matchMedia("(prefers-color-scheme: dark)");
  colours.addEventListener("change", () => plots.forEach((plot) => plot.redraw()));
  return {
    take(samples, periodS = period) {
      period = periodS;
      merge(byTime, samples, period);
      const kept = keepHour(byTime);
      for (const plot of plots) plot.show(kept, period);
    },
  };
}

/** After a new connection another worker may tell of the same time, a few seconds shifted: the last word counts. */
function merge(byTime, samples, periodS) {
  const from = samples.at(0)?.at - periodS / 2;
  const to = samples.at(-1)?.at + periodS / 2;
  for (const at of byTime.keys()) if (at > from && at < to) byTime.delete(at);
  for (const sample of samples) byTime.set(sample.at, sample);
}

/** Drops what is older than an hour; what is left, oldest first. */
function keepHour(byTime) {
  const newest = Math.max(...byTime.keys());
  for (const at of byTime.keys()) if (at < newest - HOUR_S) byTime.delete(at);
  return [...byTime.values()].sort((one, other) => one.at - other.at);
}

class Plot {
  #lines;
  #format;
  #values;
  #moment = el("span", { class: "plot-moment muted" });
  #box = el("div", { class: "plot", "aria-hidden": "true" });
  #chart = null;
  #columns;
  #range = null;

  constructor(name, lines, format) {
    this.#lines = lines;
    this.#format = format;
    this.#columns = [[], ...lines.map(() => [])];
    this.#values = lines.map(() => el("span", { class: "plot-value", text: NO_DATA }));
    const isAlone = lines.length === 1;
    const keys = lines.map(([label, colour], i) =>
      el("span", { class: "plot-key", dataset: { colour } }, isAlone ? null : `${label} `, this.#values[i]),
    );
    const title = el("span", { class: "plot-name", text: name });
    const caption = el("figcaption", {}, title, " ", el("span", { class: "plot-keys" }, keys), " ", this.#moment);
    this.figure = el("figure", {}, caption, this.#box);
    new ResizeObserver(() => this.#fit()).observe(this.#box);
  }

  show(samples, periodS) {
    if (!samples.length) return;
    this.#columns = buildColumns(samples, periodS, this.#lines);
    const last = samples.at(-1).at;
    this.#range = [Math.min(Math.max(samples[0].at, last - HOUR_S), last - SHORTEST_S), last];
    this.#chart?.setData(this.#columns);
    if (!this.#isHovered()) this.#write(this.#columns[0].length - 1);
  }

  redraw() {
    this.#chart?.redraw(false);
  }

  /** The view may be hidden at first, when nothing can be measured. */
  #fit() {
    const { clientWidth: width, clientHeight: height } = this.#box;
    if (!width) return;
    if (this.#chart) this.#chart.setSize({ width, height });
    else this.#chart = this.#build(width, height);
  }

  #build(width, height) {
    const options = buildOptions({
      size: { width, height },
      lines: this.#lines,
      format: this.#format,
      getRange: () => this.#range,
      onCursor: (index) => this.#point(index),
    });
    return new uPlot(options, this.#columns, this.#box);
  }

  #isHovered() {
    return (this.#chart?.cursor.idx ?? null) !== null;
  }

  #point(index) {
    const at = index === null ? null : this.#columns[0][index];
    setText(this.#moment, at ? `at ${formatMinute(at)}` : "");
    this.#write(index ?? this.#columns[0].length - 1);
  }

  #write(index) {
    if (index < 0) return;
    this.#values.forEach((node, i) => setText(node, this.#format(this.#columns[i + 1][index])));
  }
}

/** uPlot's columns; where samples are missing, an empty one makes the line break. */
function buildColumns(samples, periodS, lines) {
  const columns = [[], ...lines.map(() => [])];
  const push = (at, values) => [at, ...values].forEach((value, i) => columns[i].push(value));
  let oldest = 0;
  samples.forEach(({ at }, i) => {
    const before = samples[i - 1]?.at ?? at;
    if (at - before > 1.5 * periodS) push(before + periodS, lines.map(() => null));
    while (samples[oldest].at <= at - MINUTE_S + periodS / 2) oldest += 1;
    const minute = samples.slice(oldest, i + 1);
    push(at, lines.map(([, , read]) => read(minute)));
  });
  return columns;
}
