// How a plot looks: uPlot's options, with the page's own colours.

import { formatMinute } from "./formats.js";
import uPlot from "./vendor/uPlot.esm.js";

const FONT = "11px system-ui, sans-serif";

/** Read anew at each drawing: the colours change with the person's colour scheme. */
const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** `getRange` returns the first and last moment to show, `onCursor` is told the index under the pointer, or `null`. */
export function buildOptions({ size, lines, format, getRange, onCursor }) {
  return {
    ...size,
    legend: { show: false },
    padding: [8, 8, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "live", setSeries: false }, points: { size: 5 } },
    scales: {
      x: { time: true, range: (_, min, max) => getRange() ?? [min, max] },
      y: { range: (_, __, max) => uPlot.rangeNum(0, max || 1, 0.15, true) },
    },
    axes: [buildTimeAxis(), buildValueAxis(format)],
    series: [{}, ...lines.map((line) => buildSeries(line, lines.length === 1))],
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

function buildSeries([label, name], isAlone) {
  const fill = isAlone ? colour(`${name}-faint`) : undefined;
  return { label, stroke: colour(name), width: 1.5, fill, points: { show: false } };
}
