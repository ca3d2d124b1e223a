// Numbers and times in words, in the way of the person's own country.

const plain = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumSignificantDigits: 3 });
const precise = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const minuteClock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const secondClock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const weekdayClock = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const dateClock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

const DAY_S = 86_400;
export const NOTHING = "–";

export const formatNumber = (value) => (isNumber(value) ? plain.format(value) : NOTHING);
export const formatShort = (value) => (isNumber(value) ? short.format(value) : NOTHING);
export const formatMs = (ms) => `${formatNumber(Math.round(ms))} ms`;
export const formatMinute = (epochS) => minuteClock.format(epochS * 1000);

export function formatSeconds(seconds) {
  if (!isNumber(seconds)) return NOTHING;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${precise.format(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** To the second today; of another day nobody asks for those. */
export function formatSecond(epochS, nowS = Date.now() / 1000) {
  return isSameDay(epochS, nowS) ? secondClock.format(epochS * 1000) : formatMoment(epochS, nowS);
}

/** The day is named only where it is another one. */
export function formatMoment(epochS, nowS = Date.now() / 1000) {
  if (isSameDay(epochS, nowS)) return formatMinute(epochS);
  const isNear = Math.abs(epochS - nowS) < 6 * DAY_S;
  return (isNear ? weekdayClock : dateClock).format(epochS * 1000);
}

const SPANS = [
  [DAY_S, "d"],
  [3_600, "h"],
  [60, "min"],
];

/** "in 2 h", "3 min ago", or "now". */
export function formatDistance(epochS, nowS = Date.now() / 1000) {
  const distance = Math.abs(epochS - nowS);
  const span = SPANS.find(([length]) => distance >= length);
  if (!span) return "now";
  const words = `${Math.round(distance / span[0])} ${span[1]}`;
  return epochS > nowS ? `in ${words}` : `${words} ago`;
}

function isSameDay(epochS, otherS) {
  return new Date(epochS * 1000).toDateString() === new Date(otherS * 1000).toDateString();
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
