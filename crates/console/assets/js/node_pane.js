// One node: its path, its data, its stat in words, its ACL, and what may be done with it.
// @ts-check

import { readNode, readStat, self } from "./api.js";
import { aclTab } from "./node_acl.js";
import { HistoryTab } from "./node_history.js";
import { DataTab } from "./node_data.js";
import { statTab } from "./node_stat.js";
import { errorBox } from "./dialog.js";
import { fill, h, icon } from "./dom.js";
import { bytes, number, t } from "./i18n.js";
import { copyButton, tag, when, zxidText, sessionLink } from "./links.js";
import { nameOf, prefixesOf, shown } from "./path.js";
import { address } from "./router.js";
import { isUnlocked, onLock, unlock } from "./write_lock.js";
import { createDialog } from "./node_create.js";
import { copyDialog, deleteDialog } from "./node_plans.js";

const TABS = ["data", "stat", "acl", "history"];
const LOOK_MS = 3000;

/** The tabs that the backend can fill. */
function tabs() {
  return TABS.filter((tab) => tab !== "history" || self.system.features.includes(/** @type {never} */ ("history")));
}

export class NodePane {
  /** @param {{onchange: (path: string, gone: boolean) => void}} options */
  constructor(options) {
    this.options = options;
    this.element = h("section", { class: "node", "aria-label": t("node.label"), tabindex: "-1" });
    this.path = "";
    this.tab = "data";
    /** @type {any} */
    this.node = null;
    this.loads = 0;
    this.data = new DataTab(this);
    this.history = new HistoryTab(this);
    this.changed = h("div", { class: "node-note" });
    this.endLock = onLock(() => this.draw());
    this.timer = setInterval(() => void this.look(), LOOK_MS);
  }

  show(/** @type {string} */ path, /** @type {URLSearchParams} */ params) {
    const tab = params.get("tab") ?? "data";
    this.tab = tabs().includes(tab) ? tab : "data";
    if (path === this.path && this.node) {
      this.draw();
      return;
    }
    this.path = path;
    this.node = null;
    this.data.leave();
    this.history.leave();
    void this.load();
  }

  async load() {
    this.loads += 1;
    const own = this.loads;
    const path = this.path;
    try {
      const node = await readNode(path);
      if (own !== this.loads) return;
      this.node = node;
      await this.data.take(node);
      if (own !== this.loads) return;
      fill(this.changed);
      this.draw();
    } catch (error) {
      if (own === this.loads) this.drawError(/** @type {any} */ (error));
    }
  }

  /** Notices changes by others. */
  async look() {
    if (document.hidden || !this.node) return;
    const { path, node } = this;
    try {
      const now = await readStat(path);
      if (path !== this.path || node !== this.node) return;
      const isSame = now.stat.mzxid === node.stat.mzxid && now.stat.pzxid === node.stat.pzxid && now.stat.aversion === node.stat.aversion;
      if (isSame) return;
      if (this.data.isEditing) fill(this.changed, h("div", { class: "banner warn" }, t("node.changedWhileEditing")));
      else await this.load();
    } catch (error) {
      if (path === this.path && /** @type {any} */ (error).code === "NONODE") fill(this.changed, h("div", { class: "banner bad" }, t("node.gone")));
    }
  }

  head() {
    const parts = prefixesOf(this.path);
    const crumbs = parts.map((path, index) => [
      index > 1 ? h("span", { class: "dim" }, "/") : null,
      index === parts.length - 1 ? h("b", { class: "mono" }, shown(nameOf(path))) : h("a", { class: "mono", href: address("tree", { path }) }, shown(nameOf(path))),
    ]);
    return h("div", { class: "node-head" }, h("h2", { class: "crumbs", "aria-label": shown(this.path) }, crumbs), copyButton(this.path, t("node.copyPath")));
  }

