// Sessions with their clients, and one session with all that belongs to it.
// @ts-check

import { get, request, self } from "../api.js";
import { button, confirm, emptyBox, errorBox, notify, notifyError } from "../dialog.js";
import { fill, h } from "../dom.js";
import { duration, millis, number, t } from "../i18n.js";
import { nodeLink, sessionLink, tag, when, zxidText } from "../links.js";
import { address, remember } from "../router.js";
import { isUnlocked, onLock, unlock } from "../write_lock.js";

const PAGE = 500;
const REFRESH_MS = 5000;
const PATHS_ASKED = 8;

/** The server sorts, because it knows all sessions. */
const ORDERS = ["id", "received", "latency", "ephemerals"];
const TYPING_MS = 250;

function listRow(/** @type {any} */ session) {
  const c = session.connection;
  return h(
    "tr",
    { class: "link" },
    h("td", null, sessionLink(session.id)),
    h("td", { class: "mono" }, c ? c.remote : h("span", { class: "dim" }, t("sessions.elsewhere")), c?.isSecure ? [" ", tag("TLS", "good")] : null),
    h("td", { class: "num" }, duration(session.timeoutMs)),
    h("td", { class: "num" }, number(session.ephemerals)),
    h("td", { class: "num" }, c ? number(c.received) : "–"),
    h("td", { class: "num" }, c && c.averageLatencyMs !== null ? `${millis(c.averageLatencyMs)} · ${millis(c.maxLatencyMs)}` : "–"),
    h("td", null, c?.establishedMs ? when(c.establishedMs) : "–"),
    h("td", { class: "mono dim" }, c?.lastOperation ?? ""),
    h("td", null, session.isLocal ? tag(t("sessions.local")) : null),
  );
}

class SessionList {
  constructor(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
    this.filter = /** @type {HTMLInputElement} */ (h("input", { id: "sessions-filter", class: "mono", placeholder: t("sessions.filter"), "aria-label": t("sessions.filter"), value: params.get("match") ?? "", oninput: () => this.typed() }));
    this.order = /** @type {HTMLSelectElement} */ (h("select", { id: "sessions-order", onchange: () => void this.load() }, ORDERS.map((name) => h("option", { value: name, selected: name === params.get("sort") }, t(`sessions.by.${name}`)))));
    this.place = h("div");
    this.note = h("p", { class: "dim", role: "status" });
    /** @type {any[]} */
    this.sessions = [];
    this.total = 0;
    this.matched = 0;
    this.typing = 0;
    this.loads = 0;
    this.ended = new AbortController();
    fill(root, h("div", { class: "head" }, h("h1", null, t("nav.sessions")), h("p", null, t("sessions.explain"))), h("div", { class: "filters" }, this.filter, h("label", { class: "check" }, t("sessions.order"), this.order)), this.note, this.place);
    void this.load();
    this.timer = setInterval(() => void (document.hidden || this.load()), REFRESH_MS);
  }

  /** Asks once the typing pauses. */
  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => void this.load(), TYPING_MS);
  }

  async load() {
    const [match, order] = [this.filter.value.trim(), this.order.value];
    remember("sessions", { match, sort: order === "id" ? null : order });
    this.loads += 1;
    const own = this.loads;
    try {
      const answer = await get("v1/sessions", { limit: PAGE, match: match || null, order }, this.ended.signal);
      if (own !== this.loads) return;
      this.sessions = answer.sessions;
      this.total = answer.total;
      this.matched = answer.matched ?? answer.total;
      this.draw();
    } catch (error) {
      if (!this.ended.signal.aborted && own === this.loads) fill(this.place, errorBox(error));
    }
  }

  draw() {
    const list = this.sessions;
    fill(this.note, t("sessions.count", { n: this.total }), this.matched > list.length ? ` ${t("sessions.cut", { n: list.length, m: this.matched })}` : "");
    if (list.length === 0) {
      fill(this.place, emptyBox(t("sessions.none"), t("sessions.noneMore")));
      return;
    }
    const head = [["sessions.id", ""], ["sessions.client", ""], ["sessions.timeout", "num"], ["sessions.ephemerals", "num"], ["sessions.requests", "num"], ["sessions.latency", "num"], ["sessions.connected", ""], ["sessions.last", ""], ["", ""]];
    fill(this.place, h("div", { class: "card wide" }, h("table", null, h("thead", null, h("tr", null, head.map(([key, kind]) => h("th", { class: kind }, key ? t(key) : "")))), h("tbody", null, list.map(listRow)))));
  }

  destroy() {
    clearInterval(this.timer);
    clearTimeout(this.typing);
    this.ended.abort();
  }
}

