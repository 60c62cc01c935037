// The difference of two texts by lines.
// @ts-check

import { h } from "./dom.js";
import { shown } from "./path.js";

const LINES_MAX = 2000;
const CONTEXT = 3;

/** @typedef {{kind: " " | "+" | "-", text: string}} DiffLine */

/** @param {string} before @param {string} after @returns {DiffLine[]} */
export function diffLines(before, after) {
  const [left, right] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) head += 1;
  let tail = 0;
  while (tail < left.length - head && tail < right.length - head && left[left.length - 1 - tail] === right[right.length - 1 - tail]) tail += 1;
  /** @type {DiffLine[]} */
  const lines = left.slice(0, head).map((text) => ({ kind: " ", text }));
  lines.push(...diffMiddle(left.slice(head, left.length - tail), right.slice(head, right.length - tail)));
  if (tail > 0) lines.push(.../** @type {DiffLine[]} */ (left.slice(left.length - tail).map((text) => ({ kind: " ", text }))));
  return lines;
}

/** The longest common subsequence, for texts of bounded length. @returns {DiffLine[]} */
function diffMiddle(/** @type {string[]} */ left, /** @type {string[]} */ right) {
  const whole = () => [...left.map((text) => ({ kind: /** @type {"-"} */ ("-"), text })), ...right.map((text) => ({ kind: /** @type {"+"} */ ("+"), text }))];
  if (left.length === 0 || right.length === 0 || left.length > LINES_MAX || right.length > LINES_MAX) return whole();
  const width = right.length + 1;
  const lengths = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = left[i] === right[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) {
      lines.push({ kind: " ", text: left[i] });
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
      lines.push({ kind: "-", text: left[i] });
      i += 1;
    } else {
      lines.push({ kind: "+", text: right[j] });
      j += 1;
    }
  }
  lines.push(.../** @type {DiffLine[]} */ (left.slice(i).map((text) => ({ kind: "-", text }))));
  lines.push(.../** @type {DiffLine[]} */ (right.slice(j).map((text) => ({ kind: "+", text }))));
  return lines;
}

/** The changed lines with some around them. */
export function diffView(/** @type {string} */ before, /** @type {string} */ after) {
  const lines = diffLines(before, after);
  const isNear = lines.map((_, index) => lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some((line) => line.kind !== " "));
  const rows = [];
  let skips = false;
  lines.forEach((line, index) => {
    if (!isNear[index]) {
      skips = true;
      return;
    }
    if (skips && rows.length > 0) rows.push(h("div", { class: "diff-skip" }, "⋯"));
    skips = false;
    const kind = line.kind === "+" ? "plus" : line.kind === "-" ? "minus" : "";
    rows.push(h("div", { class: `diff-line ${kind}` }, h("span", { class: "sign", "aria-hidden": "true" }, line.kind), kind ? h("span", { class: "sr" }, line.kind) : null, shown(line.text).replace(/\\u0009/g, "\t")));
  });
  return h("div", { class: "diff mono" }, rows);
}
