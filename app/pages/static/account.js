// Logging Codex in and out.

import { readFrames, request } from "./api.js";
import { makeCopyButton } from "./copy.js";
import { byId, el, replace } from "./dom.js";
import { onStatus, refreshStatus } from "./status.js";

const CUT = "The connection ended before the login did. Try again.";

let login = null;

export function startAccount() {
  byId("log-in").addEventListener("click", logIn);
  byId("log-out").addEventListener("click", logOut);
  onStatus((status) => showButtons(status));
}

function showButtons(status) {
  const state = status?.account.state;
  const mayChange = Boolean(status?.may_log_in);
  byId("log-in").hidden = !mayChange || !["out", "unknown"].includes(state);
  byId("log-out").hidden = !mayChange || state !== "in";
  byId("log-in-denied").hidden = !status || mayChange || state !== "out";
}

async function logIn() {
  if (login) return;
  login = new AbortController();
  byId("log-in").disabled = true;
  sayResult("Asking Codex for a code…");
  sayResult(await followLogin(login.signal));
  byId("log-in").disabled = false;
  login = null;
  await refreshStatus({ asksKey: false });
}

/** @returns {Promise<string>} how it ended, in words */
async function followLogin(signal) {
  try {
    const response = await request("/ui/login", { method: "POST", body: {}, signal });
    for await (const { data } of readFrames(response)) {
      const event = data === null ? { type: "keepalive" } : JSON.parse(data);
      if (event.type === "code") showCode(event);
      if (event.type === "done") return "Logged in.";
      if (event.type === "failed") return `The login failed: ${event.message}`;
    }
    return CUT;
  } catch (error) {
    if (signal.aborted) return "The login was cancelled.";
    return error.status === undefined ? CUT : error.message;
  }
}

async function logOut() {
  const button = byId("log-out");
  button.disabled = true;
  try {
    await request("/ui/logout", { method: "POST", body: {} });
    sayResult("Logged out.");
  } catch (error) {
    sayResult(error.message);
  }
  button.disabled = false;
  await refreshStatus({ asksKey: false });
}

function sayResult(words) {
  replace(byId("login"), el("p", { text: words }));
  // The button that had the focus may be gone.
  if (document.activeElement === document.body) byId("login").focus();
}

function showCode({ verification_url: url, user_code: code }) {
  const copy = el("button", { type: "button", text: "Copy code" });
  const cancel = el("button", { type: "button", text: "Cancel login", on: { click: () => login?.abort() } });
  makeCopyButton(copy, () => code);
  replace(
    byId("login"),
    el(
      "ol",
      {},
      el("li", {}, "Open ", buildLink(url)),
      el("li", {}, "Enter this code there:", el("p", { class: "code" }, el("output", { text: code }), copy)),
      el("li", { text: "Come back: this page notices when you are done." }),
    ),
    el("p", { class: "actions" }, cancel),
  );
}

/** An address that is no web page's stays text: it came from elsewhere. */
function buildLink(url) {
  if (!/^https?:\/\//.test(url)) return el("code", { text: url });
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer", text: url.replace(/^https?:\/\//, "") });
}