class SessionDetail {
  constructor(/** @type {HTMLElement} */ root, /** @type {string} */ id) {
    this.id = id;
    this.root = root;
    this.isSuper = false;
    /** @type {any} */
    this.session = null;
    this.endLock = onLock(() => this.draw());
    void this.load();
  }

  async load() {
    try {
      const [session, who] = await Promise.all([get(`v1/sessions/${encodeURIComponent(this.id)}`), get("v1/whoami")]);
      this.session = session;
      this.isSuper = who.isSuper;
      this.draw();
    } catch (error) {
      fill(this.root, this.head(), errorBox(error));
    }
  }

  head() {
    return h("div", { class: "head" }, h("h1", { class: "mono" }, this.id), h("a", { href: address("sessions") }, t("sessions.all")));
  }

  draw() {
    if (!this.session) return;
    const { session } = this;
    const c = session.connection;
    const fact = (/** @type {string} */ key, /** @type {any} */ content) => [h("dt", null, t(key)), h("dd", null, content)];
    const facts = h(
      "dl",
      { class: "facts" },
      fact("sessions.client", h("span", { class: "mono" }, c ? c.remote : t("sessions.elsewhere"))),
      fact("sessions.timeout", duration(session.timeoutMs)),
      fact("sessions.kind", session.isLocal ? t("sessions.local") : t("sessions.global")),
      c ? [fact("sessions.connected", c.establishedMs ? when(c.establishedMs) : "–"), fact("sessions.requests", number(c.received)), fact("sessions.replies", number(c.sent)), fact("sessions.outstanding", number(c.outstanding)), fact("sessions.latency", `${millis(c.averageLatencyMs ?? NaN)} · ${millis(c.maxLatencyMs ?? NaN)}`), fact("sessions.last", h("span", { class: "mono" }, c.lastOperation ?? "–")), fact("sessions.lastZxid", zxidText(c.lastZxid))] : null,
    );
    const list = (/** @type {string} */ title, /** @type {string[]} */ paths, /** @type {string} */ none) =>
      h("section", { class: "card" }, h("h2", null, title, " ", h("span", { class: "dim" }, number(paths.length))), paths.length === 0 ? h("p", { class: "dim" }, none) : h("ul", { class: "plan-list" }, paths.map((path) => h("li", null, nodeLink(path)))));
    fill(
      this.root,
      this.head(),
      h("div", { class: "columns" }, h("div", null, list(t("sessions.ephemeralPaths"), session.ephemeralPaths, t("sessions.noEphemerals")), list(t("sessions.watchedPaths"), session.watchedPaths, t("sessions.noWatches")), session.isCut ? h("p", { class: "dim" }, t("sessions.listCut")) : null), h("section", { class: "card" }, h("h2", null, t("sessions.about")), facts)),
      this.actions(),
    );
  }

  actions() {
    if (!self.mayWrite) return null;
    if (!this.isSuper) return h("p", { class: "dim" }, t("sessions.superOnly"));
    if (!isUnlocked()) return h("div", { class: "actions" }, button(t("lock.unlock"), () => void unlock(), { class: "quiet" }));
    return h("div", { class: "actions" }, button(t("sessions.end"), () => void this.end(), { class: "danger", id: "session-end" }));
  }

  async end() {
    const paths = this.session.ephemeralPaths;
    const content = [h("p", null, t("sessions.endExplain", { n: paths.length })), h("ul", { class: "plan-list" }, paths.slice(0, PATHS_ASKED).map((/** @type {string} */ path) => h("li", null, nodeLink(path))))];
    if (!(await confirm(t("sessions.endTitle", { id: this.id }), content, t("sessions.end")))) return;
    try {
      await request("DELETE", `v1/sessions/${encodeURIComponent(this.id)}`);
      notify(t("sessions.ended", { id: this.id }));
      await this.load();
    } catch (error) {
      notifyError(error);
    }
  }

  destroy() {
    this.endLock();
  }
}

export function mount(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
  const make = (/** @type {URLSearchParams} */ now) => {
    const id = now.get("id");
    return id ? new SessionDetail(root, id) : new SessionList(root, now);
  };
  let shown = make(params);
  return {
    update(/** @type {URLSearchParams} */ next) {
      shown.destroy();
      root.replaceChildren();
      shown = make(next);
    },
    destroy: () => shown.destroy(),
  };
}
