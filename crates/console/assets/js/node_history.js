// The versions of a node in the files of the server, and the difference of two of them.
// @ts-check

import { encodePath, get, self, writeData } from "./api.js";
import { fromBase64, hexDump } from "./bytes.js";
import { diffView } from "./diff.js";
import { button, confirm, errorBox, notify, notifyError } from "./dialog.js";
import { fill, h } from "./dom.js";
import { guess, layOutJson } from "./guess.js";
import { bytes, exact, number, t } from "./i18n.js";
import { sessionLink, tag, when, zxidText } from "./links.js";
import { remember } from "./router.js";
import { isUnlocked } from "./write_lock.js";

/** Parts that are read before the user is asked. */
const PARTS_AT_ONCE = 16;
const COMPARED_MAX = 256 << 10;
const CHANGE_KINDS = { created: "good", data: "", acl: "", deleted: "bad", snapshot: "" };

/** @typedef {{change: string, zxid: string, timeMs: number, session: string | null, version: number | null, base64: string | null, acl: any[] | null}} Version */

const byAge = (/** @type {Version} */ one, /** @type {Version} */ other) => (BigInt(one.zxid) < BigInt(other.zxid) ? 1 : -1);
const hasState = (/** @type {Version} */ version) => version.change !== "deleted";

/** Data as text whose lines can be compared. */
async function comparable(/** @type {string | null} */ base64) {
  const found = await guess(fromBase64(base64).subarray(0, COMPARED_MAX));
  if (found.text === null) return hexDump(found.bytes);
  return found.format === "json" ? layOutJson(found.text) : found.text;
}

function aclText(/** @type {any[]} */ acl) {
  return acl.map((entry) => `${entry.scheme}:${entry.id}:${entry.perms}`).join("\n");
}

export class HistoryTab {
  constructor(/** @type {any} */ pane) {
    this.pane = pane;
    this.element = h("div", { class: "tab-body history" });
    this.path = "";
    /** @type {AbortController | null} */
    this.reading = null;
    this.drawn = 0;
  }

  leave() {
    this.reading?.abort();
    this.reading = null;
    this.path = "";
  }

  /** Shows the history of a node; reads it once. */
  show(/** @type {string} */ path) {
    if (path === this.path) {
      this.draw();
      return this.element;
    }
    this.leave();
    this.path = path;
    /** @type {Version[]} */
    this.versions = [];
    this.facts = { reached: /** @type {any} */ (null), read: 0, left: 0, gaps: 0, damaged: /** @type {string[]} */ ([]), next: /** @type {string | null} */ (null) };
    const params = new URLSearchParams(location.search);
    this.chosen = { a: params.get("a"), b: params.get("b") };
    fill(this.element, h("p", { class: "dim", role: "status" }, t("history.reading")));
    void this.read();
    return this.element;
  }

  async read() {
    const ended = new AbortController();
    this.reading = ended;
    try {
      for (let part = 0; part < PARTS_AT_ONCE; part += 1) {
        const answer = await get(`v1/history${encodePath(this.path)}`, { after: this.facts.next }, ended.signal);
        const known = new Set(this.versions.map((version) => `${version.zxid}${version.change}`));
        this.versions.push(...answer.versions.filter((/** @type {Version} */ version) => !known.has(`${version.zxid}${version.change}`)));
        this.versions.sort(byAge);
        const { facts } = this;
        facts.reached = answer.reached ?? facts.reached;
        facts.read += answer.readBytes;
        facts.left = answer.logsLeft;
        facts.gaps += answer.gaps.length;
        facts.damaged.push(...answer.damaged);
        facts.next = answer.next;
        if (facts.next === null) break;
        this.draw();
      }
      this.reading = null;
      this.draw();
    } catch (error) {
      if (ended.signal.aborted) return;
      this.reading = null;
      const refused = /** @type {any} */ (error).code === "NOAUTH";
      fill(this.element, refused ? h("div", { class: "empty" }, h("p", { class: "strong" }, t("history.superOnly")), h("p", null, t("history.superWhy"))) : errorBox(error));
    }
  }

  /** How far the files reach. */
  reach() {
    const { facts } = this;
    const since = facts.reached ? exact(facts.reached.timeMs) : "–";
    const lines = [];
    if (this.reading) lines.push(h("p", { class: "dim", role: "status" }, t("history.progress", { size: bytes(facts.read), since, n: facts.left })));
    else if (facts.next) lines.push(h("p", { class: "dim" }, t("history.paused", { since, n: facts.left })), button(t("history.further"), () => { void this.read(); this.draw(); }, { id: "history-further" }));
    else lines.push(h("p", { class: "dim" }, facts.reached ? t("history.whole", { since, size: bytes(facts.read) }) : t("history.noLogs")));
    if (facts.gaps > 0) lines.push(h("div", { class: "banner warn" }, t("history.gaps", { n: facts.gaps })));
    if (facts.damaged.length > 0) lines.push(h("div", { class: "banner warn" }, t("history.damaged"), " ", facts.damaged.join("; ")));
    return lines;
  }

