// The view "Start": what state Codex is in, and what is left of its limits.

import { startAccount } from "./account.js";
import { byId, el, replace, setText } from "./dom.js";
import { formatDistance, formatMoment, formatNumber } from "./formats.js";
import { askKey } from "./key.js";
import { startSnippets } from "./snippets.js";
import { onStatus } from "./status.js";

const STATES = {
  broken: (codex) => `${codex} keeps failing`,
  in: (codex) => `${codex} is logged in`,
  out: (codex) => `${codex} is not logged in`,
  unneeded: (codex) => `${codex} needs no login`,
  unknown: (codex) => `${codex}: the login is not known just now`,
};
const BROKEN = "Nobody is answered until a process of it runs. The gateway tries again by itself; its log tells why.";
const KINDS = { chatgpt: "ChatGPT", api_key: "API key" };
const WINDOWS = new Map([
  [1_440, "daily limit"],
  [10_080, "weekly limit"],
  [43_200, "monthly limit"],
]);

export function startStart() {
  startAccount();
  startSnippets();
  byId("give-key").addEventListener("click", () => askKey("key"));
  onStatus((status, error) => {
    showKeyButton(Boolean(error?.asksForKey));
    if (status) showStatus(status);
    else showFailure(error);
    showLimits(status?.limits ?? null);
  });
}

let shownFacts = null;

/** What is shown already is left alone: every change of it is read out. */
function showStatus(status) {
  const { codex, account, demo } = status;
  const facts = JSON.stringify([codex, account, demo]);
  if (facts === shownFacts) return;
  shownFacts = facts;
  const name = codex.version ? `Codex ${codex.version}` : "Codex";
  const state = findState(status);
  setText(byId("codex-state"), (STATES[state] ?? STATES.unknown)(name));
  replace(byId("codex-account"), ...describeAccount(account));
  replace(byId("codex-hint"), ...describeHint(status, state));
  byId("codex").dataset.state = state;
}

/** One that has told of its account is not just starting. */
function findState({ codex, account }) {
  return codex.is_ready || account.state === "unknown" ? account.state : "broken";
}

function showFailure(error) {
  shownFacts = null;
  const needsKey = error.asksForKey;
  setText(byId("codex-state"), needsKey ? "This gateway asks for an access key" : error.message);
  setText(byId("codex-account"), "");
  setText(byId("codex-hint"), needsKey ? "" : "Trying again…");
  byId("codex").dataset.state = needsKey ? "unknown" : "broken";
}

function showKeyButton(isShown) {
  const button = byId("give-key");
  const hadFocus = button === document.activeElement;
  button.hidden = !isShown;
  if (hadFocus && !isShown) byId("start-title").focus();
}

function describeAccount({ state, kind, plan, email }) {
  if (state !== "in") return [];
  const lines = [[KINDS[kind] ?? kind, plan && `plan ${plan}`].filter(Boolean).join(", "), email];
  return lines.filter(Boolean).map((text) => el("span", { text }));
}

function describeHint(status, state) {
  return state === "broken" ? [BROKEN] : [describeReadiness(status.codex), ...describeDemo(status)];
}

function describeReadiness({ is_ready: isReady }) {
  return isReady ? null : "No process of it is ready yet. ";
}

function describeDemo({ demo, account }) {
  if (!demo) return [];
  const words = account.state === "in" ? " is on offer too." : " works without a login.";
  return ["The model ", el("code", { text: "demo" }), words];
}

function showLimits(limits) {
  const windows = [limits?.primary, limits?.secondary].filter(Boolean);
  byId("limits").hidden = windows.length === 0;
  replace(byId("limit-list"), ...windows.map(buildLimit));
  setText(byId("limits-told"), limits?.told_at ? `As Codex told at ${formatMoment(limits.told_at)}.` : "");
}

function buildLimit({ used_percent: used, window_minutes: minutes, resets_at: resetsAt }) {
  const name = nameWindow(minutes);
  const usage = `${formatNumber(Math.round(used))} % used`;
  const text = resetsAt ? `${usage}, resets at ${formatMoment(resetsAt)} (${formatDistance(resetsAt)})` : usage;
  const bounds = { min: 0, max: 100, low: 80, high: 95, optimum: 0, value: used };
  return el(
    "li",
    {},
    el("span", { class: "limit-name", text: name }),
    el("meter", { ...bounds, "aria-label": name, "aria-valuetext": text }),
    el("span", { class: "limit-text muted", text }),
  );
}

function nameWindow(minutes) {
  if (!minutes) return "limit";
  const named = WINDOWS.get(minutes);
  if (named) return named;
  return minutes % 60 ? `${minutes}-minute limit` : `${minutes / 60}-hour limit`;
}
