// Paths of nodes: parts, and a form for readers without characters that hide or turn text.
// @ts-check

/** The path of a child. */
export function join(/** @type {string} */ parent, /** @type {string} */ name) {
  return parent === "/" ? `/${name}` : `${parent}/${name}`;
}

export function parentOf(/** @type {string} */ path) {
  const end = path.lastIndexOf("/");
  return end <= 0 ? "/" : path.slice(0, end);
}

export function nameOf(/** @type {string} */ path) {
  return path === "/" ? "/" : path.slice(path.lastIndexOf("/") + 1);
}

/** All prefixes of a path, the root first. */
export function prefixesOf(/** @type {string} */ path) {
  const parts = path.split("/").filter(Boolean);
  return ["/", ...parts.map((_, index) => `/${parts.slice(0, index + 1).join("/")}`)];
}

/** Why a text is no path; null if it is one. */
export function pathProblem(/** @type {string} */ path) {
  if (!path.startsWith("/")) return "path.slash";
  if (path !== "/" && path.endsWith("/")) return "path.end";
  if (path.includes("//")) return "path.empty";
  if (/(^|\/)\.{1,2}(\/|$)/.test(path)) return "path.dots";
  if (/[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/.test(path)) return "path.characters";
  return null;
}

// Controls, marks that turn the direction, and characters without a width.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A name as readers see it. */
export function shown(/** @type {string} */ text) {
  return text.replace(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A zxid as epoch and counter. */
export function zxid(/** @type {string | null | undefined} */ text) {
  if (!text || text === "0x0") return "0";
  try {
    const value = BigInt(text);
    return `${value >> 32n}.0x${(value & 0xffffffffn).toString(16)}`;
  } catch {
    return text;
  }
}
