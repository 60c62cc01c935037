// Keys. No single key acts while a field has the focus, and all of them can be switched off.
// @ts-check

import { button, openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { t } from "./i18n.js";
import { openPalette } from "./palette.js";
import { prefs } from "./prefs.js";
import { address, go } from "./router.js";

const PAGES = { o: "overview", t: "tree", f: "search", r: "recipes", s: "sessions", w: "watches", p: "top", c: "changes", e: "ensemble" };
let waitsForPage = false;

function isOff() {
  return prefs.get("keys") === "off";
}

export function startShortcuts() {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) openPalette();
      return;
    }
    const target = /** @type {HTMLElement} */ (event.target);
    const isField = target.closest("input, textarea, select, [contenteditable]");
    if (isField || event.ctrlKey || event.metaKey || event.altKey || isOff() || document.querySelector("dialog[open]")) return;
    if (waitsForPage) {
      waitsForPage = false;
      const page = PAGES[/** @type {keyof typeof PAGES} */ (event.key)];
      if (page) {
        event.preventDefault();
        go(address(page));
      }
      return;
    }
    if (event.key === "g") waitsForPage = true;
    else if (event.key === "/") openPalette();
    else if (event.key === "?") showShortcuts();
    else {
      document.dispatchEvent(new CustomEvent("zebu-key", { detail: event }));
      return;
    }
    event.preventDefault();
  });
}

export function showShortcuts() {
  openDialog(t("keys.title"), (body, foot, close) => {
    const rows = [
      ["Ctrl K  /", t("keys.palette")],
      ["g o", t("nav.overview")],
      ["g t", t("nav.tree")],
      ["g f", t("nav.search")],
      ["g r", t("nav.recipes")],
      ["g s", t("nav.sessions")],
      ["g w", t("nav.watches")],
      ["g p", t("nav.top")],
      ["g c", t("nav.changes")],
      ["g e", t("nav.ensemble")],
      ["↑ ↓ ← → Home End", t("keys.tree")],
      ["e  n  Del", t("keys.node")],
      ["Space", t("keys.pause")],
      ["?", t("keys.title")],
    ];
    const off = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: isOff(), onchange: () => prefs.set("keys", off.checked ? "off" : null) }));
    fill(
      body,
      h("table", { class: "plain" }, rows.map(([keys, meaning]) => h("tr", null, h("td", null, keys.split("  ").map((key) => h("kbd", null, key))), h("td", null, meaning)))),
      h("label", { class: "check" }, off, t("keys.off")),
    );
    fill(foot, button(t("action.close"), close));
  });
}
