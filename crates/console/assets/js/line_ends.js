// Line ends of texts. A text field of a browser has one kind only, so an edit must know which one the data had.
// @ts-check

/**
 * The line end of a text; null if the text mixes several, which a text field would not keep.
 * @param {string} text @returns {"\n" | "\r\n" | null}
 */
export function lineEndOf(text) {
  if (!text.includes("\r")) return "\n";
  return /\r(?!\n)|(^|[^\r])\n/.test(text) ? null : "\r\n";
}

/** The text as a text field has it. */
export function toField(/** @type {string} */ text) {
  return text.replace(/\r\n/g, "\n");
}

/** The text of a field with the line ends of the data. */
export function fromField(/** @type {string} */ text, /** @type {"\n" | "\r\n"} */ lineEnd) {
  return lineEnd === "\n" ? text : text.replace(/\n/g, lineEnd);
}
