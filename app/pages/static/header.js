// The line above every view: the version, and the key.

import { byId, setText } from "./dom.js";
import { askKey, getKey, onKeyChange } from "./key.js";
import { onStatus } from "./status.js";

export function startHeader() {
  const button = byId("change-key");
  let isOpen = null;
  const show = () => {
    setText(button, getKey() ? "Change key" : "Enter key");
    button.hidden = isOpen !== false;
  };
  button.addEventListener("click", () => askKey("key"));
  onKeyChange(show);
  onStatus((status, error) => {
    if (status) setText(byId("version"), status.version);
    if (status) isOpen = status.is_open;
    if (error?.asksForKey) isOpen = false;
    show();
  });
}
