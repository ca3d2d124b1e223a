// The settings of each client, with this gateway's address, to copy. docs/clients.md says more about each.

import { makeCopyButton } from "./copy.js";
import { byId, el, setText } from "./dom.js";
import { chooseModel, onModels } from "./models.js";
import { onStatus } from "./status.js";

const KEY = "YOUR_KEY";
const BASE_URL = `${location.origin}/v1`;
const OPEN_FACT = "This gateway has no keys: any text does.";
const KEY_FACT = `Yours goes where ${KEY} stands.`;

/** Each: the client, its settings as text, and what to know about it. */
const SNIPPETS = [
  {
    name: "Obsidian Copilot",
    write: ({ model }) => `Settings → Copilot → Model → Add Custom Model

Model Name   ${model}
Provider     OpenAI Format
Base URL     ${BASE_URL}
API Key      ${KEY}
CORS         off`,
    remark: "Leave CORS off: with it on, the answer comes only when it is complete.",
  },
  {
    name: "OpenAI Python",
    write: ({ model }) => `import openai

client = openai.OpenAI(base_url="${BASE_URL}", api_key="${KEY}")
messages = [{"role": "user", "content": "Why is the sky blue?"}]
for chunk in client.chat.completions.create(model=${JSON.stringify(model)}, messages=messages, stream=True):
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
print()`,
    remark: "pip install openai",
  },
  {
    name: "OpenAI Node",
    write: ({ model }) => `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${BASE_URL}", apiKey: "${KEY}" });
const messages = [{ role: "user", content: "Why is the sky blue?" }];
const answer = await client.chat.completions.create({ model: ${JSON.stringify(model)}, messages, stream: true });
for await (const chunk of answer) process.stdout.write(chunk.choices[0]?.delta.content ?? "");
console.log();`,
    remark: "npm install openai, in a file that ends in .mjs",
  },
  {
    name: "LangChain",
    write: ({ model }) => `from langchain_openai import ChatOpenAI

chat = ChatOpenAI(base_url="${BASE_URL}", api_key="${KEY}", model=${JSON.stringify(model)})
for chunk in chat.stream("Why is the sky blue?"):
    print(chunk.text, end="", flush=True)
print()`,
    remark: "pip install langchain-openai",
  },
  {
    name: "Open WebUI",
    write: () => `Settings → Admin → Connections → Add Connection (OpenAI)

URL         ${BASE_URL}
API Key     ${KEY}
Model IDs   leave empty: they are read from the gateway`,
    remark: "From a container, use the host’s address; there the gateway has to listen on it, and to have a key.",
  },
  {
    name: "curl",
    write: ({ model }) => `curl -sN ${BASE_URL}/chat/completions \\
  -H 'authorization: Bearer ${KEY}' -H 'content-type: application/json' \\
  -d '{"model": ${JSON.stringify(model)}, "stream": true,
       "messages": [{"role": "user", "content": "Hello!"}]}'`,
    remark: "-N shows every frame as it comes.",
  },
];

export function startSnippets() {
  const panels = SNIPPETS.map(buildPanel);
  const tabs = panels.map(buildTab);
  const list = byId("snippet-tabs");
  list.append(...tabs);
  byId("snippet-panels").append(...panels.map(({ panel }) => panel));
  list.addEventListener("keydown", (event) => moveByKey(event, tabs));
  tabs.forEach((tab) => tab.addEventListener("click", () => select(tab, tabs)));
  select(tabs[0], tabs);
  setText(byId("base-url"), BASE_URL);
  makeCopyButton(byId("copy-base-url"), () => BASE_URL);
  showModel("demo", panels);
  onStatus((status, error) => {
    if (status?.is_open) setText(byId("key-fact"), OPEN_FACT);
    else if (status || error.asksForKey) setText(byId("key-fact"), KEY_FACT);
  });
  // Where they cannot be listed, the model shown stays.
  onModels((ids) => ids && showModel(chooseModel(ids) ?? "demo", panels));
}

function showModel(model, panels) {
  setText(byId("model-fact"), model);
  for (const { pre, write } of panels) setText(pre, write({ model }));
}

function buildPanel({ name, write, remark }, index) {
  const id = `snippet-${index}`;
  const pre = el("pre", { tabindex: 0, role: "group", "aria-label": `Settings of ${name}` });
  const copy = el("button", { type: "button", text: "Copy", "aria-label": `Copy the ${name} snippet` });
  makeCopyButton(copy, () => pre.textContent);
  const panel = el(
    "div",
    { id, role: "tabpanel", "aria-labelledby": `${id}-tab` },
    el("div", { class: "snippet" }, pre, copy),
    el("p", { class: "muted", text: remark }),
  );
  return { id, name, write, pre, panel };
}

function buildTab({ id, name }) {
  return el("button", { type: "button", role: "tab", id: `${id}-tab`, "aria-controls": id, text: name });
}

function select(chosen, tabs) {
  for (const tab of tabs) {
    const isChosen = tab === chosen;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isChosen;
  }
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function moveByKey(event, tabs) {
  const at = tabs.indexOf(document.activeElement);
  const ends = { Home: 0, End: tabs.length - 1 };
  const next = ends[event.key] ?? (event.key in STEPS ? (at + STEPS[event.key] + tabs.length) % tabs.length : null);
  if (at < 0 || next === null) return;
  event.preventDefault();
  select(tabs[next], tabs);
  tabs[next].focus();
}
