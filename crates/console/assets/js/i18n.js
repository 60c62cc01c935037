// Texts in English and Chinese, and numbers, times and sizes as readers expect them.
// @ts-check

import { prefs } from "./prefs.js";

/** @type {Record<string, string>} */
let texts = {};
export const LANGUAGES = { en: "English", zh: "中文" };
/** @type {"en" | "zh"} */
export let language = "en";
let plurals = new Intl.PluralRules("en");

/** Chooses the language: of the address, of an earlier choice, or of the browser. */
export async function loadLanguage() {
  const asked = new URLSearchParams(location.search).get("lang") ?? prefs.get("lang") ?? navigator.language;
  language = asked.startsWith("zh") ? "zh" : "en";
  const answer = await fetch(new URL(`../i18n/${language}.json`, import.meta.url));
  texts = await answer.json();
  plurals = new Intl.PluralRules(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

/** Whether there is a text. */
export function has(/** @type {string} */ key) {
  return key in texts;
}

/** The text of a key. `n` chooses the plural form and is shown with separators. */
export function t(/** @type {string} */ key, /** @type {Record<string, any>} */ values = {}) {
  let text = texts[key];
  if (text === undefined && "n" in values) {
    text = texts[`${key}.${plurals.select(Number(values.n))}`] ?? texts[`${key}.other`];
  }
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    if (!(name in values)) return whole;
    const value = values[name];
    return typeof value === "number" ? number(value) : String(value);
  });
}

/** A number with separators. */
export function number(/** @type {number} */ value, digits = 0) {
  return new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);
}

/** A number in few characters. */
export function compact(/** @type {number} */ value) {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) < 10 && value % 1 !== 0) return number(value, 1);
  if (Math.abs(value) < 100_000) return number(Math.round(value));
  return new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

/** Things of which one is meant: "2, 3 or 5". */
export function either(/** @type {any[]} */ list) {
  return new Intl.ListFormat(language, { type: "disjunction" }).format(list.map(String));
}

/** Things of which all are meant: "2, 3 and 5". */
export function both(/** @type {any[]} */ list) {
  return new Intl.ListFormat(language, { type: "conjunction" }).format(list.map(String));
}

/** Bytes. */
export function bytes(/** @type {number} */ value) {
  if (value < 1024) return `${number(value)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let amount = value;
  let unit = -1;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${number(amount, amount < 10 ? 1 : 0)} ${units[unit]}`;
}

/** Milliseconds. */
export function millis(/** @type {number} */ value) {
  if (!Number.isFinite(value)) return "–";
  if (value < 1000) return `${number(value, value < 10 ? 1 : 0)} ms`;
  return duration(value);
}

/** A duration in its largest units, two unless told. */
export function duration(/** @type {number} */ ms, units = 2) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [
    ["unit.d", Math.floor(seconds / 86400)],
    ["unit.h", Math.floor(seconds / 3600) % 24],
    ["unit.m", Math.floor(seconds / 60) % 60],
    ["unit.s", seconds % 60],
  ];
  const first = parts.findIndex(([, amount]) => Number(amount) > 0);
  if (first < 0) return `0 ${t("unit.s")}`;
  const shown = parts.slice(first, first + units).filter(([, amount]) => Number(amount) > 0);
  return shown.map(([unit, amount]) => `${amount} ${t(String(unit))}`).join(" ");
}

/** How long ago a time was. */
export function ago(/** @type {number} */ at) {
  const ms = Date.now() - at;
  if (ms < 1500) return t("time.now");
  return t("time.ago", { time: duration(ms, 1) });
}

/** The exact time with its zone. */
export function exact(/** @type {number} */ at) {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long" }).format(at);
}

/** The time of the day. */
export function clock(/** @type {number} */ at) {
  return new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).format(at);
}
