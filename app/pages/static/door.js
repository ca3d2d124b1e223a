// Whether the gateway asks for a key at all, which it tells anyone.

import { offerToken } from "./key.js";
import { onUnreachable, readJson, send } from "./wire.js";

/** As long as for a status. */
const PATIENCE_MS = 15_000;

/** @type {Promise<boolean> | null} */
let asked = null;
/** The token that came with the address, until it is known whether it is wanted. */
let offered = null;

/** Asked once, until it is forgotten. @returns {Promise<boolean>} */
export function isDoorOpen() {
  asked ??= look().catch((error) => {
    forgetDoor();
    throw error;
  });
  return asked;
}

export function forgetDoor() {
  asked = null;
}

async function look() {
  const { is_open: isOpen } = await readJson(await send("/ui/door", { signal: AbortSignal.timeout(PATIENCE_MS) }));
  if (isOpen && offered) offerToken(offered);
  offered = null;
  return isOpen;
}

/**
 * Takes the token out of an address like `/#token=...`, which `make run` prints. Where there are keys it is dropped:
 * any page may link here, and whoever follows would use the gateway by a key of that page's choice.
 */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search);
  offered = token;
  forgetDoor();
  // Who needs the gateway asks again, and says what is wrong.
  isDoorOpen().catch(() => {});
}

// It may come back as another gateway.
onUnreachable(forgetDoor);
