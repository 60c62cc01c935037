// Makes elements. Text becomes text nodes only, so data never becomes markup.
// @ts-check

const SVG = "http://www.w3.org/2000/svg";

/** @param {Element} element @param {any[]} children */
function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** @param {Element} element @param {Record<string, any>} props */
function apply(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "css") {
      const style = /** @type {HTMLElement} */ (element).style;
      for (const [key, text] of Object.entries(value)) style.setProperty(key, String(text));
    } else if (name === "value" || name === "checked" || name === "disabled" || name === "selected" || name === "indeterminate") {
      /** @type {any} */ (element)[name] = value;
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** An HTML element. */
export function h(/** @type {string} */ tag, /** @type {Record<string, any> | null} */ props, /** @type {any[]} */ ...children) {
  const element = document.createElement(tag);
  if (props) apply(element, props);
  append(element, children);
  return element;
}

/** An SVG element. */
export function s(/** @type {string} */ tag, /** @type {Record<string, any> | null} */ props, /** @type {any[]} */ ...children) {
  const element = document.createElementNS(SVG, tag);
  if (props) apply(element, props);
  append(element, children);
  return element;
}

/** Replaces all children. */
export function fill(/** @type {Element} */ element, /** @type {any[]} */ ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

const ICONS = {
  overview: "M3 13h4l3-8 4 14 3-6h4",
  tree: "M5 4v13a2 2 0 0 0 2 2h4M5 9h6M13 7h6v4h-6zM13 16.500h6v4h-6z",
  search: "M10.500 4a6.500 6.500 0 1 1 0 13 6.500 6.500 0 0 1 0-13zM15.500 15.500 21 21",
  recipes: "M7 11V8a5 5 0 0 1 10 0v3M5 11h14v9H5z",
  sessions: "M8 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2 20c0-4 2.500-6 6-6s6 2 6 6M16 5a3 3 0 0 1 0 6M18 14.500c2.500.5 4 2.500 4 5.500",
  watches: "M2 12c3-5 6-7 10-7s7 2 10 7c-3 5-6 7-10 7s-7-2-10-7zM12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6z",
  top: "M4 20V10M10 20V4M16 20v-7M22 20H2",
  changes: "M4 6h10M4 12h16M4 18h7",
  ensemble: "M12 3a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM5 15a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM19 15a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM10.500 8.500l-4 7M13.500 8.500l4 7M8 18h8",
  lock: "M7 11V8a5 5 0 0 1 10 0v3M5 11h14v9H5z",
  unlock: "M7 11V8a5 5 0 0 1 9.500-2M5 11h14v9H5z",
  user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c0-5 3-7 8-7s8 2 8 7",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500 19 19M5 19l1.500-1.500M17.500 6.500 19 5",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z",
  system: "M3 5h18v11H3zM9 20h6M12 16v4",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  close: "M6 6l12 12M18 6 6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
};

/** An icon of 16 pixels. */
export function icon(/** @type {string} */ name) {
  const path = /** @type {Record<string, string>} */ (ICONS)[name];
  return s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: path }));
}
