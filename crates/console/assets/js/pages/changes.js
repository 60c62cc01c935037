// The changes below a path as they happen, by one persistent watch. Pausable, and bounded.
// @ts-check

import { encodePath, stream } from "../api.js";
import { button, emptyBox } from "../dialog.js";
import { fill, h } from "../dom.js";
import { clock, exact, number, t } from "../i18n.js";
import { nodeLink, zxidText } from "../links.js";
import { pathProblem, shown } from "../path.js";
import { remember } from "../router.js";

const ROWS_MAX = 400;
const TYPES = ["NodeCreated", "NodeDataChanged", "NodeDeleted"];

export function mount(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
  const under = /** @type {HTMLInputElement} */ (h("input", { id: "changes-under", class: "mono", value: params.get("under") ?? "/" }));
  const boxes = TYPES.map((type) => ({ type, box: /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: !(params.get("hide") ?? "").split(",").includes(type), onchange: draw })) }));
  const status = h("div", { class: "progress", role: "status" });
  const feed = h("div");
  /** @type {{at: number, type: string, path: string, zxid: string}[]} */
  let events = [];
  let [count, left, paused, frame] = [0, 0, false, 0];
  let source = /** @type {EventSource | null} */ (null);

  function stop() {
    source?.close();
    source = null;
  }

  function start(/** @type {Event | null} */ event) {
    event?.preventDefault();
    stop();
    const wrong = pathProblem(under.value);
    if (wrong) {
      fill(status, h("span", { class: "bad" }, t(wrong)));
      return;
    }
    events = [];
    [count, left, paused] = [0, 0, false];
    remember("changes", { under: under.value });
    fill(status, t("changes.connecting"));
    source = stream(`v1/tree${encodePath(under.value)}`, { watch: "recursive" });
    source.addEventListener("ready", draw);
    for (const type of TYPES) source.addEventListener(type, (message) => add(type, JSON.parse(/** @type {MessageEvent} */ (message).data)));
    source.addEventListener("end", (message) => {
      stop();
      const why = JSON.parse(/** @type {MessageEvent} */ (message).data);
      fill(status, h("span", { class: "bad" }, why.code === "OVERRUN" ? t("changes.overrun") : t("changes.ended")), button(t("changes.start"), () => start(null)));
    });
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED) fill(status, h("span", { class: "bad" }, t("changes.refused")), button(t("changes.start"), () => start(null)));
      else fill(status, t("changes.connecting"));
    };
    draw();
  }

  function add(/** @type {string} */ type, /** @type {any} */ data) {
    count += 1;
    if (paused) {
      left += 1;
      return;
    }
    events.unshift({ at: Date.now(), type, path: data.path, zxid: data.zxid });
    events.length = Math.min(events.length, ROWS_MAX);
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }

  function toggle() {
    paused = !paused;
    left = 0;
    draw();
  }

  function draw() {
    if (source) {
      fill(
        status,
        h("span", { class: `dot ${paused ? "warn" : "good"}` }),
        h("span", null, paused ? t("changes.paused", { n: left }) : t("changes.live", { path: shown(under.value), n: count })),
        button(paused ? t("changes.resume") : t("changes.pause"), toggle, { id: "changes-pause" }),
      );
    }
    const types = boxes.filter(({ box }) => box.checked).map(({ type }) => type);
    const list = events.filter((event) => types.includes(event.type));
    if (list.length === 0) {
      fill(feed, emptyBox(source ? t("changes.none") : t("changes.begin"), source ? t("changes.noneMore") : t("changes.beginMore")));
      return;
    }
    const row = (/** @type {typeof events[number]} */ event) =>
      h("div", { class: "feed-row" }, h("time", { class: "dim", title: exact(event.at) }, clock(event.at)), h("span", { class: `kind-${event.type}` }, t(`change.${event.type}`)), h("span", { class: "when-zxid dim" }, zxidText(event.zxid)), event.type === "NodeDeleted" ? h("span", { class: "mono path dim" }, shown(event.path)) : nodeLink(event.path));
    fill(feed, h("div", { class: "feed" }, list.map(row)), count > ROWS_MAX ? h("p", { class: "dim" }, t("changes.cut", { n: ROWS_MAX, all: number(count) })) : null);
  }

  const key = (/** @type {any} */ message) => {
    if (message.detail.key !== " " || !source) return;
    message.detail.preventDefault();
    toggle();
  };
  document.addEventListener("zebu-key", key);
  fill(
    root,
    h("div", { class: "head" }, h("h1", null, t("nav.changes")), h("p", null, t("changes.explain"))),
    h("form", { onsubmit: start }, h("div", { class: "filters" }, h("label", null, t("search.under"), under), boxes.map(({ type, box }) => h("label", { class: "check" }, box, t(`change.${type}`))), h("button", { type: "submit", class: "primary", id: "changes-start" }, t("changes.start")))),
    status,
    feed,
  );
  // A watch on the root is asked for, never a surprise.
  if (params.get("under") && params.get("under") !== "/") start(null);
  else draw();
  return {
    destroy() {
      stop();
      cancelAnimationFrame(frame);
      document.removeEventListener("zebu-key", key);
    },
  };
}
