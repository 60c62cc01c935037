// Search by name, content and size below a path, with progress and an end. Also exports and imports.
// @ts-check

import { self } from "../api.js";
import { fromBase64, toText } from "../bytes.js";
import { button, emptyBox, notify, openDialog } from "../dialog.js";
import { fill, h } from "../dom.js";
import { bytes, number, t } from "../i18n.js";
import { nodeLink, tag, when } from "../links.js";
import { pathProblem, shown } from "../path.js";
import { remember } from "../router.js";
import { latest } from "../samples.js";
import { createOp, importNodes, parseExport, saveFile, walk } from "../transfer.js";
import { isUnlocked, onLock } from "../write_lock.js";

const HITS_MAX = 2000;
const SHOWN_DATA = 90;

export function mount(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
  const field = (/** @type {string} */ name, /** @type {string} */ kind = "") => /** @type {HTMLInputElement} */ (h("input", { id: `search-${name}`, class: `mono ${kind}`, value: params.get(name) ?? "", spellcheck: "false", autocomplete: "off" }));
  const fields = { under: field("under"), name: field("name"), data: field("data"), larger: field("larger", "short") };
  fields.under.value ||= "/";
  fields.larger.inputMode = "numeric";
  const ephemeral = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: params.get("ephemeral") === "1" }));
  const progress = h("div", { class: "progress", role: "status" });
  const results = h("div");
  const tools = h("div", { class: "actions" });
  let running = /** @type {AbortController | null} */ (null);

  async function search(/** @type {Event | null} */ event) {
    event?.preventDefault();
    running?.abort();
    const wrong = pathProblem(fields.under.value);
    if (wrong) {
      fill(progress, h("span", { class: "bad" }, t(wrong)));
      return;
    }
    const own = new AbortController();
    running = own;
    const asked = { name: fields.name.value, data: fields.data.value, larger: fields.larger.value.replace(/\D/g, "") || null, ephemeral: ephemeral.checked };
    remember("search", { under: fields.under.value, name: asked.name, data: asked.data, larger: asked.larger, ephemeral: asked.ephemeral ? 1 : null });
    const rows = h("tbody");
    const table = h("div", { class: "wide" }, h("table", null, h("thead", null, h("tr", null, h("th", null, t("search.path")), h("th", { class: "num" }, t("search.size")), h("th", null, t("search.changed")), h("th", null, t("search.data")))), rows));
    fill(results, table);
    const total = latest()?.stats.nodes ?? 0;
    let [visited, hits, hidden] = [0, 0, 0];
    const meter = /** @type {HTMLProgressElement} */ (h("progress", { max: 1 }));
    const line = h("span");
    const draw = (/** @type {boolean} */ isDone) => {
      if (fields.under.value === "/" && total > 0) meter.value = Math.min(visited / total, 1);
      fill(line, t(isDone ? "search.done" : "search.progress", { visited, n: hits }), hidden > 0 ? ` ${t("search.hidden", { n: hidden })}` : "");
    };
    fill(progress, meter, line, button(t("action.stop"), () => own.abort(), { id: "search-stop" }));
    try {
      for await (const page of walk(fields.under.value, { ...asked, base64: true, limit: 200, visit: 20000 }, own.signal)) {
        visited += page.visited;
        hidden += page.hidden;
        for (const item of page.items) {
          hits += 1;
          if (hits <= HITS_MAX) rows.append(hitRow(item));
        }
        draw(false);
        if (hits >= HITS_MAX) {
          own.abort();
          break;
        }
      }
      draw(true);
      fill(progress, line, hits >= HITS_MAX ? h("b", null, t("search.cut", { n: HITS_MAX })) : null);
      if (hits === 0) fill(results, emptyBox(t("search.nothing"), t("search.nothingMore")));
    } catch (error) {
      if (own.signal.aborted) fill(progress, line, h("b", null, t("search.stopped")));
      else fill(progress, h("span", { class: "bad" }, /** @type {Error} */ (error).message));
    }
  }

  function drawTools() {
    fill(
      tools,
      button(t("export.deed"), () => void exportNow(), { id: "export" }),
      self.mayWrite && isUnlocked() ? button(t("import.deed"), importDialog, { id: "import" }) : null,
    );
  }

  async function exportNow() {
    const own = new AbortController();
    fill(progress, h("span", null, t("transfer.reading", { n: 0 })), button(t("action.stop"), () => own.abort()));
    const line = /** @type {Element} */ (progress.firstElementChild);
    try {
      const count = await saveFile(fields.under.value, own.signal, (n) => fill(line, t("transfer.reading", { n })));
      fill(progress, t("export.done", { n: count }));
    } catch (error) {
      fill(progress, own.signal.aborted ? t("search.stopped") : h("span", { class: "bad" }, /** @type {Error} */ (error).message));
    }
  }

  const end = onLock(drawTools);
  drawTools();
  fill(
    root,
    h("div", { class: "head" }, h("h1", null, t("nav.search")), h("p", null, t("search.explain"))),
    h(
      "form",
      { onsubmit: search },
      h("div", { class: "filters" }, h("label", null, t("search.under"), fields.under), h("label", null, t("search.name"), fields.name), h("label", null, t("search.contains"), fields.data), h("label", null, t("search.larger"), fields.larger), h("label", { class: "check" }, ephemeral, t("search.ephemeral")), h("button", { type: "submit", class: "primary", id: "search-run" }, t("nav.search"))),
    ),
    tools,
    progress,
    results,
  );
  if (["name", "data", "larger", "ephemeral"].some((name) => params.has(name))) void search(null);
  else fill(results, emptyBox(t("search.begin"), t("search.beginMore")));
  return {
    destroy() {
      running?.abort();
      end();
    },
  };
}

