// Small charts in SVG. Their numbers also stand beside them as text.
// @ts-check

import { s } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 44;
/** Points of the whole width. A young chart has fewer, and grows from the right. */
const POINTS_MAX = 120;
const POINTS_MIN = 30;

/** A line over an area. Missing values are gaps. */
export function sparkline(/** @type {(number | null)[]} */ all, /** @type {string} */ label) {
  const values = all.slice(-POINTS_MAX);
  const points = Math.max(values.length, POINTS_MIN);
  const max = Math.max(...values.map((value) => value ?? 0), 1e-9) * 1.15;
  const x = (/** @type {number} */ index) => WIDTH - ((values.length - 1 - index) * WIDTH) / (points - 1);
  const y = (/** @type {number} */ value) => HEIGHT - 2 - (value / max) * (HEIGHT - 6);
  let line = "";
  let area = "";
  let begun = -1;
  values.forEach((value, index) => {
    if (value === null) {
      begun = -1;
      return;
    }
    const point = `${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    line += begun < 0 ? `M${point}` : `L${point}`;
    if (begun < 0) {
      begun = index;
      area += `M${x(index).toFixed(1)} ${HEIGHT}L${point}`;
    } else area += `L${point}`;
    const isLast = index === values.length - 1 || values[index + 1] === null;
    if (isLast) area += `L${x(index).toFixed(1)} ${HEIGHT}Z`;
  });
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    s("path", { class: "area", d: area }),
    s("path", { class: "line", d: line }),
  );
}

/** A share of a whole as a bar. */
export function bar(/** @type {number} */ share, kind = "") {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return s(
    "svg",
    { class: `bar ${kind}`, viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 100, height: 6, rx: 1 }),
    s("rect", { class: "part", width: Math.max(width, share > 0 ? 1 : 0), height: 6, rx: 1 }),
  );
}
