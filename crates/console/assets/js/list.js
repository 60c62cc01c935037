// A virtual list: a million rows cost as much as sixty. The list has the focus, rows are named by index.
// @ts-check

import { h } from "./dom.js";

/** Browsers end elements at about 17 million pixels; longer lists are scaled. */
const HEIGHT_MAX = 8_000_000;
const OVERSCAN = 6;

export class VirtualList {
  /**
   * @param {{rowHeight: number, row: (index: number) => HTMLElement, role?: string, label: string, onseen?: (from: number, to: number) => void}} options
   */
  constructor(options) {
    this.options = options;
    this.count = 0;
    this.active = 0;
    /** Pixels above the view, unscaled. */
    this.offset = 0;
    this.lastScroll = 0;
    this.frame = 0;
    this.rows = h("div", { class: "vrows", role: "presentation" });
    this.space = h("div", { class: "vspace", role: "presentation" }, this.rows);
    this.element = h("div", { class: "vlist", tabindex: "0", role: options.role ?? "listbox", "aria-label": options.label }, this.space);
    this.element.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.observer = new ResizeObserver(() => this.refresh());
    this.observer.observe(this.element);
  }

  get total() {
    return this.count * this.options.rowHeight;
  }

  get height() {
    return Math.min(this.total, HEIGHT_MAX);
  }

  get view() {
    return this.element.clientHeight;
  }

  /** The ratio of the unscaled way to the scrolled one. */
  get scale() {
    const way = this.height - this.view;
    return way > 0 ? (this.total - this.view) / way : 1;
  }

  onScroll() {
    const top = this.element.scrollTop;
    const delta = top - this.lastScroll;
    this.lastScroll = top;
    const end = Math.max(this.total - this.view, 0);
    const isJump = Math.abs(delta) > this.view * 2 || top <= 0 || top >= this.height - this.view - 1;
    // A wheel moves by pixels, also in a scaled list; the thumb moves by shares.
    this.offset = isJump ? top * this.scale : Math.max(0, Math.min(end, this.offset + delta));
    this.refresh();
  }

  setCount(/** @type {number} */ count) {
    this.count = count;
    this.active = Math.max(0, Math.min(this.active, count - 1));
    this.offset = Math.max(0, Math.min(this.offset, this.total - this.view));
    this.refresh();
  }

  /** Draws soon. */
  refresh() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const { rowHeight, row, onseen } = this.options;
    this.space.style.height = `${this.height}px`;
    const from = Math.max(0, Math.floor(this.offset / rowHeight) - OVERSCAN);
    const to = Math.min(this.count, Math.ceil((this.offset + this.view) / rowHeight) + OVERSCAN);
    const elements = [];
    for (let index = from; index < to; index += 1) {
      const element = row(index);
      element.style.height = `${rowHeight}px`;
      element.dataset.index = String(index);
      elements.push(element);
    }
    this.rows.replaceChildren(...elements);
    this.rows.style.transform = `translateY(${this.element.scrollTop - (this.offset - from * rowHeight)}px)`;
    onseen?.(from, to);
  }

  /** Brings a row into view. */
  reveal(/** @type {number} */ index) {
    const { rowHeight } = this.options;
    const [top, bottom] = [index * rowHeight, (index + 1) * rowHeight];
    if (top < this.offset) this.offset = top;
    else if (bottom > this.offset + this.view) this.offset = bottom - this.view;
    else {
      this.refresh();
      return;
    }
    this.offset = Math.max(0, this.offset);
    this.space.style.height = `${this.height}px`;
    this.lastScroll = this.offset / this.scale;
    this.element.scrollTop = this.lastScroll;
    this.lastScroll = this.element.scrollTop;
    this.refresh();
  }

  destroy() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
