// Work of an operator on this server: a snapshot, a hand-over, a drain. Each says first what follows.
// @ts-check

import { get, request, self } from "./api.js";
import { button, errorBox, notify, openDialog, typedField } from "./dialog.js";
import { fill, h } from "./dom.js";
import { both, bytes, number, t } from "./i18n.js";
import { zxid } from "./path.js";
import { reconfigDialog } from "./reconfig.js";
import { latest } from "./samples.js";
import { isUnlocked, onLock, unlock } from "./write_lock.js";

/**
 * Asks for a deed: its consequences, the typed word, then the request.
 * @param {{word: string, title: string, deed: string, lines: [string, string][], route: string, done: (answer: any) => string}} plan
 */
function ask(plan) {
  openDialog(plan.title, (body, foot, close, signal) => {
    const place = h("div", { role: "status" });
    const run = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "danger", id: "operate-run", onclick: () => void start() }, plan.deed));
    fill(body, h("ul", { class: "consequences" }, plan.lines.map(([kind, text]) => h("li", { class: kind }, text))), typedField(plan.word, run), place);
    fill(foot, button(t("action.cancel"), close), run);
    async function start() {
      run.disabled = true;
      fill(place, t("operate.running"));
      try {
        const answer = await (await request("POST", `v1/${plan.route}`)).json();
        if (!signal.aborted) close();
        notify(plan.done(answer));
      } catch (error) {
        if (!signal.aborted) fill(place, errorBox(error));
      }
    }
  });
}

function serverName(/** @type {any} */ stats) {
  return stats.id === null ? t("operate.thisServer") : t("bar.server", { id: String(stats.id) });
}

function snapshot() {
  const sample = latest();
  if (!sample) return;
  const { stats } = sample;
  ask({
    word: "snapshot",
    title: t("operate.snapshotTitle"),
    deed: t("operate.snapshotDeed"),
    route: "snapshot",
    lines: [
      ["", t("operate.snapshotWrites", { server: serverName(stats), n: stats.nodes, zxid: zxid(stats.zxid) })],
      ["", t("operate.snapshotLoad")],
      ["", t("operate.snapshotStays")],
    ],
    done: (answer) => t("operate.snapshotDone", { file: answer.file ?? "", size: bytes(answer.bytes ?? 0) }),
  });
}

/** The synchronized voters beside a leader; null if this server does not lead. */
function successors(/** @type {any} */ ensemble) {
  if (ensemble?.role !== "leader" || !ensemble.quorum?.synchronized) return null;
  return ensemble.quorum.synchronized.filter((/** @type {number} */ id) => id !== ensemble.id);
}

function handOver() {
  const sample = latest();
  if (!sample) return;
  const next = successors(sample.ensemble) ?? [];
  ask({
    word: "hand-over",
    title: t("operate.handOverTitle"),
    deed: t("operate.handOverDeed"),
    route: "hand-over",
    lines: [
      ["", t("operate.handOverEnds", { server: serverName(sample.stats) })],
      next.length > 0 ? ["", t("operate.handOverNext", { n: next.length, servers: both(next) })] : ["bad", t("operate.handOverNone")],
      ["warn", t("operate.handOverPause")],
      ["", t("operate.handOverSessions")],
    ],
    done: () => t("operate.handOverDone"),
  });
}

/** What the ensemble can do without this server. */
function without(/** @type {any} */ sample) {
  const { ensemble } = sample;
  const quorum = ensemble?.quorum;
  if (!quorum) return [["bad", t("operate.drainAlone")]];
  if (!quorum.voters.includes(ensemble.id)) return [["", t("operate.drainNoVoter")]];
  const others = successors(ensemble);
  if (others === null) return [["warn", t("operate.drainUnknown")]];
  const stays = quorum.hasQuorum && !quorum.critical.includes(ensemble.id);
  return [[stays ? "good" : "bad", t(stays ? "operate.drainServes" : "operate.drainStops", { n: others.length })]];
}

