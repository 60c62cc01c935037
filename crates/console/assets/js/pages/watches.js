// Who is told of changes: watched paths, their sessions, and counts.
// @ts-check

import { get } from "../api.js";
import { emptyBox, errorBox } from "../dialog.js";
import { fill, h } from "../dom.js";
import { number, t } from "../i18n.js";
import { nodeLink, sessionLink } from "../links.js";
import { remember } from "../router.js";

const ROWS_MAX = 500;
const SESSIONS_SHOWN = 4;

export function mount(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
  const under = /** @type {HTMLInputElement} */ (h("input", { id: "watches-under", class: "mono", value: params.get("under") ?? "", placeholder: "/", "aria-label": t("search.under"), oninput: draw }));
  const summary = h("p", { class: "dim", role: "status" });
  const place = h("div");
  /** @type {any[]} */
  let rows = [];
  const ended = new AbortController();

  async function load() {
    try {
      const answer = await get("v1/watches", { by: "path" }, ended.signal);
      rows = answer.byPath;
      rows.sort((a, b) => b.sessions.length - a.sessions.length || (a.path < b.path ? -1 : 1));
      fill(summary, t("watches.summary", { watches: answer.watches, paths: answer.paths, n: answer.connections }));
      draw();
    } catch (error) {
      if (!ended.signal.aborted) fill(place, errorBox(error));
    }
  }

  function draw() {
    const prefix = under.value.replace(/\/+$/, "");
    remember("watches", { under: prefix || null });
    const list = rows.filter((row) => row.path === prefix || row.path.startsWith(`${prefix}/`));
    if (list.length === 0) {
      fill(place, emptyBox(t("watches.none"), t("watches.noneMore")));
      return;
    }
    const cells = (/** @type {any} */ row) =>
      h("tr", null, h("td", null, nodeLink(row.path)), h("td", { class: "num" }, number(row.sessions.length)), h("td", null, row.sessions.slice(0, SESSIONS_SHOWN).map((/** @type {string} */ id, /** @type {number} */ index) => [index > 0 ? ", " : null, sessionLink(id)]), row.sessions.length > SESSIONS_SHOWN ? h("span", { class: "dim" }, ` ${t("plan.more", { n: row.sessions.length - SESSIONS_SHOWN })}`) : null));
    fill(
      place,
      h("div", { class: "card wide" }, h("table", null, h("thead", null, h("tr", null, h("th", null, t("search.path")), h("th", { class: "num" }, t("nav.watches")), h("th", null, t("nav.sessions")))), h("tbody", null, list.slice(0, ROWS_MAX).map(cells)))),
      list.length > ROWS_MAX ? h("p", { class: "dim" }, t("plan.more", { n: list.length - ROWS_MAX })) : null,
    );
  }

  fill(root, h("div", { class: "head" }, h("h1", null, t("nav.watches")), h("p", null, t("watches.explain"))), h("div", { class: "filters" }, h("label", null, t("search.under"), under), h("button", { type: "button", onclick: () => void load() }, t("action.reload"))), summary, place);
  void load();
  return { destroy: () => ended.abort() };
}
