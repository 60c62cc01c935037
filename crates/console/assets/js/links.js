// Links to nodes, sessions and addresses, and small facts that many pages show.
// @ts-check

import { h, icon } from "./dom.js";
import { ago, exact, t } from "./i18n.js";
import { shown, zxid } from "./path.js";
import { address } from "./router.js";
import { notify } from "./dialog.js";

/** A link to a node. */
export function nodeLink(/** @type {string} */ path, /** @type {string | null} */ text = null) {
  return h("a", { class: "mono path", href: address("tree", { path }), title: shown(path) }, shown(text ?? path));
}

/** A link to a session. */
export function sessionLink(/** @type {string} */ id) {
  return h("a", { class: "mono", href: address("sessions", { id }) }, id);
}

/** A time that is told as its distance, with the exact one beside it. */
export function when(/** @type {number} */ at) {
  if (!at) return h("span", { class: "dim" }, "–");
  return h("time", { datetime: new Date(at).toISOString(), title: exact(at) }, ago(at));
}

/** A zxid. */
export function zxidText(/** @type {string | null | undefined} */ text) {
  return h("span", { class: "mono", title: text ?? "" }, zxid(text));
}

/** The zxid that created a node, as a fencing token: a later holder has a larger one. */
export function tokenText(/** @type {string} */ czxid) {
  return h("span", { class: "mono", title: `${czxid} = ${BigInt(czxid)}` }, zxid(czxid));
}

/** A button that copies. */
export function copyButton(/** @type {string} */ text, /** @type {string} */ label) {
  return h(
    "button",
    {
      class: "quiet small",
      type: "button",
      title: label,
      "aria-label": label,
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(text);
          notify(t("message.copied"));
        } catch {
          notify(t("message.notCopied"), "bad");
        }
      },
    },
    icon("copy"),
  );
}

/** A mark such as `leader`. */
export function tag(/** @type {string} */ text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}
