// How a plot looks: uPlot's options, with the page's own colours.

import { formatMinute } from "./formats.js";
import uPlot from "./vendor/uPlot.esm.js";

/** A line is told by more than its colour; live.css draws the same before its name. */
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

const FONT = "11px system-ui, sans-serif";

/** Read anew at each drawing: the colours change with the person's colour scheme. */
const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** `getRange` returns the first and last moment to show, `onCursor` is told the index under the pointer, or `null`. */
export function buildOptions({ size, lines, format, getRange, onCursor }) {
  return {
    ...size,
    legend: { show: false },
    padding: [8, 26, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "live", setSeries: false }, points: { size: 5 } },
    scales: {
      x: { time: true, range: (_, min, max) => getRange() ?? [min, max] },
      y: { range: (_, __, max) => uPlot.rangeNum(0, max || 1, 0.15, true) },
    },
    axes: [buildTimeAxis(), buildValueAxis(format)],
    series: [{}, ...lines.map((line, i) => buildSeries(line, DASHES[i], lines.length === 1))],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
  };
}

function buildTimeAxis() {
  const values = (_, splits) => splits.map(formatMinute);
  return { ...buildAxis(), size: 22, space: 64, values, grid: { show: false } };
}

function buildValueAxis(format) {
  const values = (_, splits) => splits.map((value) => format(value));
  return { ...buildAxis(), size: 46, space: 26, values };
}

function buildAxis() {
  return {
    stroke: colour("--muted"),
    font: FONT,
    gap: 4,
    ticks: { show: false },
    grid: { stroke: colour("--line"), width: 1 },
  };
}

function buildSeries([label, name], dash, isAlone) {
  const fill = isAlone ? colour(`${name}-faint`) : undefined;
  const points = { show: false, filter: findAlone, size: 4, fill: colour(name) };
  return { label, stroke: colour(name), width: 1.5, dash, fill, points };
}

/** A value between gaps makes no line: the first of an hour, and each that is alone. */
function findAlone(plot, series) {
  const values = plot.data[series];
  const isThere = (i) => (values[i] ?? null) !== null;
  return [...values.keys()].filter((i) => isThere(i) && !isThere(i - 1) && !isThere(i + 1));
}
