// The table of the last requests, and what was said in one of them.

import { getJson } from "./api.js";
import { byId, el, replace, setText } from "./dom.js";
import { NOTHING, formatNumber, formatSecond, formatSeconds } from "./formats.js";
import { onStatus } from "./status.js";

const MOST_ROWS = 50;
/** A bad request's error has no code; the metrics call it the same. */
const NO_CODE = "invalid_request";

/** Each: its label, what a cell of it shows of an entry, and its class. */
const COLUMNS = [
  ["Time", buildTime, "time"],
  ["Status", ({ status }) => el("span", { class: `status s${Math.floor(status / 100)}`, text: String(status) })],
  ["Route", buildRoute],
  ["Model", ({ model }) => model || NOTHING],
  ["Key", ({ key }) => key || NOTHING],
  ["First token", ({ first_token_ms: ms }) => formatDuration(ms), "number"],
  ["Duration", ({ duration_ms: ms }) => formatDuration(ms), "number"],
  ["Tokens", describeTokens, "number"],
  ["Tool calls", ({ tool_calls: calls }) => (calls ? formatNumber(calls) : NOTHING), "number"],
  ["Finish or error", buildFinish],
  ["Frames", buildFramesButton, "frames"],
];

/** @returns {(entries: object[]) => void} takes entries, newest first */
export function startRequests() {
  const body = byId("request-rows");
  const known = new Set();
  onStatus((status) => {
    if (status) byId("requests").classList.toggle("has-frames", status.logs_bodies);
  });
  byId("frames-close").addEventListener("click", () => byId("frames-dialog").close());
  return (entries) => {
    for (const entry of entries.slice(0, MOST_ROWS).reverse()) {
      const name = nameEntry(entry);
      if (known.has(name)) continue;
      known.add(name);
      body.prepend(buildRow(entry));
    }
    while (body.children.length > MOST_ROWS) {
      known.delete(body.lastElementChild.dataset.name);
      body.lastElementChild.remove();
    }
    byId("no-requests").hidden = body.children.length > 0;
  };
}

/** A client may choose the id of its requests, and choose one twice. */
function nameEntry({ request_id: id, time }) {
  return `${time} ${id}`;
}

function buildRow(entry) {
  const row = el("tr", { role: "row", dataset: { name: nameEntry(entry) } });
  for (const [label, content, style] of COLUMNS) {
    const cell = el("td", { role: "cell", class: style, dataset: { label } }, content(entry));
    cell.classList.toggle("empty", cell.textContent === NOTHING);
    row.append(cell);
  }
  return row;
}

function buildTime({ time }) {
  return el("time", { datetime: new Date(time * 1000).toISOString(), text: formatSecond(time) });
}

/** A request that could not be read has no method and no path. */
function buildRoute({ method, route, path }) {
  return el("span", {}, method && el("span", { class: "muted", text: `${method} ` }), route ?? path ?? NOTHING);
}

function formatDuration(ms) {
  return formatSeconds(typeof ms === "number" ? ms / 1000 : null);
}

function describeTokens({ input_tokens: input, output_tokens: output, cached_tokens: cached }) {
  if (input === undefined && output === undefined) return NOTHING;
  const title = cached ? `${formatNumber(cached)} of the input cached` : null;
  return el("span", { title, text: `${formatNumber(input ?? 0)} in, ${formatNumber(output ?? 0)} out` });
}

function buildFinish({ status, error, finish }) {
  const fault = error || (status >= 400 ? NO_CODE : "");
  return el("span", { class: fault ? "bad" : null, text: fault || finish || NOTHING });
}

/** Only of what is kept: a request that brought nothing has none. */
function buildFramesButton({ request_id: id, exchange }) {
  if (!exchange) return null;
  const on = { click: () => showFrames(id, exchange) };
  const name = `Frames of request ${id}`;
  return el("button", { type: "button", class: "small", text: "Frames", "aria-label": name, on });
}

async function showFrames(id, exchange) {
  const dialog = byId("frames-dialog");
  dialog.dataset.exchange = exchange;
  setText(byId("frames-title"), `Request ${id}`);
  replace(byId("frames-pieces"), el("p", { class: "muted", text: "Reading…" }));
  dialog.showModal();
  const content = await readPieces(exchange);
  // Meanwhile another request may have been chosen.
  if (dialog.dataset.exchange === exchange) replace(byId("frames-pieces"), ...content);
}

async function readPieces(exchange) {
  try {
    const { pieces, is_cut: isCut } = await getJson(`/ui/exchanges/${encodeURIComponent(exchange)}`);
    const note = isCut && el("p", { class: "muted", text: "Not all of it was kept." });
    return [note, ...pieces.map((piece) => buildPiece(piece, pieces[0].time))];
  } catch (error) {
    return [el("p", { text: error.status === 404 ? "Nothing of it is kept, or not any more." : error.message })];
  }
}

function buildPiece({ what, time, body, bytes }, startedAt) {
  const later = time - startedAt;
  const when = later >= 0.001 ? `after ${formatSeconds(later)}` : formatSecond(time);
  const facts = el("p", { class: "muted" }, `${when}, `, el("span", { text: `${formatNumber(bytes)} bytes` }));
  const text = el("pre", { tabindex: 0, role: "group", "aria-label": what, text: body });
  return el("section", {}, el("div", {}, el("h3", { text: what }), facts), text);
}
