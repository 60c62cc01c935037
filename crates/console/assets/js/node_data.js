// The data of a node: shown by a guess or as the reader chooses, and edited with a difference before each write.
// @ts-check

import { ApiError, encodePath, writeData } from "./api.js";
import { fromBase64, fromHex, fromText, hexDump, toBase64, toHex } from "./bytes.js";
import { diffView } from "./diff.js";
import { button, notify, notifyError, openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { guess, layOutJson } from "./guess.js";
import { bytes as byteText, t } from "./i18n.js";
import { fromField, lineEndOf, toField } from "./line_ends.js";
import { shown } from "./path.js";
import { prefs } from "./prefs.js";

/** Longer data is shown in part until the reader asks for all of it. */
const SHOWN_MAX = 64 << 10;
/** Names and numbers are coloured up to this many parts. */
const TOKENS_MAX = 8000;

export class DataTab {
  constructor(/** @type {any} */ pane) {
    this.pane = pane;
    /** @type {any} */
    this.guess = null;
    this.bytes = new Uint8Array();
    this.isWhole = false;
    this.isEditing = false;
    /** Whether line ends are mixed. */
    this.isMixed = false;
    this.field = /** @type {HTMLTextAreaElement | null} */ (null);
    /** @type {{path: string, tag: string, text: string, bytes: Uint8Array, isHex: boolean, lineEnd: "\n" | "\r\n"}} */
    this.before = { path: "", tag: "", text: "", bytes: this.bytes, isHex: false, lineEnd: "\n" };
  }

  leave() {
    this.isEditing = false;
    this.field = null;
    this.isWhole = false;
  }

  async take(/** @type {any} */ node) {
    this.isNull = node.base64 === null;
    this.bytes = fromBase64(node.base64);
    this.guess = await guess(this.bytes);
  }

  /** The viewer that was chosen for this node's name pattern, or the guess. */
  viewer() {
    const chosen = prefs.get("viewer") ?? "auto";
    if (chosen !== "auto" && !(this.guess.text === null && (chosen === "text" || chosen === "json"))) return chosen;
    if (this.guess.text === null) return "hex";
    return this.guess.format === "json" ? "json" : "text";
  }

  element() {
    if (this.isEditing) return this.editor();
    const { guess: found } = this;
    if (found.format === "empty" && !found.packing) return h("div", { class: "empty" }, h("p", null, this.isNull ? t("data.null") : t("data.empty")));
    const names = ["auto", ...(found.text === null ? [] : found.format === "json" ? ["json", "text"] : ["text"]), "hex", "base64"];
    const chosen = prefs.get("viewer") ?? "auto";
    const select = /** @type {HTMLSelectElement} */ (
      h("select", { id: "viewer", "aria-label": t("data.viewer"), onchange: () => { prefs.set("viewer", select.value); this.pane.draw(); } },
        names.map((name) => h("option", { value: name, selected: name === chosen }, t(`viewer.${name}`))))
    );
    const why = [found.packing ? t("data.packed", { name: found.packing }) : null, t(`format.${found.format}`), found.note ? shown(found.note) : null].filter(Boolean).join(" · ");
    const source = found.packing && this.viewer() !== "base64" ? found.bytes : this.bytes;
    const isCut = source.length > SHOWN_MAX && !this.isWhole;
    const part = isCut ? source.subarray(0, SHOWN_MAX) : source;
    return [
      h("div", { class: "data-tools" }, select, h("span", { class: "dim" }, why), h("a", { class: "download", href: this.downloadUrl(), download: "" }, t("action.download"))),
      this.body(part, isCut),
      isCut ? h("div", { class: "banner" }, t("data.part", { shown: byteText(SHOWN_MAX), all: byteText(source.length) }), " ", button(t("data.whole"), () => { this.isWhole = true; this.pane.draw(); }, { class: "quiet" })) : null,
    ];
  }

  downloadUrl() {
    return `api/v1/tree${encodePath(this.pane.path)}`;
  }

  body(/** @type {Uint8Array} */ part, /** @type {boolean} */ isCut) {
    const viewer = this.viewer();
    if (viewer === "hex") return h("pre", { class: "data mono", tabindex: "0" }, hexDump(part));
    if (viewer === "base64") return h("pre", { class: "data mono wrap", tabindex: "0" }, toBase64(part));
    const text = isCut ? new TextDecoder().decode(part) : this.guess.text;
    if (viewer === "json" && this.guess.format === "json" && !isCut) return h("pre", { class: "data mono", tabindex: "0" }, coloured(layOutJson(text)));
    return h("pre", { class: "data mono wrap", tabindex: "0" }, visible(text));
  }

  edit() {
    const isText = this.guess.text !== null && this.guess.packing === null;
    const lineEnd = isText ? lineEndOf(this.guess.text) : null;
    const isHex = lineEnd === null;
    const text = isHex ? toHex(this.bytes) : toField(this.guess.text);
    this.isMixed = isText && isHex;
    this.before = { path: this.pane.path, tag: this.pane.node.tag, text, bytes: this.bytes, isHex, lineEnd: lineEnd ?? "\n" };
    this.isEditing = true;
    this.field = /** @type {HTMLTextAreaElement} */ (
      h("textarea", { class: "mono editor", id: "editor", spellcheck: "false", "aria-label": t("node.data"), value: text, rows: Math.min(30, Math.max(10, text.split("\n").length + 1)) })
    );
    this.field.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
        event.preventDefault();
        this.review();
      }
    });
  }

  focus() {
    this.field?.focus();
  }

  editor() {
    const isJson = !this.before.isHex && this.guess.format === "json";
    const { isHex, lineEnd } = this.before;
    return [
      h("p", { class: "dim" }, isHex ? t(this.isMixed ? "edit.mixed" : "edit.hex") : [t("edit.text"), lineEnd === "\n" ? "" : ` ${t("edit.crlf")}`]),
      this.field,
      h("div", { class: "actions" },
        h("button", { type: "button", class: "primary", id: "edit-review", onclick: () => this.review() }, t("edit.review")),
        isJson ? button(t("edit.format"), () => { if (this.field) this.field.value = layOutJson(this.field.value); }) : null,
        button(t("action.cancel"), () => { this.leave(); this.pane.draw(); })),
    ];
  }

  /** The bytes of the field; null with a message if they cannot be read. */
  edited() {
    const text = this.field?.value ?? "";
    const bytes = this.before.isHex ? fromHex(text) : fromText(fromField(text, this.before.lineEnd));
    if (bytes === null) notify(t("edit.notHex"), "bad");
    return bytes;
  }

  /** Shows the difference before the write. */
  review() {
    const bytes = this.edited();
    if (bytes === null) return;
    const now = this.field?.value ?? "";
    if (toBase64(bytes) === toBase64(this.before.bytes)) {
      notify(t("edit.same"));
      return;
    }
    let warning = null;
    if (!this.before.isHex && this.guess.format === "json") {
      try {
        JSON.parse(now);
      } catch (error) {
        warning = h("p", { class: "bad" }, t("edit.notJson", { why: /** @type {Error} */ (error).message }));
      }
    }
    openDialog(t("edit.title", { path: shown(this.pane.path) }), (body, foot, close) => {
      fill(body, warning, diffView(this.before.text, now), h("p", { class: "dim" }, t("edit.condition", { version: String(this.pane.node.stat.version) })));
      fill(foot, button(t("action.cancel"), close), button(t("edit.write"), () => { close(); void this.write(bytes); }, { class: "primary", id: "edit-write" }));
    }, "wide");
  }

  async write(/** @type {Uint8Array} */ bytes) {
    try {
      await writeData(this.before.path, toBase64(bytes), this.before.tag);
      notify(t("edit.done"));
      this.leave();
      await this.pane.load();
    } catch (error) {
      if (error instanceof ApiError && error.code === "BADVERSION") await this.conflict();
      else notifyError(error);
    }
  }

  /** Another client wrote first: both versions side by side, and the choice. */
  async conflict() {
    const mine = this.field?.value ?? "";
    await this.pane.load();
    const end = this.before.isHex || this.guess.text === null ? null : lineEndOf(this.guess.text);
    // Other line ends than mine are part of the difference, so they stay visible.
    const text = end === this.before.lineEnd ? toField(this.guess.text) : this.guess.text;
    const theirs = this.before.isHex || text === null ? toHex(this.bytes) : text;
    openDialog(t("conflict.title"), (body, foot, close) => {
      fill(body, h("p", null, t("conflict.explain", { version: String(this.pane.node.stat.version) })), h("h3", null, t("conflict.theirs")), diffView(this.before.text, theirs), h("h3", null, t("conflict.mine")), diffView(this.before.text, mine));
      const keep = () => {
        this.before = { ...this.before, tag: this.pane.node.tag, text: theirs, bytes: this.bytes };
        close();
        this.pane.draw();
        this.focus();
      };
      const take = () => {
        close();
        this.leave();
        this.pane.draw();
      };
      fill(foot, button(t("conflict.take"), take), button(t("conflict.keep"), keep, { class: "primary" }));
    }, "wide");
  }
}

/** Text whose hidden characters are seen. */
function visible(/** @type {string} */ text) {
  return text.split("\n").map(shown).join("\n").replace(/\\u0009/g, "\t").replace(/\\u000d/g, "\r");
}

/** JSON with its parts in colours. */
function coloured(/** @type {string} */ text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"(?=:)|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[^"\d]+?(?=["\d-]|true|false|null|$)|./gs) ?? [];
  if (tokens.length > TOKENS_MAX) return visible(text);
  const kind = (/** @type {string} */ token, /** @type {string | undefined} */ next) => {
    if (token[0] === '"') return next?.startsWith(":") ? "k" : "s";
    if (/^-?\d/.test(token)) return "n";
    return /^(true|false|null)$/.test(token) ? "c" : "";
  };
  return tokens.map((token, index) => {
    const name = kind(token, tokens[index + 1]);
    return name ? h("span", { class: `j-${name}` }, visible(token)) : visible(token);
  });
}
