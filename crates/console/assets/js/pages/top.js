// The hottest paths and clients, and the largest nodes. Only the super user sees them, because they name all paths.
// @ts-check

import { get } from "../api.js";
import { bar } from "../chart.js";
import { emptyBox, errorBox } from "../dialog.js";
import { fill, h } from "../dom.js";
import { bytes, compact, number, t } from "../i18n.js";
import { nodeLink } from "../links.js";
import { shown } from "../path.js";
import { address } from "../router.js";

const MEASURES = ["reads", "writes", "bytes", "watches", "requests", "nodes"];
const REFRESH_MS = 3000;
const LIMIT = 25;

function entryTable(/** @type {string} */ title, /** @type {any[]} */ entries, /** @type {string} */ measure, /** @type {boolean} */ arePaths) {
  const max = Math.max(...entries.map((entry) => entry.perSecond), 1e-9);
  const form = measure === "bytes" ? bytes : compact;
  const rows = entries.map((entry) =>
    h("tr", null, h("td", { class: "break" }, arePaths && entry.key.startsWith("/") ? nodeLink(entry.key) : h("span", { class: "mono" }, shown(entry.key))), h("td", { class: "num" }, `${form(entry.perSecond)}/s`), h("td", null, bar(entry.perSecond / max)), h("td", { class: "num dim" }, `± ${form(entry.errorPerSecond)}`)));
  return h("section", { class: "card" }, h("h2", null, title), entries.length === 0 ? h("p", { class: "dim" }, t("top.quiet")) : h("div", { class: "wide" }, h("table", null, h("tbody", null, rows))));
}

function sizeTable(/** @type {string} */ title, /** @type {any[]} */ entries, /** @type {string} */ name, /** @type {(x: number) => string} */ form) {
  const max = Math.max(...entries.map((entry) => entry[name]), 1);
  return h("section", { class: "card" }, h("h2", null, title), h("div", { class: "wide" }, h("table", null, h("tbody", null, entries.slice(0, LIMIT).map((entry) => h("tr", null, h("td", { class: "break" }, nodeLink(entry.path)), h("td", { class: "num" }, form(entry[name])), h("td", null, bar(entry[name] / max))))))));
}

export function mount(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
  let by = "";
  const tabs = h("div", { class: "tabs" });
  const note = h("p", { class: "dim" });
  const place = h("div");
  const ended = new AbortController();
  fill(root, h("div", { class: "head" }, h("h1", null, t("nav.top")), h("p", null, t("top.explain"))), tabs, note, place);

  async function load() {
    const asked = by;
    try {
      const answer = await get("v1/top", { by: asked, limit: LIMIT }, ended.signal);
      if (asked !== by) return;
      if (asked === "nodes") {
        fill(note, t("top.visited", { n: answer.visited }), answer.complete ? "" : ` ${t("top.incomplete")}`);
        fill(place, h("div", { class: "columns" }, sizeTable(t("top.bySize"), answer.bySize, "bytes", bytes), sizeTable(t("top.byChildren"), answer.byChildren, "children", number)));
        return;
      }
      fill(note, answer.sampling > 0 ? t("top.sampling", { n: answer.sampling }) : t("top.off"));
      const lists = Object.entries(answer.by[asked] ?? {});
      fill(place, h("div", { class: "columns" }, lists.map(([subject, entries]) => entryTable(t(`subject.${subject}`), /** @type {any[]} */ (entries), asked, subject === "path" || subject === "paths"))));
    } catch (error) {
      if (ended.signal.aborted) return;
      fill(note);
      const isForeign = /** @type {any} */ (error).code === "NOAUTH";
      fill(place, isForeign ? emptyBox(t("top.superOnly"), t("top.superMore")) : errorBox(error));
    }
  }

  function update(/** @type {URLSearchParams} */ now) {
    const wanted = now.get("by") ?? "reads";
    by = MEASURES.includes(wanted) ? wanted : "reads";
    fill(tabs, MEASURES.map((name) => h("a", { href: address("top", { by: name }), "aria-selected": name === by ? "true" : "false", role: "tab" }, t(`measure.${name}`))));
    tabs.setAttribute("role", "tablist");
    void load();
  }
  update(params);
  const timer = setInterval(() => void (document.hidden || by === "nodes" || load()), REFRESH_MS);
  return {
    update,
    destroy() {
      clearInterval(timer);
      ended.abort();
    },
  };
}