function drain() {
  const sample = latest();
  if (!sample) return;
  ask({
    word: "drain",
    title: t("operate.drainTitle"),
    deed: t("operate.drainDeed"),
    route: "drain",
    lines: [
      ["", t("operate.drainClients", { server: serverName(sample.stats), n: sample.stats.connections })],
      sample.ensemble?.role === "leader" ? ["", t("operate.drainLeader")] : ["", t("operate.drainEnds")],
      .../** @type {[string, string][]} */ (without(sample)),
      ["warn", t("operate.drainStart")],
    ],
    done: (answer) => t("operate.drainDone", { time: number(answer.drainTimeMs / 1000) }),
  });
}

/** The card with the deeds; empty where the backend has none. */
export class OperateCard {
  constructor() {
    this.element = h("section", { class: "card", id: "operate" });
    this.isSuper = false;
    this.known = "";
    this.endLock = onLock(() => this.draw());
    void this.load();
  }

  async load() {
    try {
      this.isSuper = (await get("v1/whoami")).isSuper;
    } catch {
      this.isSuper = false;
    }
    this.draw();
  }

  /** Draws anew when the role has changed. */
  look() {
    const sample = latest();
    const now = `${sample?.stats.role}${sample?.ensemble?.config?.version}`;
    if (now !== this.known) this.draw();
    this.known = now;
  }

  draw() {
    const has = (/** @type {string} */ name) => self.system.features.includes(/** @type {never} */ (name));
    this.element.hidden = !has("operate");
    const title = h("h2", null, t("operate.title"));
    if (!self.mayWrite) fill(this.element, title, h("p", { class: "dim" }, t("lock.config")));
    else if (!this.isSuper) fill(this.element, title, h("p", { class: "dim" }, t("operate.superOnly")));
    else if (!isUnlocked()) fill(this.element, title, h("p", { class: "dim" }, t("operate.locked")), h("div", { class: "actions" }, h("button", { type: "button", id: "operate-unlock", onclick: () => void unlock() }, t("operate.unlock"))));
    else {
      const sample = latest();
      const make = (/** @type {string} */ id, /** @type {string} */ text, /** @type {() => void} */ action) => h("button", { type: "button", id, onclick: action }, text);
      fill(
        this.element,
        title,
        h("p", { class: "dim" }, t("operate.explain")),
        h(
          "div",
          { class: "actions" },
          make("operate-snapshot", t("operate.snapshot"), snapshot),
          sample?.ensemble?.role === "leader" ? make("operate-hand-over", t("operate.handOver"), handOver) : null,
          sample?.ensemble?.config && has("reconfig") ? make("operate-reconfig", t("operate.reconfig"), () => reconfigDialog()) : null,
          make("operate-drain", t("operate.drain"), drain),
        ),
      );
    }
  }

  destroy() {
    this.endLock();
  }
}

/** The comparison of the digests of all servers. */
export function digestComparison() {
  const place = h("div", { class: "stack" });
  async function compare() {
    fill(place, h("p", { class: "dim", role: "status" }, t("digest.asking")));
    try {
      fill(place, comparison(await get("v1/digests")));
    } catch (error) {
      fill(place, errorBox(error));
    }
  }
  return [button(t("digest.compare"), () => void compare(), { id: "digest-compare" }), place];
}

function comparison(/** @type {any} */ answer) {
  const { common, servers } = answer;
  const verdict = !common
    ? h("div", { class: "banner warn" }, t("digest.noCommon"))
    : common.servers < 2
      ? h("div", { class: "banner warn" }, t("digest.alone"))
      : common.equal
        ? h("div", { class: "banner good", id: "digest-verdict" }, t("digest.equal", { n: common.servers, zxid: zxid(common.zxid) }))
        : h("div", { class: "banner bad", id: "digest-verdict" }, t("digest.different", { zxid: zxid(common.zxid) }));
  const rows = servers.map((/** @type {any} */ server) => {
    const found = common?.digests.find((/** @type {any} */ row) => row.id === server.id);
    return h("tr", null, h("td", { class: "num" }, server.id), h("td", { class: "mono break" }, server.address ?? "–"), h("td", { class: found ? "mono break" : "bad" }, found?.digest ?? server.error ?? t("digest.none")));
  });
  return [verdict, h("div", { class: "wide" }, h("table", null, h("thead", null, h("tr", null, h("th", { class: "num" }, t("member.id")), h("th", null, t("member.address")), h("th", null, t("digest.digest")))), h("tbody", null, rows)))];
}