  drawError(/** @type {any} */ error) {
    const more = error.code === "NOAUTH" ? h("p", { class: "dim" }, self.user ? t("node.noAuthUser", { user: self.user }) : t("node.noAuthVisitor")) : null;
    const past = error.code === "NONODE" && tabs().includes("history") && self.user ? this.history.show(this.path) : null;
    fill(this.element, this.head(), errorBox(error), more, past);
  }

  draw() {
    if (!this.node) return;
    const { stat, lifetime } = this.node;
    const list = h(
      "div",
      { class: "tabs" },
      h("div", { class: "tab-list", role: "tablist", "aria-label": t("node.label") }, tabs().map((tab) => h("a", { role: "tab", id: `tab-${tab}`, href: address("tree", { path: this.path, tab }), "aria-selected": tab === this.tab ? "true" : "false" }, t(`node.${tab}`)))),
      h("a", { class: "tab-link", href: address("changes", { under: this.path }) }, t("nav.changes")),
      h("a", { class: "tab-link", href: address("search", { under: this.path }) }, t("nav.search")),
    );
    const line = h(
      "div",
      { class: "node-line" },
      lifetime !== "persistent" ? tag(t(`lifetime.${lifetime}`), lifetime) : null,
      h("span", null, bytes(stat.dataLength)),
      h("span", null, t("node.version", { version: String(stat.version) })),
      h("span", null, t("node.children", { n: stat.numChildren })),
      h("span", null, t("node.changedAt"), " ", when(stat.mtime)),
      h("span", null, "mzxid ", zxidText(stat.mzxid)),
      stat.ephemeralOwner !== "0x0" ? h("span", null, t("node.owner"), " ", sessionLink(stat.ephemeralOwner)) : null,
    );
    const place = h("div", { class: "tab-body", role: "tabpanel", "aria-labelledby": `tab-${this.tab}` });
    fill(this.element, this.head(), line, this.changed, list, place, this.actions());
    if (this.tab === "data") fill(place, this.data.element());
    else if (this.tab === "stat") void statTab(place, this.node);
    else if (this.tab === "history") fill(place, this.history.show(this.path));
    else void aclTab(place, this);
  }

  actions() {
    if (!self.mayWrite || this.data.isEditing) return null;
    if (!isUnlocked()) return h("div", { class: "actions" }, h("button", { type: "button", id: "node-unlock", onclick: () => void unlock() }, icon("lock"), t("lock.unlock")));
    const make = (/** @type {string} */ id, /** @type {string} */ text, /** @type {() => void} */ action, kind = "") => h("button", { type: "button", id, class: kind, onclick: action }, text);
    const isRoot = this.path === "/";
    return h(
      "div",
      { class: "actions" },
      make("node-edit", t("action.edit"), () => this.edit()),
      this.node.lifetime === "ephemeral" ? null : make("node-new", t("action.newChild"), () => this.create()),
      make("node-copy", t("action.copyTo"), () => copyDialog(this.path, this.options.onchange)),
      isRoot ? null : make("node-delete", t("action.delete"), () => this.remove(), "danger"),
    );
  }

  edit() {
    this.tab = "data";
    this.data.edit();
    this.draw();
    this.data.focus();
  }

  create() {
    createDialog(this.path, (path) => this.options.onchange(path, false));
  }

  remove() {
    deleteDialog(this.path, number(this.node.stat.numChildren), this.options.onchange);
  }

  /** A single key. */
  key(/** @type {KeyboardEvent} */ event) {
    if (!this.node || !isUnlocked() || this.data.isEditing) return;
    if (event.key === "e") this.edit();
    else if (event.key === "n" && this.node.lifetime !== "ephemeral") this.create();
    else if (event.key === "Delete" && this.path !== "/") this.remove();
    else return;
    event.preventDefault();
  }

  focus() {
    this.element.focus();
  }

  destroy() {
    this.endLock();
    clearInterval(this.timer);
    this.data.leave();
    this.history.leave();
  }
}
