// The tree at the left, one node at the right. The address names the node, its tab and its viewer.
// @ts-check

import { h, fill, icon } from "../dom.js";
import { compact, number, t } from "../i18n.js";
import { VirtualList } from "../list.js";
import { NodePane } from "../node_pane.js";
import { nameOf, parentOf, shown } from "../path.js";
import { address, go } from "../router.js";
import { PART, TreeModel } from "../tree_model.js";

const ROW_HEIGHT = 26;
const INDENT = 14;

class TreePage {
  constructor(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
    this.model = new TreeModel("", () => this.changed());
    this.list = new VirtualList({
      rowHeight: ROW_HEIGHT,
      label: t("nav.tree"),
      role: "tree",
      row: (index) => this.row(index),
    });
    this.selected = "";
    this.note = h("div", { class: "tree-note", role: "status" });
    this.pane = new NodePane({ onchange: (path, gone) => this.nodeChanged(path, gone) });
    const left = h(
      "section",
      { class: "tree-side" },
      h("div", { class: "tree-tools" }, h("h1", null, t("nav.tree")), h("button", { type: "button", class: "quiet small", onclick: () => void this.model.reload() }, t("action.reload"))),
      this.list.element,
      this.note,
    );
    fill(root, left, this.pane.element);
    this.list.element.addEventListener("keydown", (event) => void this.key(event));
    this.list.element.addEventListener("click", (event) => void this.click(event));
    this.onkey = (/** @type {any} */ event) => this.pane.key(event.detail);
    document.addEventListener("zebu-key", this.onkey);
    void this.update(params);
  }

  changed() {
    this.list.setCount(this.model.count);
    const changed = this.model.root.changed || [...this.model.root.open.values()].some((node) => node.changed);
    const row = this.model.locate(this.list.active);
    const at = row.opened ?? row.node;
    const text = at && at.total > PART ? t("tree.many", { path: shown(at.path), n: at.total }) : "";
    fill(this.note, changed ? h("button", { type: "button", class: "quiet small warn", onclick: () => void this.model.reload() }, t("tree.changed")) : null, text);
  }

  /** @param {URLSearchParams} params */
  async update(params) {
    const path = params.get("path") || "/";
    this.pane.show(path, params);
    if (path === this.selected) return;
    this.selected = path;
    const row = await this.model.reveal(path);
    if (path !== this.selected) return;
    if (row !== null) {
      this.list.active = row;
      this.list.setCount(this.model.count);
      this.list.reveal(row);
    }
    if (path === "/" && this.model.root.total > 0) this.list.refresh();
  }

  row(/** @type {number} */ index) {
    const row = this.model.locate(index);
    const isActive = index === this.list.active;
    const item = row.node ? row.node.item(row.index) : null;
    const props = {
      class: `trow${isActive ? " active" : ""}`,
      role: "treeitem",
      id: `row-${index}`,
      "aria-level": row.depth + 1,
      "aria-selected": isActive ? "true" : "false",
      css: { "padding-left": `${row.depth * INDENT + 6}px` },
    };
    if (isActive) this.list.element.setAttribute("aria-activedescendant", props.id);
    if (!row.node) return h("div", { ...props, "aria-expanded": "true" }, h("span", { class: "twist open" }), h("span", { class: "mono" }, "/"));
    if (!item) {
      void this.model.load(row.node, Math.floor(row.index / PART));
      return h("div", { ...props, class: `${props.class} waits` }, h("span", { class: "twist" }), h("span", { class: "ghost" }));
    }
    const children = item.stat?.numChildren ?? 0;
    return h(
      "div",
      { ...props, "aria-setsize": row.node.total, "aria-posinset": row.index + 1, "aria-expanded": children > 0 ? String(Boolean(row.opened)) : null },
      h("span", { class: `twist${children > 0 ? (row.opened ? " open" : " closed") : ""}` }),
      h("span", { class: `mono name${item.gone ? " gone" : ""}`, title: shown(item.name) }, shown(item.name)),
      item.stat === null ? icon("lock") : null,
      item.lifetime && item.lifetime !== "persistent" ? h("span", { class: `mark ${item.lifetime}`, title: t(`lifetime.${item.lifetime}`) }, t(`mark.${item.lifetime}`)) : null,
      row.opened?.error ? h("span", { class: "bad" }, "!") : null,
      children > 0 ? h("span", { class: "count", title: number(children) }, compact(children)) : null,
    );
  }

  select(/** @type {number} */ index) {
    this.list.active = Math.max(0, Math.min(index, this.list.count - 1));
    this.list.reveal(this.list.active);
    const path = this.model.pathOf(this.model.locate(this.list.active));
    if (path === null || path === this.selected) return;
    this.selected = path;
    const now = new URLSearchParams(location.search);
    go(address("tree", { path, tab: now.get("tab") }), true);
  }

  async toggle(/** @type {number} */ index, /** @type {boolean | null} */ wanted = null) {
    const row = this.model.locate(index);
    if (!row.node) return;
    const isOpen = Boolean(row.opened);
    if (wanted === isOpen) return;
    if (isOpen) this.model.collapse(row.node, row.index);
    else if ((row.node.item(row.index)?.stat?.numChildren ?? 0) > 0) await this.model.expand(row.node, row.index);
    this.list.setCount(this.model.count);
  }

  async click(/** @type {MouseEvent} */ event) {
    const element = event.target instanceof Element ? event.target.closest(".trow") : null;
    if (!(element instanceof HTMLElement)) return;
    const index = Number(element.dataset.index);
    const onTwist = /** @type {Element} */ (event.target).classList.contains("twist");
    if (onTwist || event.detail === 2) await this.toggle(index);
    if (!onTwist) this.select(index);
  }

  async key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.list.view / ROW_HEIGHT) - 1);
    const at = this.list.active;
    const row = this.model.locate(at);
    switch (event.key) {
      case "ArrowDown": this.select(at + 1); break;
      case "ArrowUp": this.select(at - 1); break;
      case "PageDown": this.select(at + page); break;
      case "PageUp": this.select(at - page); break;
      case "Home": this.select(0); break;
      case "End": this.select(this.list.count - 1); break;
      case "ArrowRight":
        if (row.opened) this.select(at + 1);
        else await this.toggle(at, true);
        break;
      case "ArrowLeft":
        if (row.opened && row.node) await this.toggle(at, false);
        else if (row.node) this.select(this.model.rowOf(row.node.parent, row.node.index));
        break;
      case "Enter": this.pane.focus(); break;
      default: return;
    }
    event.preventDefault();
  }

  /** A write of this page, or a change that it noticed. */
  async nodeChanged(/** @type {string} */ path, /** @type {boolean} */ gone) {
    await this.model.reload();
    const shownPath = gone ? parentOf(path) : path;
    this.selected = "";
    go(address("tree", { path: shownPath }), gone || nameOf(path) === nameOf(this.pane.path));
  }

  destroy() {
    document.removeEventListener("zebu-key", this.onkey);
    this.pane.destroy();
    this.list.destroy();
    this.model.destroy();
  }
}

export function mount(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
  const page = new TreePage(root, params);
  return { update: (/** @type {URLSearchParams} */ next) => void page.update(next), destroy: () => page.destroy() };
}
