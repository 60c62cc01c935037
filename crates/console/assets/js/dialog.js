// Dialogs and short messages. A dialog gives the focus back to where it was, and belongs to one address: it closes
// when the reader goes back or forward, because its deed was meant for the page that was there.
// @ts-check

import { fill, h, icon } from "./dom.js";
import { t } from "./i18n.js";

/**
 * Opens a dialog. `build` gets its body, its row of buttons and a way to close it.
 * @param {string} title
 * @param {(body: HTMLElement, foot: HTMLElement, close: () => void, signal: AbortSignal) => void} build
 * @param {string} size
 */
export function openDialog(title, build, size = "") {
  const ended = new AbortController();
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const body = h("div", { class: "dialog-body" });
  const foot = h("div", { class: "dialog-foot" });
  const dialog = /** @type {HTMLDialogElement} */ (
    h(
      "dialog",
      { class: size, "aria-label": title },
      h(
        "header",
        null,
        h("h2", null, title),
        h("button", { class: "quiet", type: "button", "aria-label": t("action.close"), onclick: () => close() }, icon("close")),
      ),
      body,
      foot,
    )
  );
  function close() {
    if (ended.signal.aborted) return;
    ended.abort();
    dialog.close();
    dialog.remove();
    if (before?.isConnected) before.focus();
  }
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  addEventListener("popstate", close, { signal: ended.signal });
  document.body.append(dialog);
  build(body, foot, close, ended.signal);
  dialog.showModal();
  return close;
}

/** A button. */
export function button(/** @type {string} */ text, /** @type {(event: Event) => void} */ action, /** @type {Record<string, any>} */ props = {}) {
  return h("button", { type: "button", ...props, onclick: action }, text);
}

/** Asks before something happens. */
export function confirm(/** @type {string} */ title, /** @type {any} */ content, /** @type {string} */ deed, kind = "danger") {
  return new Promise((resolve) => {
    openDialog(title, (body, foot, close, signal) => {
      fill(body, content);
      signal.addEventListener("abort", () => resolve(false));
      fill(
        foot,
        button(t("action.cancel"), close),
        button(deed, () => {
          resolve(true);
          close();
        }, { class: kind }),
      );
    });
  });
}

/** The field in which the word of a deed is typed. */
export function typedField(/** @type {string} */ word, /** @type {HTMLButtonElement} */ run) {
  const field = /** @type {HTMLInputElement} */ (h("input", { id: "operate-typed", class: "mono", autocomplete: "off", spellcheck: "false" }));
  run.disabled = true;
  field.addEventListener("input", () => { run.disabled = field.value.trim() !== word; });
  return h("label", null, t("operate.type", { word }), field);
}

let region = /** @type {HTMLElement | null} */ (null);

/** Shows and says a sentence. */
export function notify(/** @type {string} */ text, kind = "good") {
  if (!region) {
    region = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
    document.body.append(region);
  }
  const toast = h("div", { class: `toast ${kind}` }, text);
  region.append(toast);
  window.setTimeout(() => toast.remove(), kind === "bad" ? 9000 : 4000);
}

/** Shows an error as a sentence. */
export function notifyError(/** @type {any} */ error) {
  notify(error?.message ?? String(error), "bad");
}

/** The place of an error inside a page. */
export function errorBox(/** @type {any} */ error) {
  return h("div", { class: "empty bad", role: "alert" }, h("p", null, error?.message ?? String(error)), error?.detail && error.detail !== error.message ? h("p", { class: "dim" }, error.detail) : null);
}

/** What a page says when there is nothing to show. */
export function emptyBox(/** @type {string} */ title, /** @type {any[]} */ ...lines) {
  return h("div", { class: "empty" }, h("p", { class: "strong" }, title), lines.map((line) => h("p", null, line)));
}
