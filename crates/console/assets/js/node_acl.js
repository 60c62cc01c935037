// The ACL of a node in words, and its editor.
// @ts-check

import { aclTreeDialog } from "./acl_tree.js";
import { encodePath, get, request, self } from "./api.js";
import { button, errorBox, notify, notifyError, openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { t } from "./i18n.js";
import { shown } from "./path.js";
import { isUnlocked } from "./write_lock.js";

const LETTERS = ["c", "d", "r", "w", "a"];
const SCHEMES = ["world", "auth", "digest", "ip", "x509", "sasl"];

/** @typedef {{scheme: string, id: string, perms: string}} Entry */

function rowsOf(/** @type {Entry[]} */ acl) {
  return acl.map((entry) =>
    h(
      "tr",
      null,
      h("td", { class: "mono" }, shown(entry.scheme ?? "")),
      h("td", { class: "mono break" }, shown(entry.id ?? "")),
      h("td", null, LETTERS.map((letter) => h("span", { class: `perm ${entry.perms.includes(letter) ? "on" : ""}`, title: t(`perm.${letter}`) }, letter))),
      h("td", { class: "dim" }, t(`scheme.${SCHEMES.includes(entry.scheme) ? entry.scheme : "other"}`)),
    ),
  );
}

function table(/** @type {any[]} */ rows) {
  return h("div", { class: "wide" }, h("table", null, h("thead", null, h("tr", null, h("th", null, t("acl.scheme")), h("th", null, t("acl.id")), h("th", null, t("acl.perms")), h("th", null, t("acl.meaning")))), h("tbody", null, rows)));
}

export async function aclTab(/** @type {HTMLElement} */ place, /** @type {any} */ pane) {
  const path = pane.path;
  try {
    const read = await get(`v1/acl${encodePath(path)}`);
    const isOpen = read.acl.some((/** @type {Entry} */ entry) => entry.scheme === "world" && entry.perms.length === 5);
    fill(
      place,
      isOpen ? h("p", { class: "sentence" }, t("acl.open")) : h("p", { class: "sentence" }, t("acl.closed")),
      table(rowsOf(read.acl)),
      h("p", { class: "dim" }, t("acl.notInherited")),
      self.mayWrite && isUnlocked() ? h("div", { class: "actions" }, h("button", { type: "button", id: "acl-edit", onclick: () => editor(pane, read) }, t("acl.edit"))) : null,
    );
  } catch (error) {
    fill(place, errorBox(error));
  }
}

function editor(/** @type {any} */ pane, /** @type {any} */ read) {
  /** @type {Entry[]} */
  const entries = read.acl.map((/** @type {Entry} */ entry) => ({ ...entry }));
  const path = pane.path;
  openDialog(t("acl.editTitle", { path: shown(path) }), (body, foot, close) => {
    const list = h("div", { class: "acl-editor" });
    function draw() {
      fill(
        list,
        entries.map((entry, index) => {
          const scheme = /** @type {HTMLSelectElement} */ (
            h("select", { "aria-label": t("acl.scheme"), onchange: () => { entry.scheme = scheme.value; if (entry.scheme === "world") entry.id = "anyone"; if (entry.scheme === "auth") entry.id = ""; draw(); } },
              [...new Set([...SCHEMES, entry.scheme])].map((name) => h("option", { value: name, selected: name === entry.scheme }, name)))
          );
          const isFixed = entry.scheme === "world" || entry.scheme === "auth";
          const id = /** @type {HTMLInputElement} */ (h("input", { class: "mono", "aria-label": t("acl.id"), value: entry.id, disabled: isFixed, oninput: () => { entry.id = id.value; } }));
          const perms = LETTERS.map((letter) => {
            const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: entry.perms.includes(letter), onchange: () => { entry.perms = LETTERS.filter((known) => (known === letter ? box.checked : entry.perms.includes(known))).join(""); } }));
            return h("label", { class: "check", title: t(`perm.${letter}`) }, box, letter);
          });
          return h("div", { class: "acl-row" }, scheme, id, h("span", { class: "perms" }, perms), button("×", () => { entries.splice(index, 1); draw(); }, { class: "quiet", "aria-label": t("action.delete") }));
        }),
        button(t("acl.add"), () => { entries.push({ scheme: "world", id: "anyone", perms: "r" }); draw(); }, { class: "quiet" }),
      );
    }
    async function write() {
      if (entries.length === 0) {
        notify(t("acl.empty"), "bad");
        return;
      }
      const staysAdmin = entries.some((entry) => entry.perms.includes("a"));
      if (!staysAdmin) notify(t("acl.noAdmin"), "bad");
      try {
        const tag = `"${read.stat.aversion}.${read.stat.czxid}"`;
        await request("PUT", `v1/acl${encodePath(path)}`, { body: JSON.stringify({ acl: entries }), headers: { "if-match": tag } });
        notify(t("acl.done"));
        close();
        await pane.load();
      } catch (error) {
        notifyError(error);
      }
    }
    function writeTree() {
      if (entries.length === 0) {
        notify(t("acl.empty"), "bad");
        return;
      }
      close();
      aclTreeDialog(path, entries, () => void pane.load());
    }
    draw();
    fill(body, h("p", { class: "dim" }, t("acl.help")), list);
    fill(foot, button(t("action.cancel"), close), button(t("acl.tree"), writeTree, { class: "danger", id: "acl-tree" }), button(t("acl.write"), () => void write(), { class: "primary", id: "acl-write" }));
  }, "wide");
}
