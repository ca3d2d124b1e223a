// The view "Live": one stream of figures, open only while somebody looks.

import { readFrames, request } from "./api.js";
import { byId, setText } from "./dom.js";
import { formatNumber } from "./formats.js";
import { askKey, onKeyChange } from "./key.js";
import { startPlots } from "./plots.js";
import { startRequests } from "./requests.js";
import { onView } from "./views.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;
/** Something comes every second; a connection that is this silent is dead, whatever it says. */
const SILENCE_MS = 8_000;

const NEEDED = {
  401: "This view needs an access key of the role admin.",
  403: "This view needs an admin key; the one in use is a client’s.",
};

let isShown = false;
let stream = null;
let takers = {};

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
  onKeyChange(() => {
    close();
    update();
  });
  byId("use-admin-key").addEventListener("click", () => askKey("key"));
}

function setShown(shown) {
  isShown = shown;
  update();
}

function update() {
  const isWanted = isShown && !document.hidden;
  if (!isWanted) close();
  else if (!stream) {
    stream = new AbortController();
    follow(stream.signal);
  }
}

function close() {
  stream?.abort();
  stream = null;
}

async function follow(signal) {
  showNeeded(null);
  say("connecting");
  let pauseMs = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    const end = await readOnce(signal);
    if (signal.aborted) return;
    if (end.error?.status in NEEDED) {
      showNeeded(end.error);
      return;
    }
    if (end.hasBrought) pauseMs = FIRST_PAUSE_MS;
    say("reconnecting", end.error?.status ? end.error.message : "");
    await pause(pauseMs, signal);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}

/** Reads one stream to its end, however it ends. */
async function readOnce(outer) {
  const attempt = new AbortController();
  const abort = () => attempt.abort();
  outer.addEventListener("abort", abort);
  let watch = null;
  let hasBrought = false;
  try {
    const response = await request("/ui/live", { signal: attempt.signal });
    watch = setTimeout(abort, SILENCE_MS);
    for await (const { data } of readFrames(response)) {
      clearTimeout(watch);
      watch = setTimeout(abort, SILENCE_MS);
      if (data === null) continue;
      hasBrought = true;
      say("live");
      take(JSON.parse(data));
    }
    return { hasBrought };
  } catch (error) {
    return { hasBrought, error };
  } finally {
    clearTimeout(watch);
    outer.removeEventListener("abort", abort);
  }
}

/** Events that a newer gateway may send are passed over. */
function take(event) {
  takers[event.type]?.(event);
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function say(state, why = "") {
  setText(byId("connection"), why ? `${state}: ${why}` : state);
  byId("connection").dataset.state = state;
}

function showNeeded(error) {
  byId("live-needs-key").hidden = !error;
  byId("live-data").hidden = Boolean(error);
  byId("connection").hidden = Boolean(error);
  setText(byId("live-needed"), error ? NEEDED[error.status] : "");
}

function showGauges(gauges) {
  for (const figure of byId("gauges").querySelectorAll("[data-gauge]")) {
    setText(figure, formatNumber(gauges[figure.dataset.gauge]));
  }
}
