// Plans for a whole subtree: what a deletion or a copy would do, before it is done, with progress and an end.
// @ts-check

import { encodePath, readStat, request } from "./api.js";
import { button, notify, openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { bytes, number, t } from "./i18n.js";
import { nodeLink } from "./links.js";
import { nameOf, parentOf, pathProblem, shown } from "./path.js";
import { createOp, importNodes, isPersistent, saveFile, walk } from "./transfer.js";

/** Above this number of nodes the name must be typed. */
const TYPED_ABOVE = 100;
const DELETES_PER_REQUEST = 1000;
const FIRST_SHOWN = 20;
/** An export is offered up to this size. */
const EXPORT_BYTES_MAX = 64 << 20;

/** Counts a subtree; tells the progress. */
async function survey(/** @type {string} */ path, /** @type {HTMLElement} */ place, /** @type {AbortSignal} */ signal) {
  const found = { nodes: 0, bytes: 0, ephemerals: 0, hidden: 0, first: /** @type {string[]} */ ([]) };
  for await (const page of walk(path, { limit: 1000, visit: 50000 }, signal)) {
    found.nodes += page.visited;
    found.bytes += page.bytes;
    found.ephemerals += page.ephemerals;
    found.hidden += page.hidden;
    for (const item of page.items) if (found.first.length < FIRST_SHOWN) found.first.push(item.path);
    fill(place, t("plan.counting", { n: found.nodes }));
  }
  return found;
}

function summary(/** @type {Awaited<ReturnType<typeof survey>>} */ found) {
  return [
    h("p", { class: "strong" }, t("plan.nodes", { n: found.nodes }), " · ", bytes(found.bytes)),
    found.ephemerals > 0 ? h("p", { class: "warn" }, t("plan.ephemerals", { n: found.ephemerals })) : null,
    found.hidden > 0 ? h("p", { class: "bad" }, t("plan.hidden", { n: found.hidden })) : null,
    h("ul", { class: "plan-list" }, found.first.map((path) => h("li", null, nodeLink(path))), found.nodes > found.first.length ? h("li", { class: "dim" }, t("plan.more", { n: found.nodes - found.first.length })) : null),
  ];
}

export function deleteDialog(/** @type {string} */ path, /** @type {string} */ _children, /** @type {(path: string, gone: boolean) => void} */ ondone) {
  openDialog(t("delete.title", { path: shown(path) }), async (body, foot, close, signal) => {
    const progress = h("p", { role: "status" });
    fill(body, progress);
    fill(foot, button(t("action.cancel"), close));
    let found;
    try {
      found = await survey(path, progress, signal);
    } catch (error) {
      if (!signal.aborted) fill(body, h("p", { class: "bad" }, /** @type {Error} */ (error).message));
      return;
    }
    const save = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "delete-export", checked: found.nodes > 1 && found.bytes < EXPORT_BYTES_MAX }));
    const typed = /** @type {HTMLInputElement} */ (h("input", { id: "delete-typed", class: "mono", autocomplete: "off" }));
    const needsName = found.nodes > TYPED_ABOVE;
    const run = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "danger", id: "delete-run", disabled: needsName, onclick: () => void start() }, t("delete.deed", { n: found.nodes })));
    typed.addEventListener("input", () => { run.disabled = typed.value !== nameOf(path); });
    fill(body, summary(found), h("label", { class: "check" }, save, t("delete.export")), needsName ? h("label", null, t("delete.type", { name: shown(nameOf(path)) }), typed) : null, progress);
    fill(progress);
    fill(foot, button(t("action.cancel"), close), run);
    async function start() {
      run.disabled = true;
      let deleted = 0;
      try {
        if (save.checked) await saveFile(path, signal, (count) => fill(progress, t("transfer.reading", { n: count })));
        for (;;) {
          const answer = await (await request("DELETE", `v1/tree${encodePath(path)}`, { query: { recursive: true, max: DELETES_PER_REQUEST }, signal })).json();
          deleted += answer.deleted;
          fill(progress, t("delete.progress", { n: deleted }));
          if (!answer.more) break;
        }
        close();
        notify(t("delete.done", { n: deleted }));
        ondone(path, true);
      } catch (error) {
        if (!signal.aborted) fill(progress, h("span", { class: "bad" }, t("delete.stopped", { n: deleted, why: /** @type {Error} */ (error).message })));
      }
    }
  });
}

export function copyDialog(/** @type {string} */ path, /** @type {(path: string, gone: boolean) => void} */ ondone) {
  openDialog(t("copy.title", { path: shown(path) }), (body, foot, close, signal) => {
    const target = /** @type {HTMLInputElement} */ (h("input", { id: "copy-target", class: "mono", value: `${path === "/" ? "" : path}-copy`, spellcheck: "false" }));
    const place = h("div", { role: "status" });
    const plan = h("button", { type: "button", class: "primary", id: "copy-plan", onclick: () => void preview() }, t("copy.plan"));
    fill(body, h("label", null, t("copy.target"), target), place);
    fill(foot, button(t("action.cancel"), close), plan);
    async function preview() {
      const to = target.value;
      const wrong = pathProblem(to) ?? (to === path || to.startsWith(`${path}/`) || path === "/" ? "copy.inside" : null);
      if (wrong) {
        fill(place, h("p", { class: "bad" }, t(wrong)));
        return;
      }
      try {
        if (await exists(to)) {
          fill(place, h("p", { class: "bad" }, t("copy.exists", { path: shown(to) })));
          return;
        }
        if (!(await exists(parentOf(to)))) {
          fill(place, h("p", { class: "bad" }, t("copy.noParent", { path: shown(parentOf(to)) })));
          return;
        }
        const found = await survey(path, place, signal);
        fill(place, summary(found));
        target.disabled = true;
        fill(foot, button(t("action.cancel"), close), h("button", { type: "button", class: "primary", id: "copy-run", onclick: () => void run(to) }, t("copy.deed", { n: found.nodes - found.ephemerals })));
      } catch (error) {
        if (!signal.aborted) fill(place, h("p", { class: "bad" }, /** @type {Error} */ (error).message));
      }
    }
    async function run(/** @type {string} */ to) {
      let copied = 0;
      fill(foot, button(t("action.stop"), close));
      try {
        for await (const page of walk(path, { base64: true, acl: true, limit: 200 }, signal)) {
          const before = copied;
          const nodes = page.items.filter(isPersistent);
          await importNodes(nodes, (node) => createOp(node, to + node.path.slice(path.length)), signal, (count) => {
            copied = before + count;
            fill(place, t("copy.progress", { n: copied }));
          });
        }
        close();
        notify(t("copy.done", { n: copied }));
        ondone(to, false);
      } catch (error) {
        if (!signal.aborted) fill(place, h("p", { class: "bad" }, t("copy.stopped", { n: copied, why: /** @type {Error} */ (error).message })));
      }
    }
  });
}

async function exists(/** @type {string} */ path) {
  try {
    await readStat(path);
    return true;
  } catch (error) {
    if (/** @type {any} */ (error).code === "NONODE") return false;
    throw error;
  }
}
