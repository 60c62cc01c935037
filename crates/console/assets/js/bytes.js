// Bytes, base64 and text. Bytes that are no UTF-8 never pass through a text field.
// @ts-check

/** @param {string | null} text */
export function fromBase64(text) {
  const binary = atob(text ?? "");
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

const PIECE = 0x8000;

export function toBase64(/** @type {Uint8Array} */ bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += PIECE) binary += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(binary);
}

/** The text, or null if the bytes are none. */
export function toText(/** @type {Uint8Array} */ bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

export function fromText(/** @type {string} */ text) {
  return new TextEncoder().encode(text);
}

/** Offsets, hexadecimal digits and ASCII. */
export function hexDump(/** @type {Uint8Array} */ bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = bytes.subarray(at, at + 16);
    const digits = [...row].map((byte) => byte.toString(16).padStart(2, "0"));
    const left = digits.slice(0, 8).join(" ").padEnd(23);
    const right = digits.slice(8).join(" ").padEnd(23);
    const ascii = [...row].map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${ascii}`);
  }
  return lines.join("\n");
}

/** The bytes of hexadecimal digits; null if the text is something else. */
export function fromHex(/** @type {string} */ text) {
  const digits = text.replace(/\s+/g, "");
  if (digits.length % 2 !== 0 || /[^0-9a-f]/i.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function toHex(/** @type {Uint8Array} */ bytes) {
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0"));
  const lines = [];
  for (let at = 0; at < digits.length; at += 16) lines.push(digits.slice(at, at + 16).join(" "));
  return lines.join("\n");
}

/** Unpacks gzip or zlib; null if the bytes are neither, or more than `max` come out. */
export async function unpack(/** @type {Uint8Array} */ bytes, /** @type {number} */ max) {
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const isZlib = bytes.length > 2 && (bytes[0] & 0x0f) === 8 && ((bytes[0] << 8) | bytes[1]) % 31 === 0;
  if (!isGzip && !isZlib) return null;
  try {
    const unpacked = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(new DecompressionStream(isGzip ? "gzip" : "deflate"));
    const reader = unpacked.getReader();
    const parts = [];
    let length = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      length += value.length;
      if (length > max) {
        await reader.cancel();
        return null;
      }
    }
    const whole = new Uint8Array(length);
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return { bytes: whole, name: isGzip ? "gzip" : "zlib" };
  } catch {
    return null;
  }
}
