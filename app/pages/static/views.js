// The views of the page, by the fragment of its address.

import { byId } from "./dom.js";

const NAMES = ["start", "playground", "live"];

const PRODUCT = document.title;

const watchers = new Map(NAMES.map((name) => [name, []]));
let current = null;

/** Calls `show` when the view comes up, at once if it is up, and `hide` when it goes. */
export function onView(name, { show, hide }) {
  watchers.get(name).push({ show, hide });
  if (name === current) show?.();
}

export function startViews() {
  window.addEventListener("hashchange", () => route(true));
  byId("skip").addEventListener("click", skip);
  route(false);
}

function route(isByHand) {
  const wanted = location.hash.slice(1);
  const name = NAMES.includes(wanted) ? wanted : NAMES[0];
  if (name === current) return;
  const previous = current;
  current = name;
  showSection(name);
  document.title = `${byId(`${name}-title`).textContent} – ${PRODUCT}`;
  if (isByHand) moveTo(name);
  if (previous) for (const { hide } of watchers.get(previous)) hide?.();
  for (const { show } of watchers.get(name)) show?.();
}

function showSection(name) {
  for (const each of NAMES) byId(each).hidden = each !== name;
  for (const link of document.querySelectorAll("#views a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Who reads by keyboard or ear goes on at the view's heading. */
function moveTo(name) {
  window.scrollTo(0, 0);
  byId(`${name}-title`).focus({ preventScroll: true });
}

/** The address names the view and stays as it is. */
function skip(event) {
  event.preventDefault();
  byId(`${current}-title`).focus();
}
