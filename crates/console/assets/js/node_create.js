// A new node: its whole path is shown before it exists.
// @ts-check

import { createNode } from "./api.js";
import { fromText, toBase64 } from "./bytes.js";
import { button, notify, openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { t } from "./i18n.js";
import { join, pathProblem, shown } from "./path.js";

const MODES = ["persistent", "sequential", "container", "ttl"];

export function createDialog(/** @type {string} */ parent, /** @type {(path: string) => void} */ ondone) {
  openDialog(t("create.title"), (body, foot, close) => {
    const name = /** @type {HTMLInputElement} */ (h("input", { id: "create-name", class: "mono", autocomplete: "off", spellcheck: "false" }));
    const data = /** @type {HTMLTextAreaElement} */ (h("textarea", { id: "create-data", class: "mono", rows: 5, spellcheck: "false" }));
    const mode = /** @type {HTMLSelectElement} */ (h("select", { id: "create-mode" }, MODES.map((kind) => h("option", { value: kind }, t(`mode.${kind}`)))));
    const ttl = /** @type {HTMLInputElement} */ (h("input", { id: "create-ttl", class: "mono", value: "1h", size: 8 }));
    const ttlField = h("label", { hidden: true }, t("create.ttl"), ttl);
    const acl = /** @type {HTMLSelectElement} */ (h("select", { id: "create-acl" }, [["world:anyone:cdrwa", "create.aclOpen"], ["auth::cdrwa", "create.aclOwn"], ["world:anyone:r", "create.aclRead"]].map(([value, key]) => h("option", { value }, t(key)))));
    const preview = h("p", { class: "mono preview", "aria-live": "polite" });
    const problem = h("p", { class: "bad", role: "alert" });
    function draw() {
      const path = join(parent, name.value);
      fill(preview, t("create.will"), " ", h("b", null, shown(path)), mode.value === "sequential" ? h("span", { class: "dim" }, "0000000000…") : null);
      ttlField.hidden = mode.value !== "ttl";
    }
    name.addEventListener("input", draw);
    mode.addEventListener("change", draw);
    async function submit(/** @type {Event} */ event) {
      event.preventDefault();
      const path = join(parent, name.value);
      const wrong = name.value === "" && mode.value !== "sequential" ? "path.name" : name.value.includes("/") ? "path.oneName" : pathProblem(path);
      if (wrong && !(wrong === "path.end" && mode.value === "sequential")) {
        fill(problem, t(wrong));
        return;
      }
      try {
        const query = { acl: acl.value, mode: mode.value === "ttl" ? null : mode.value, ttl: mode.value === "ttl" ? ttl.value : null };
        const created = await createNode(path, toBase64(fromText(data.value)), query);
        close();
        notify(t("create.done", { path: shown(created.path) }));
        ondone(created.path);
      } catch (error) {
        fill(problem, /** @type {Error} */ (error).message);
      }
    }
    draw();
    fill(body, h("form", { id: "create-form", onsubmit: submit }, h("label", null, t("create.name"), name), preview, h("label", null, t("create.data"), data), h("div", { class: "row" }, h("label", null, t("create.mode"), mode), ttlField, h("label", null, t("create.acl"), acl)), problem));
    fill(foot, button(t("action.cancel"), close), h("button", { type: "submit", class: "primary", form: "create-form", id: "create-write" }, t("create.deed")));
    queueMicrotask(() => name.focus());
  });
}
