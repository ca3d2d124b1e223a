// Copying to the clipboard, and saying so.

import { byId, el, setText } from "./dom.js";

const SHOWN_MS = 2_000;

/** Makes the button copy what `getText` returns at that moment. */
export function makeCopyButton(button, getText) {
  const label = button.textContent;
  let timer = null;
  button.addEventListener("click", async () => {
    const words = (await copyText(getText())) ? "Copied" : "Not copied";
    setText(button, words);
    setText(byId("announcement"), words);
    clearTimeout(timer);
    timer = setTimeout(() => {
      setText(button, label);
      setText(byId("announcement"), "");
    }, SHOWN_MS);
  });
  return button;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** For addresses that are not secure (`http://` and not loopback), where browsers offer no clipboard. */
function copyBySelection(text) {
  const area = el("textarea", { class: "unseen", readonly: true, "aria-hidden": "true" });
  const focused = document.activeElement;
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isCopied;
}
