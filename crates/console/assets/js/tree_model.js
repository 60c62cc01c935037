// The rows of a tree of which only parts are known: which nodes are open, and which children were loaded.
// @ts-check

import { readListing } from "./api.js";
import { join } from "./path.js";

export const PART = 200;

/** @typedef {{name: string, stat: any, lifetime?: string, gone?: boolean}} Item */

export class TreeNode {
  /** @param {string} path @param {TreeNode | null} parent @param {number} index */
  constructor(path, parent, index) {
    this.path = path;
    this.parent = parent;
    this.index = index;
    this.depth = parent ? parent.depth + 1 : 0;
    /** Known after the first part. */
    this.total = 0;
    this.changed = false;
    this.error = /** @type {Error | null} */ (null);
    /** @type {Map<number, Item[] | Promise<void>>} */
    this.parts = new Map();
    /** Open children by their index. @type {Map<number, TreeNode>} */
    this.open = new Map();
    /** Rows below this node. */
    this.rows = 0;
  }

  recount() {
    let rows = this.total;
    for (const child of this.open.values()) rows += child.rows;
    const change = rows - this.rows;
    this.rows = rows;
    if (change !== 0) this.parent?.recount();
  }

  /** @returns {Item | null} */
  item(/** @type {number} */ index) {
    const part = this.parts.get(Math.floor(index / PART));
    return Array.isArray(part) ? part[index % PART] ?? null : null;
  }
}

/** @typedef {{node: TreeNode | null, index: number, depth: number, opened: TreeNode | null}} Row */

export class TreeModel {
  /** @param {string} match @param {() => void} onchange */
  constructor(match, onchange) {
    this.match = match;
    this.onchange = onchange;
    this.root = new TreeNode("/", null, 0);
    this.ended = new AbortController();
  }

  /** All rows with the root's own. */
  get count() {
    return this.root.rows + 1;
  }

  /** What stands in a row. @returns {Row} */
  locate(/** @type {number} */ row) {
    if (row === 0) return { node: null, index: 0, depth: 0, opened: this.root };
    let rest = row - 1;
    let node = this.root;
    for (;;) {
      let before = 0;
      let inside = null;
      let skipped = 0;
      for (const index of [...node.open.keys()].sort((a, b) => a - b)) {
        const child = /** @type {TreeNode} */ (node.open.get(index));
        const at = index + skipped;
        if (at >= rest) break;
        if (rest <= at + child.rows) {
          inside = child;
          before = at + 1;
          break;
        }
        skipped += child.rows;
      }
      if (!inside) {
        const index = rest - skipped;
        return { node, index, depth: node.depth + 1, opened: node.open.get(index) ?? null };
      }
      rest -= before;
      node = inside;
    }
  }

  /** The row of a child. */
  rowOf(/** @type {TreeNode | null} */ node, /** @type {number} */ index) {
    if (!node) return 0;
    let row = index;
    for (const [other, child] of node.open) if (other < index) row += child.rows;
    return this.rowOf(node.parent, node.index) + 1 + row;
  }

  pathOf(/** @type {Row} */ row) {
    if (!row.node) return "/";
    const item = row.node.item(row.index);
    return item ? join(row.node.path, item.name) : null;
  }

  /** Loads a part unless it is known or on its way. */
  load(/** @type {TreeNode} */ node, /** @type {number} */ part, reload = false) {
    const known = node.parts.get(part);
    if (known && !reload) return known instanceof Promise ? known : Promise.resolve();
    const asked = readListing(node.path, { offset: part * PART, limit: PART, match: this.match || null, reload }, this.ended.signal)
      .then((answer) => this.take(node, answer))
      .catch((error) => {
        if (this.ended.signal.aborted) return;
        node.parts.delete(part);
        node.error = error;
        this.onchange();
      });
    node.parts.set(part, asked);
    return asked;
  }

  take(/** @type {TreeNode} */ node, /** @type {any} */ answer) {
    node.error = null;
    node.changed = answer.changed;
    if (node.total !== answer.total && node.total !== 0) {
      // Another list than that of the parts before.
      for (const [part, items] of node.parts) if (Array.isArray(items)) node.parts.delete(part);
    }
    node.total = answer.total;
    node.parts.set(Math.floor(answer.offset / PART), answer.items);
    node.recount();
    this.onchange();
  }

  /** Opens a child. */
  async expand(/** @type {TreeNode} */ node, /** @type {number} */ index) {
    const item = node.item(index);
    if (!item || node.open.has(index)) return node.open.get(index) ?? null;
    const child = new TreeNode(join(node.path, item.name), node, index);
    node.open.set(index, child);
    await this.load(child, 0);
    return child;
  }

  collapse(/** @type {TreeNode} */ node, /** @type {number} */ index) {
    if (!node.open.delete(index)) return;
    node.recount();
    this.onchange();
  }

  /** Opens all parents of a path. Returns its row, or null if it does not exist. */
  async reveal(/** @type {string} */ path) {
    await this.load(this.root, 0);
    if (path === "/") return 0;
    const names = path.slice(1).split("/");
    let node = this.root;
    for (let depth = 0; depth < names.length; depth += 1) {
      const index = await this.find(node, names[depth]);
      if (index === null) return null;
      if (depth === names.length - 1) return this.rowOf(node, index);
      const child = await this.expand(node, index);
      if (!child || child.error) return null;
      node = child;
    }
    return null;
  }

  /** The place of a child. */
  async find(/** @type {TreeNode} */ node, /** @type {string} */ name) {
    for (const [part, items] of node.parts) {
      if (!Array.isArray(items)) continue;
      const at = items.findIndex((item) => item.name === name && !item.gone);
      if (at >= 0) return part * PART + at;
    }
    try {
      const answer = await readListing(node.path, { find: name, limit: PART, match: this.match || null }, this.ended.signal);
      if (answer.found === null) return null;
      this.take(node, answer);
      return answer.found;
    } catch {
      return null;
    }
  }

  /** Reads everything that is open anew; open nodes stay open if they still exist. */
  async reload() {
    /** @type {string[]} */
    const open = [];
    const visit = (/** @type {TreeNode} */ node) => {
      for (const child of node.open.values()) {
        open.push(child.path);
        visit(child);
      }
    };
    visit(this.root);
    this.root = new TreeNode("/", null, 0);
    await this.load(this.root, 0, true);
    for (const path of open) {
      const row = await this.reveal(path);
      if (row === null) continue;
      const { node, index } = this.locate(row);
      if (node) await this.expand(node, index);
    }
    this.onchange();
  }

  destroy() {
    this.ended.abort();
  }
}
