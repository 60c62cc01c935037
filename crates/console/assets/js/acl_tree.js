// One ACL for a whole subtree: a preview counts the nodes and the ACLs that they have, then each node is changed.
// @ts-check

import { encodePath, request } from "./api.js";
import { button, notify, openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { number, t } from "./i18n.js";
import { nodeLink } from "./links.js";
import { nameOf, shown } from "./path.js";
import { walk } from "./transfer.js";

/** Above this number of nodes the name must be typed. */
const TYPED_ABOVE = 100;
/** Nodes of one run; a larger subtree is changed in parts. */
const NODES_MAX = 100_000;
const AT_ONCE = 6;
const KINDS_SHOWN = 8;
const FAILURES_SHOWN = 10;

/** @typedef {{path: string, tag: string}} Target */

function aclKey(/** @type {any[]} */ acl) {
  return acl.map((entry) => `${entry.scheme}:${entry.id}:${entry.perms}`).sort().join(", ");
}

/** Counts a subtree by the ACLs in it. */
async function survey(/** @type {string} */ path, /** @type {string} */ wanted, /** @type {HTMLElement} */ place, /** @type {AbortSignal} */ signal) {
  const found = { nodes: 0, hidden: 0, same: 0, targets: /** @type {Target[]} */ ([]), kinds: /** @type {Map<string, number>} */ (new Map()), isCut: false };
  for await (const page of walk(path, { acl: true, limit: 1000, visit: 50000 }, signal)) {
    found.hidden += page.hidden;
    for (const item of page.items) {
      if (found.targets.length >= NODES_MAX) {
        found.isCut = true;
        return found;
      }
      found.nodes += 1;
      const key = aclKey(item.acl);
      if (key === wanted) {
        found.same += 1;
        continue;
      }
      found.kinds.set(key, (found.kinds.get(key) ?? 0) + 1);
      found.targets.push({ path: item.path, tag: `"${item.stat.aversion}.${item.stat.czxid}"` });
    }
    fill(place, t("plan.counting", { n: found.nodes }));
  }
  return found;
}

function summary(/** @type {Awaited<ReturnType<typeof survey>>} */ found) {
  const kinds = [...found.kinds].sort((one, other) => other[1] - one[1]);
  return [
    h("p", { class: "strong" }, t("aclTree.nodes", { n: found.targets.length, all: found.nodes })),
    found.same > 0 ? h("p", { class: "dim" }, t("aclTree.same", { n: found.same })) : null,
    found.hidden > 0 ? h("p", { class: "bad" }, t("aclTree.hidden", { n: found.hidden })) : null,
    found.isCut ? h("p", { class: "warn" }, t("aclTree.cut", { max: number(NODES_MAX) })) : null,
    kinds.length > 0 ? h("h3", null, t("aclTree.replaced")) : null,
    h("ul", { class: "plan-list" }, kinds.slice(0, KINDS_SHOWN).map(([key, count]) => h("li", { class: "mono break" }, shown(key), " ", h("span", { class: "dim" }, `× ${number(count)}`))), kinds.length > KINDS_SHOWN ? h("li", { class: "dim" }, t("plan.more", { n: kinds.length - KINDS_SHOWN })) : null),
  ];
}

/** Changes the nodes, some at a time. Nodes that others have changed since the preview stay as they are. */
async function run(/** @type {Target[]} */ targets, /** @type {any[]} */ acl, /** @type {AbortSignal} */ signal, /** @type {(done: number) => void} */ onprogress) {
  const outcome = { done: 0, gone: 0, failed: /** @type {{path: string, why: string}[]} */ ([]), failures: 0 };
  const body = JSON.stringify({ acl });
  let next = 0;
  async function work() {
    while (next < targets.length && !signal.aborted) {
      const { path, tag } = targets[next];
      next += 1;
      try {
        await request("PUT", `v1/acl${encodePath(path)}`, { body, headers: { "if-match": tag }, signal });
        outcome.done += 1;
      } catch (error) {
        if (signal.aborted) return;
        const { code, message } = /** @type {any} */ (error);
        if (code === "NONODE") outcome.gone += 1;
        else {
          outcome.failures += 1;
          if (outcome.failed.length < FAILURES_SHOWN) outcome.failed.push({ path, why: message });
        }
      }
      onprogress(next);
    }
  }
  // The lowest nodes first: the new ACL of a parent may hide its children from this login.
  targets.reverse();
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return outcome;
}

/** Asks for a change of the whole subtree. */
export function aclTreeDialog(/** @type {string} */ path, /** @type {any[]} */ acl, /** @type {() => void} */ ondone) {
  openDialog(t("aclTree.title", { path: shown(path) }), async (body, foot, close, signal) => {
    const place = h("div", { class: "stack", role: "status" });
    const wanted = h("p", { class: "preview mono" }, shown(aclKey(acl)));
    fill(body, h("p", { class: "dim" }, t("aclTree.explain")), wanted, place);
    fill(foot, button(t("action.cancel"), close));
    let found;
    try {
      found = await survey(path, aclKey(acl), place, signal);
    } catch (error) {
      if (!signal.aborted) fill(place, h("p", { class: "bad" }, /** @type {Error} */ (error).message));
      return;
    }
    if (found.targets.length === 0) {
      fill(place, summary(found));
      return;
    }
    const needsName = found.targets.length > TYPED_ABOVE;
    const deed = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "danger", id: "acl-tree-run", disabled: needsName, onclick: () => void start() }, t("aclTree.deed", { n: found.targets.length })));
    const typed = /** @type {HTMLInputElement} */ (h("input", { id: "acl-tree-typed", class: "mono", autocomplete: "off" }));
    typed.addEventListener("input", () => { deed.disabled = typed.value !== nameOf(path); });
    fill(place, summary(found), acl.some((entry) => entry.perms.includes("a")) ? null : h("p", { class: "bad" }, t("acl.noAdmin")), needsName ? h("label", null, t("delete.type", { name: shown(nameOf(path)) }), typed) : null);
    fill(foot, button(t("action.cancel"), close), deed);
    async function start() {
      fill(foot, button(t("action.stop"), close));
      const all = found.targets.length;
      const outcome = await run(found.targets, acl, signal, (count) => fill(place, t("aclTree.progress", { n: count, all })));
      if (signal.aborted) {
        notify(t("aclTree.stopped", { n: outcome.done }), "bad");
        ondone();
        return;
      }
      notify(t("aclTree.done", { n: outcome.done }));
      ondone();
      if (outcome.failures === 0) {
        close();
        return;
      }
      fill(place, h("p", { class: "bad" }, t("aclTree.failed", { n: outcome.failures })), h("ul", { class: "plan-list" }, outcome.failed.map(({ path: node, why }) => h("li", null, nodeLink(node), " ", why))));
      fill(foot, button(t("action.close"), close));
    }
  }, "wide");
}
