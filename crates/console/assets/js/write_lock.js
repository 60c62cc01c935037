// Writing is locked until the user asks for it, for ten minutes in this tab.
// @ts-check

import { self } from "./api.js";
import { confirm } from "./dialog.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";

const OPEN_MS = 10 * 60 * 1000;
/** @type {Set<() => void>} */
const listeners = new Set();
let until = 0;
let timer = 0;

export function isUnlocked() {
  return self.mayWrite && Date.now() < until;
}

function tell() {
  document.documentElement.dataset.writing = String(isUnlocked());
  listeners.forEach((listener) => listener());
}

export function lock() {
  until = 0;
  clearTimeout(timer);
  tell();
}

/** Asks whether this tab may write. */
export async function unlock() {
  if (isUnlocked()) return true;
  const who = self.user ? t("lock.as", { user: `digest:${self.user}` }) : t("lock.anonymous");
  const content = [h("p", null, t("lock.explain")), h("p", null, who)];
  if (!(await confirm(t("lock.title"), content, t("lock.deed"), "primary"))) return false;
  until = Date.now() + OPEN_MS;
  clearTimeout(timer);
  timer = window.setTimeout(lock, OPEN_MS);
  tell();
  return true;
}

/** Calls back when writing begins or ends; returns the end of it. */
export function onLock(/** @type {() => void} */ listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}
