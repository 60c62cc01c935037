// Guesses what the bytes of a node are, and says why. The reader may choose otherwise.
// @ts-check

import { toText, unpack } from "./bytes.js";

const UNPACKED_MAX = 8 << 20;
/** Deeper parts are not indented further: the blanks of hostile data would fill the memory. */
const INDENT_MAX = 40;

/** @typedef {{format: string, text: string | null, bytes: Uint8Array, packing: string | null, note: string | null}} Guess */

/** @param {Uint8Array} bytes @returns {Promise<Guess>} */
export async function guess(bytes) {
  const packed = await unpack(bytes, UNPACKED_MAX);
  if (packed) return { ...guessPlain(packed.bytes), packing: packed.name };
  return guessPlain(bytes);
}

/** @param {Uint8Array} bytes @returns {Guess} */
function guessPlain(bytes) {
  const base = { bytes, packing: null, note: null };
  if (bytes.length === 0) return { ...base, format: "empty", text: "" };
  if (bytes[0] === 0xac && bytes[1] === 0xed && bytes[2] === 0 && bytes[3] === 5) return { ...base, format: "java", text: null, note: javaNames(bytes) };
  if (startsWith(bytes, "PBUF")) return { ...base, format: "hbase", text: null };
  const text = toText(bytes);
  if (text === null || /[\u0000-\u0008\u000e-\u001a]/.test(text.slice(0, 4096))) {
    return { ...base, format: "binary", text: null, note: numberNote(bytes) };
  }
  const trimmed = text.trim();
  if (/^[[{"]/.test(trimmed) && isJson(trimmed)) return { ...base, format: "json", text };
  if (/^-?\d+$/.test(trimmed)) return { ...base, format: "number", text, note: epochNote(trimmed) };
  if (/^<(\?xml|[A-Za-z_][\w:.-]*[\s/>])/.test(trimmed) && trimmed.endsWith(">")) return { ...base, format: "xml", text };
  const lines = trimmed.split(/\r?\n/).filter((line) => line && !line.startsWith("#"));
  if (lines.length > 0 && lines.every((line) => /^[\w.\-/]+\s*=/.test(line))) return { ...base, format: "properties", text };
  if (lines.length > 1 && lines.every((line) => /^\s*(-\s|[\w."'-]+:(\s|$))/.test(line))) return { ...base, format: "yaml", text };
  return { ...base, format: "text", text };
}

function startsWith(/** @type {Uint8Array} */ bytes, /** @type {string} */ text) {
  return [...text].every((character, index) => bytes[index] === character.charCodeAt(0));
}

function isJson(/** @type {string} */ text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Four or eight bytes may be a number. */
function numberNote(/** @type {Uint8Array} */ bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length === 4) return String(view.getInt32(0));
  if (bytes.length === 8) return String(view.getBigInt64(0));
  return null;
}

/** A number of milliseconds of our time. */
function epochNote(/** @type {string} */ text) {
  const value = Number(text);
  return value > 1e12 && value < 4e12 ? new Date(value).toISOString() : null;
}

/** The names of classes in Java's serialization. They are only shown: nothing is built of them. */
function javaNames(/** @type {Uint8Array} */ bytes) {
  const names = [];
  for (let at = 4; at + 3 < bytes.length && names.length < 5; at += 1) {
    if (bytes[at] !== 0x72) continue;
    const length = (bytes[at + 1] << 8) | bytes[at + 2];
    const name = toText(bytes.subarray(at + 3, at + 3 + length));
    if (name && length > 2 && /^[\w.$[;/]+$/.test(name)) names.push(name);
  }
  return names.join(", ") || null;
}

/** Lays out JSON without touching its numbers and texts. */
export function layOutJson(/** @type {string} */ text) {
  const out = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, INDENT_MAX))}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  tokens.forEach((token, index) => {
    const next = tokens[index + 1];
    if (token === "{" || token === "[") {
      out.push(token);
      if (next !== "}" && next !== "]") {
        depth += 1;
        out.push(line());
      }
    } else if (token === "}" || token === "]") {
      const before = tokens[index - 1];
      if (before !== "{" && before !== "[") {
        depth -= 1;
        out.push(line());
      }
      out.push(token);
    } else if (token === ",") out.push(token, line());
    else if (token === ":") out.push(": ");
    else out.push(token);
  });
  return out.join("");
}