function hitRow(/** @type {any} */ item) {
  const raw = fromBase64(item.base64);
  const text = toText(raw.subarray(0, SHOWN_DATA * 4));
  const data = text === null ? t("search.binary") : shown(text.slice(0, SHOWN_DATA).replace(/\s+/g, " "));
  return h("tr", null, h("td", null, nodeLink(item.path), " ", item.lifetime === "persistent" ? null : tag(t(`mark.${item.lifetime}`), item.lifetime)), h("td", { class: "num" }, bytes(item.stat.dataLength)), h("td", null, when(item.stat.mtime)), h("td", { class: "mono dim break" }, data));
}

/** Reads a file, says what it would do, and does it. */
function importDialog() {
  openDialog(t("import.title"), (body, foot, close, signal) => {
    const file = /** @type {HTMLInputElement} */ (h("input", { type: "file", id: "import-file", accept: ".jsonl" }));
    const place = h("div", { role: "status" });
    fill(body, h("p", { class: "dim" }, t("import.explain")), h("label", null, t("import.file"), file), place);
    fill(foot, button(t("action.cancel"), close));
    file.addEventListener("change", () => void plan());
    async function plan() {
      const chosen = file.files?.[0];
      if (!chosen) return;
      try {
        const { root, nodes } = parseExport(await chosen.text());
        const existing = new Set();
        try {
          for await (const page of walk(root, { limit: 1000, visit: 50000 }, signal)) page.items.forEach((/** @type {any} */ item) => existing.add(item.path));
        } catch (error) {
          if (/** @type {any} */ (error).code !== "NONODE") throw error;
        }
        const fresh = nodes.filter((node) => !existing.has(node.path) && node.lifetime !== "ephemeral");
        const conflicts = nodes.filter((node) => existing.has(node.path)).length;
        const left = nodes.length - fresh.length - conflicts;
        fill(place, h("p", { class: "strong" }, t("import.new", { n: fresh.length }), " ", nodeLink(root)), conflicts > 0 ? h("p", { class: "warn" }, t("import.conflicts", { n: conflicts })) : null, left > 0 ? h("p", { class: "warn" }, t("import.ephemerals", { n: left })) : null);
        if (fresh.length > 0) fill(foot, button(t("action.cancel"), close), button(t("import.run", { n: number(fresh.length) }), () => void run(fresh), { class: "primary", id: "import-run" }));
      } catch (error) {
        const text = /** @type {Error} */ (error).message;
        fill(place, h("p", { class: "bad" }, t(text)));
      }
    }
    async function run(/** @type {any[]} */ nodes) {
      fill(foot, button(t("action.stop"), close));
      try {
        await importNodes(nodes, (node) => createOp(node, node.path), signal, (n) => fill(place, t("import.progress", { n })));
        close();
        notify(t("import.done", { n: nodes.length }));
      } catch (error) {
        if (!signal.aborted) fill(place, h("p", { class: "bad" }, /** @type {Error} */ (error).message));
      }
    }
  });
}
