// The way to a path or a page: type, choose, Enter. Names are completed by the server.
// @ts-check

import { readListing } from "./api.js";
import { openDialog } from "./dialog.js";
import { fill, h, icon } from "./dom.js";
import { t } from "./i18n.js";
import { join, parentOf, shown } from "./path.js";
import { address, go } from "./router.js";

const PAGES = ["overview", "tree", "search", "recipes", "sessions", "watches", "top", "changes", "ensemble"];
const ROWS = 12;

export function openPalette() {
  openDialog(t("palette.title"), (body, _foot, close, signal) => {
    const list = h("div", { class: "palette-list", role: "listbox", id: "palette-list" });
    const input = /** @type {HTMLInputElement} */ (
      h("input", { id: "palette-input", class: "mono", placeholder: t("palette.placeholder"), role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": t("palette.placeholder"), autocomplete: "off", spellcheck: "false" })
    );
    /** @type {{text: string, kind: string, url: string, path?: string}[]} */
    let rows = [];
    let at = 0;
    let asked = 0;
    function draw() {
      fill(
        list,
        rows.map((row, index) =>
          h("a", { class: "palette-row", role: "option", id: `palette-${index}`, href: row.url, "aria-selected": index === at ? "true" : "false", onclick: close }, icon(row.kind), h("span", { class: row.path ? "mono" : "" }, shown(row.text))),
        ),
      );
      input.setAttribute("aria-activedescendant", rows.length > 0 ? `palette-${at}` : "");
    }
    async function search() {
      asked += 1;
      const own = asked;
      const text = input.value.trim();
      if (!text.startsWith("/")) {
        const wanted = text.toLowerCase();
        rows = PAGES.filter((name) => name.includes(wanted) || t(`nav.${name}`).toLowerCase().includes(wanted)).map((name) => ({ text: t(`nav.${name}`), kind: name, url: address(name) }));
        if (/^0x[0-9a-f]+$/i.test(text)) rows.unshift({ text: t("palette.session", { id: text }), kind: "sessions", url: address("sessions", { id: text }) });
        else if (text) rows.push({ text: t("palette.search", { text }), kind: "search", url: address("search", { name: text }) });
        at = 0;
        draw();
        return;
      }
      const base = text.endsWith("/") ? text.replace(/\/+$/, "") || "/" : parentOf(text);
      const begun = text.endsWith("/") ? "" : text.slice(text.lastIndexOf("/") + 1);
      const exact = text.length > 1 ? text.replace(/\/+$/, "") : "/";
      rows = [{ text: exact, kind: "tree", url: address("tree", { path: exact }), path: exact }];
      at = 0;
      draw();
      try {
        const answer = await readListing(base, { limit: ROWS, match: begun ? `${begun}*` : "" }, signal);
        if (own !== asked) return;
        for (const { name } of answer.items) {
          const path = join(base, name);
          if (path !== exact) rows.push({ text: path, kind: "tree", url: address("tree", { path }), path });
        }
        draw();
      } catch {
        // The first row is enough: it says why when it is opened.
      }
    }
    input.addEventListener("input", () => void search());
    input.addEventListener("keydown", (event) => {
      const row = rows[at];
      if (event.key === "ArrowDown") at = Math.min(at + 1, rows.length - 1);
      else if (event.key === "ArrowUp") at = Math.max(at - 1, 0);
      else if (event.key === "Tab" && row?.path) {
        input.value = row.path === "/" ? "/" : `${row.path}/`;
        void search();
      } else if (event.key === "Enter" && row) {
        close();
        go(row.url);
      } else return;
      event.preventDefault();
      draw();
      list.children[at]?.scrollIntoView({ block: "nearest" });
    });
    fill(body, input, list);
    void search();
    queueMicrotask(() => input.focus());
  }, "palette");
}