  /** The two points that are compared: those of the address, or the two newest. */
  points() {
    const states = this.versions.filter(hasState);
    const find = (/** @type {string | null} */ zxid) => states.find((version) => version.zxid === zxid);
    const b = find(this.chosen.b) ?? states[0];
    const a = find(this.chosen.a) ?? states[states.indexOf(b) + 1];
    return { a, b };
  }

  choose(/** @type {"a" | "b"} */ which, /** @type {Version} */ version) {
    const { a, b } = this.points();
    this.chosen = { a: a?.zxid ?? null, b: b?.zxid ?? null, [which]: version.zxid };
    remember("tree", { path: this.path, tab: "history", ...this.chosen });
    this.draw();
  }

  draw() {
    if (!this.path) return;
    if (this.versions.length === 0) {
      fill(this.element, this.reading ? null : h("div", { class: "empty" }, h("p", { class: "strong" }, t("history.none"))), this.reach());
      return;
    }
    const { a, b } = this.points();
    const radio = (/** @type {"a" | "b"} */ which, /** @type {Version} */ version) => h("input", { type: "radio", name: `history-${which}`, "aria-label": t(`history.${which}`, { zxid: version.zxid }), checked: version === (which === "a" ? a : b), onchange: () => this.choose(which, version) });
    const rows = this.versions.map((version) =>
      h(
        "tr",
        { "data-zxid": version.zxid },
        h("td", null, hasState(version) ? radio("a", version) : null),
        h("td", null, hasState(version) ? radio("b", version) : null),
        h("td", null, tag(t(`history.change.${version.change}`), CHANGE_KINDS[/** @type {keyof typeof CHANGE_KINDS} */ (version.change)])),
        h("td", null, when(version.timeMs)),
        h("td", null, zxidText(version.zxid)),
        h("td", { class: "num" }, version.version === null ? "–" : number(version.version)),
        h("td", { class: "num" }, version.change === "acl" || version.change === "deleted" ? "–" : bytes(fromBase64(version.base64).length)),
        h("td", null, version.session && version.session !== "0x0" ? sessionLink(version.session) : h("span", { class: "dim" }, "–")),
      ),
    );
    const head = h("tr", null, h("th", null, "A"), h("th", null, "B"), h("th", null, t("history.what")), h("th", null, t("history.when")), h("th", null, "zxid"), h("th", { class: "num" }, t("history.version")), h("th", { class: "num" }, t("history.size")), h("th", null, t("history.session")));
    const difference = h("div", { class: "stack" });
    fill(this.element, this.reach(), h("div", { class: "wide history-list", tabindex: "0", role: "region", "aria-label": t("node.history") }, h("table", { id: "history-versions" }, h("thead", null, head), h("tbody", null, rows))), difference);
    void this.drawDifference(difference, a, b);
  }

  async drawDifference(/** @type {HTMLElement} */ place, /** @type {Version | undefined} */ a, /** @type {Version | undefined} */ b) {
    this.drawn += 1;
    const own = this.drawn;
    if (!b) return;
    const restore = b.change !== "acl" && b.base64 !== this.pane.node?.base64 && self.mayWrite && isUnlocked() && this.pane.node ? h("div", { class: "actions" }, button(t("history.restore", { zxid: b.zxid }), () => void this.restore(b), { id: "history-restore" })) : null;
    if (!a) {
      fill(place, h("p", { class: "dim" }, t("history.one")), restore);
      return;
    }
    const isAcl = a.change === "acl" || b.change === "acl";
    if (isAcl && !(a.acl && b.acl)) {
      fill(place, h("p", { class: "dim" }, t("history.mixed")));
      return;
    }
    const [before, after] = isAcl ? [aclText(a.acl ?? []), aclText(b.acl ?? [])] : await Promise.all([comparable(a.base64), comparable(b.base64)]);
    if (own !== this.drawn) return;
    fill(place, h("h3", null, t("history.difference", { a: a.zxid, b: b.zxid })), before === after ? h("p", { class: "dim" }, t("history.same")) : diffView(before, after), restore);
  }

  /** Writes an old version as a new one, if the node still has the version that is shown. */
  async restore(/** @type {Version} */ version) {
    const { node } = this.pane;
    const [now, then] = await Promise.all([comparable(node.base64), comparable(version.base64)]);
    const content = [h("p", null, t("history.restoreExplain")), diffView(now, then)];
    if (!(await confirm(t("history.restoreTitle"), content, t("history.restoreDeed")))) return;
    try {
      await writeData(this.path, version.base64 ?? "", node.tag);
      notify(t("history.restored"));
      this.leave();
      await this.pane.load();
    } catch (error) {
      notifyError(error);
    }
  }
}
