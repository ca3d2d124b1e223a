// Logging Codex in and out.

import { readFrames, request } from "./api.js";
import { makeCopyButton } from "./copy.js";
import { ask } from "./dialog.js";
import { byId, el, replace } from "./dom.js";
import { onStatus, refreshStatus } from "./status.js";
import { Watchdog } from "./watchdog.js";
import { CUT } from "./wire.js";

/** A stream that waits says something every few seconds, so that no proxy takes it for dead. */
const SILENCE_MS = 60_000;

/** An open gateway wants its token for these. */
const CHANGE = { method: "POST", body: {}, needsToken: true };

const DONE = "Logged in.";
const CANCELLED = "The login was cancelled.";
const FAR = "This machine may not reach OpenAI’s login: is there a firewall or a proxy in between?";
const UNREACHED = /error sending request|connect|dns|resolve|network|timed? ?out/i;
/** So it may be after a phone has put this page to sleep. */
const LOST = "The connection was lost before the login was done, which cancels it. Log in again for a new code.";

let login = null;

export function startAccount() {
  byId("log-in").addEventListener("click", logIn);
  byId("log-out").addEventListener("click", logOut);
  byId("log-out-now").addEventListener("click", () => byId("log-out-dialog").close("now"));
  byId("log-out-cancel").addEventListener("click", () => byId("log-out-dialog").close(""));
  onStatus((status) => showButtons(status));
}

function showButtons(status) {
  const focused = document.activeElement;
  const state = status?.account.state;
  const mayChange = Boolean(status?.may_log_in);
  byId("log-in").hidden = !mayChange || !["out", "unknown"].includes(state);
  byId("log-out").hidden = !mayChange || state !== "in";
  byId("log-in-denied").hidden = !status || mayChange || state !== "out";
  if (focused?.hidden) (byId("login").textContent ? byId("login") : byId("start-title")).focus();
}

async function logIn() {
  if (login) return;
  login = new AbortController();
  byId("log-in").disabled = true;
  show(el("p", { text: "Asking Codex for a code…" }), buildCancel());
  byId("login").querySelector("button").focus();
  const end = await followLogin(login);
  byId("log-in").disabled = false;
  login = null;
  sayResult(end);
  const status = await refreshStatus({ asksKey: false });
  // It may have been done just before its end was to be told.
  if (end === LOST && status?.account.state === "in" && !login) sayResult(DONE);
}

/** @returns {Promise<string>} how it ended, in words */
async function followLogin(controller) {
  let isSilent = false;
  const watchdog = new Watchdog(SILENCE_MS, () => {
    isSilent = true;
    controller.abort();
  });
  try {
    const response = await request("/ui/login", { ...CHANGE, signal: controller.signal });
    watchdog.feed();
    for await (const { data } of readFrames(response)) {
      watchdog.feed();
      const event = data === null ? { type: "keepalive" } : JSON.parse(data);
      if (event.type === "code") showCode(event);
      if (event.type === "done") return DONE;
      if (event.type === "failed") return explain(`The login failed: ${event.message}`);
    }
    return LOST;
  } catch (error) {
    if (controller.signal.aborted) return isSilent ? LOST : CANCELLED;
    return error.code === CUT ? LOST : explain(error.message);
  } finally {
    watchdog.end();
  }
}

async function logOut() {
  if ((await ask(byId("log-out-dialog"))) !== "now") return;
  try {
    await request("/ui/logout", CHANGE);
    sayResult("Logged out.");
  } catch (error) {
    sayResult(error.message);
  }
  await refreshStatus({ asksKey: false });
}

function explain(words) {
  return UNREACHED.test(words) ? `${words}\n${FAR}` : words;
}

function sayResult(words) {
  show(...words.split("\n").map((text) => el("p", { text })));
}

/** It is a landmark only with something in it; and who was in it stays, or finds the button that begins anew. */
function show(...content) {
  const region = byId("login");
  const hadFocus = hasFocus(region) || hasFocus(byId("log-in")) || document.activeElement === document.body;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", "Login");
  replace(region, ...content);
  if (hadFocus) (region.querySelector("a, button") ?? findButton() ?? region).focus();
}

function hasFocus(node) {
  return node.contains(document.activeElement);
}

function findButton() {
  const button = byId("log-in");
  return button.hidden || button.disabled ? null : button;
}

function showCode({ verification_url: url, user_code: code }) {
  const copy = el("button", { type: "button", text: "Copy code" });
  makeCopyButton(copy, () => code);
  show(
    el(
      "ol",
      {},
      el("li", {}, "Open ", buildLink(url)),
      el("li", {}, "Enter this code there:", el("p", { class: "code" }, el("output", { text: code }), copy)),
      el("li", { text: "Come back: this page notices when you are done." }),
    ),
    buildCancel(),
  );
}

function buildCancel() {
  const cancel = el("button", { type: "button", text: "Cancel login", on: { click: () => login?.abort() } });
  return el("p", { class: "actions" }, cancel);
}

/** An address that is no web page's stays text: it came from elsewhere. */
function buildLink(url) {
  if (!/^https?:\/\//.test(url)) return el("code", { text: url });
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer", text: url.replace(/^https?:\/\//, "") });
}
