// The view "Live": one stream of figures, open only while somebody looks.

import { ApiError, readFrames, request } from "./api.js";
import { byId, setText } from "./dom.js";
import { formatNumber } from "./formats.js";
import { askKey, onKeyChange } from "./key.js";
import { startPlots } from "./plots.js";
import { startRequests } from "./requests.js";
import { onStatus } from "./status.js";
import { onView } from "./views.js";
import { Watchdog } from "./watchdog.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;
/** Something comes every second; a connection that is this silent is dead, whatever it says. */
const SILENCE_MS = 8_000;

/** What a key must be, by what is wrong with the one in use. */
const NEEDED = {
  none: "This view needs an access key of the role admin.",
  clients: "This view needs an admin key; the one in use is a client’s.",
};

let isShown = false;
let stream = null;
let takers = {};
/** @type {string | null | undefined} one of `NEEDED`; `undefined` before it is known */
let missing;
/** The same as the status told it last: what the stream itself says is newer. */
let told;

export function startLive() {
  const plots = startPlots(byId("plots"));
  const takeRequests = startRequests();
  takers = {
    history: ({ samples, period_s: periodS }) => plots.take(samples, periodS),
    sample: (sample) => plots.take([sample]),
    now: showGauges,
    requests: ({ data }) => takeRequests(data),
  };
  onView("live", { show: () => setShown(true), hide: () => setShown(false) });
  document.addEventListener("visibilitychange", update);
  onKeyChange(() => settle(undefined));
  onStatus((status, error) => settle(findMissing(status, error)));
  byId("use-admin-key").addEventListener("click", () => askKey("key"));
}

function setShown(shown) {
  isShown = shown;
  update();
}

/** Of a gateway that does not answer the last word counts. */
function findMissing(status, error) {
  if (status) return status.role === "client" ? "clients" : null;
  return error.asksForKey ? "none" : (told ?? null);
}

function settle(found) {
  if (found === told) return;
  told = found;
  close();
  miss(found);
  update();
}

function miss(found) {
  missing = found;
  showNeeded(NEEDED[found]);
}

function update() {
  const isWanted = isShown && !document.hidden;
  if (!isWanted) close();
  else if (missing === undefined) say("connecting");
  else if (missing === null && !stream) {
    stream = new AbortController();
    follow(stream.signal);
  }
}

function close() {
  stream?.abort();
  stream = null;
}

async function follow(signal) {
  say("connecting");
  let pauseMs = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    const end = await readOnce(signal);
    if (signal.aborted) return;
    if (isRefusal(end.error)) {
      close();
      miss(end.error.asksForKey ? "none" : "clients");
      return;
    }
    if (end.hasBrought) pauseMs = FIRST_PAUSE_MS;
    say("reconnecting", end.why);
    await pause(pauseMs, signal);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}

function isRefusal(error) {
  return Boolean(error?.asksForKey) || error?.status === 403;
}

/** Reads one stream to its end, however it ends. */
async function readOnce(outer) {
  const attempt = new AbortController();
  const abort = () => attempt.abort();
  const watchdog = new Watchdog(SILENCE_MS, abort);
  outer.addEventListener("abort", abort);
  let hasBrought = false;
  try {
    watchdog.feed();
    // The panel that says which key is needed asks for it: nobody's thinking counts as the gateway's silence.
    const response = await request("/ui/live", { signal: attempt.signal, asksKey: false });
    for await (const { data } of readFrames(response)) {
      watchdog.feed();
      if (data === null) continue;
      take(JSON.parse(data));
      hasBrought = true;
      say("live");
    }
    return { hasBrought, why: "" };
  } catch (error) {
    return describeEnd(error, hasBrought);
  } finally {
    watchdog.end();
    outer.removeEventListener("abort", abort);
  }
}

/** Whatever it was, a new connection may do better; what is no connection's fault is not hidden. */
function describeEnd(error, hasBrought) {
  if (error.name === "AbortError") return { hasBrought, why: "" };
  if (error instanceof ApiError) return { hasBrought, error, why: error.status ? error.message : "" };
  console.error(error);
  return { hasBrought: false, why: `this page could not show what came (${error.message})` };
}

/** Events that a newer gateway may send are passed over. */
function take(event) {
  takers[event.type]?.(event);
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

function say(state, why = "") {
  setText(byId("connection"), why ? `${state}: ${why}` : state);
  byId("connection").dataset.state = state;
}

function showNeeded(words = "") {
  const panel = byId("live-needs-key");
  const hadFocus = panel.contains(document.activeElement);
  panel.hidden = !words;
  byId("live-data").hidden = Boolean(words);
  byId("connection").hidden = Boolean(words);
  setText(byId("live-needed"), words);
  if (hadFocus && !words) byId("live-title").focus();
}

function showGauges(gauges) {
  for (const figure of byId("gauges").querySelectorAll("[data-gauge]")) {
    setText(figure, formatNumber(gauges[figure.dataset.gauge]));
  }
}
