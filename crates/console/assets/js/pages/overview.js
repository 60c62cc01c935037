// The first page: what is wrong, the pulse of the server, its members and the roles that it had.
// @ts-check

import { get, self } from "../api.js";
import { sparkline } from "../chart.js";
import { errorBox } from "../dialog.js";
import { fill, h } from "../dom.js";
import { bytes, clock, compact, duration, exact, millis, number, t } from "../i18n.js";
import { tag, when, zxidText } from "../links.js";
import { problems } from "../problems.js";
import { address } from "../router.js";
import { gauges, latest, onSample, rates, samples, state } from "../samples.js";
import { memberTable } from "../members.js";

const value = (/** @type {any} */ stats, /** @type {string} */ name) => Number(stats.values?.[name] ?? NaN);

/** Name, series, and the text of a number. */
const CHARTS = [
  { key: "chart.requests", series: () => rates((stats) => stats.packetsReceived), text: (/** @type {number} */ x) => compact(x), unit: "chart.perSecond" },
  { key: "chart.readLatency", series: () => gauges((stats) => value(stats, "p99_readlatency")), text: millis, unit: "chart.p99" },
  { key: "chart.writeLatency", series: () => gauges((stats) => value(stats, "p99_updatelatency")), text: millis, unit: "chart.p99" },
  { key: "chart.connections", series: () => gauges((stats) => stats.connections), text: (/** @type {number} */ x) => number(x), unit: "" },
  { key: "chart.nodes", series: () => gauges((stats) => stats.nodes), text: (/** @type {number} */ x) => number(x), unit: "" },
  { key: "chart.outstanding", series: () => gauges((stats) => stats.outstanding), text: (/** @type {number} */ x) => number(x), unit: "" },
];

function chartCard(/** @type {typeof CHARTS[number]} */ chart) {
  const series = chart.series();
  const last = series.at(-1);
  const shown = last === null || last === undefined ? "–" : chart.text(last);
  const unit = chart.unit ? t(chart.unit) : "";
  return h(
    "section",
    { class: "card chart" },
    h("h3", null, t(chart.key)),
    h("p", { class: "big" }, shown, unit ? h("small", null, unit) : null),
    sparkline(series, `${t(chart.key)} ${shown} ${unit}`),
  );
}

function problemList(/** @type {any} */ sample) {
  const list = problems(sample);
  if (list.length === 0) return h("div", { class: "banner good" }, h("span", { class: "dot good" }), t("problem.none"));
  return h(
    "div",
    { class: `banner ${list.some((problem) => problem.kind === "bad") ? "bad" : "warn"}`, role: "alert" },
    h("ul", null, list.map((problem) => h("li", null, h("span", { class: `dot ${problem.kind}` }), h("span", null, h("b", null, problem.text), " ", problem.next), problem.url ? h("a", { href: problem.url }, t("action.details")) : null))),
  );
}

function facts(/** @type {any} */ { stats }) {
  const v = stats.values ?? {};
  const any = (/** @type {string} */ name) => Number(v[name]);
  const row = (/** @type {string} */ name, /** @type {any} */ content) => [h("dt", null, t(name)), h("dd", null, content)];
  // Servers that are reached by the client protocol do not tell all of these.
  const told = (/** @type {any} */ number_, /** @type {(x: number) => any} */ form) => (number_ === null || !Number.isFinite(number_) ? "–" : form(number_));
  const snapshot = () => (self.system.product === "remote" ? "–" : stats.lastSnapshot ? when(stats.lastSnapshot.writtenMs) : t("fact.noSnapshot"));
  return h(
    "dl",
    { class: "facts" },
    row("fact.role", stats.role ? tag(stats.role, stats.role) : tag(t("role.none"), "bad")),
    row("fact.epoch", stats.epoch ?? "–"),
    row("fact.zxid", zxidText(stats.zxid)),
    row("fact.uptime", told(stats.uptimeMs, duration)),
    row("fact.version", stats.serverVersion?.split(",")[0] ?? self.system.version),
    row("fact.sessions", h("a", { href: address("sessions") }, told(any("global_sessions"), number))),
    row("fact.watches", h("a", { href: address("watches") }, told(any("watch_count"), number))),
    row("fact.ephemerals", told(any("ephemerals_count"), number)),
    row("fact.data", told(any("approximate_data_size"), bytes)),
    row("fact.disk", stats.logDirBytes === null ? "–" : `${bytes(stats.logDirBytes)} · ${bytes(stats.dataDirBytes)}`),
    row("fact.snapshot", snapshot()),
    row("fact.files", Number.isFinite(any("open_file_descriptor_count")) ? `${number(any("open_file_descriptor_count"))} / ${compact(any("max_file_descriptor_count"))}` : "–"),
  );
}

/** The roles of this server on a line of time. */
function timeline(/** @type {any} */ roles) {
  if (roles.changes.length === 0) return null;
  const now = Date.now();
  const list = roles.changes.map((/** @type {any} */ change, /** @type {number} */ index) => ({ ...change, until: roles.changes[index + 1]?.atMs ?? now }));
  const begin = list[0].atMs;
  const whole = Math.max(now - begin, 1);
  const strip = h("div", { class: "strip", role: "img", "aria-label": t("roles.title") },
    list.map((/** @type {any} */ part) => {
      const name = part.role ?? t("role.none");
      return h("span", { class: `role-${part.role ?? "none"}`, title: `${name} · ${exact(part.atMs)}`, css: { "flex-grow": Math.max((part.until - part.atMs) / whole, 0.004) } });
    }));
  const rows = list.slice(-8).reverse().map((/** @type {any} */ part) =>
    h("tr", null,
      h("td", null, h("time", { title: exact(part.atMs) }, clock(part.atMs))),
      h("td", null, part.role ? tag(part.role, part.role) : tag(t("role.none"), "bad")),
      h("td", { class: "num" }, part.epoch ?? "–"),
      h("td", null, part.leader === null || part.leader === undefined ? "–" : t("bar.server", { id: String(part.leader) })),
      h("td", { class: "num" }, duration(part.until - part.atMs))));
  return [strip, h("table", null,
    h("thead", null, h("tr", null, h("th", null, t("roles.began")), h("th", null, t("fact.role")), h("th", { class: "num" }, t("fact.epoch")), h("th", null, t("roles.leader")), h("th", { class: "num" }, t("roles.lasted")))),
    h("tbody", null, rows))];
}

export function mount(/** @type {HTMLElement} */ root) {
  const problemPlace = h("div", { "aria-live": "polite" });
  const charts = h("div", { class: "cards" });
  const factPlace = h("section", { class: "card" });
  const memberPlace = h("section", { class: "card" });
  const rolePlace = h("section", { class: "card" });
  fill(root, h("h1", { class: "sr" }, t("nav.overview")), problemPlace, charts, h("div", { class: "columns" }, h("div", { class: "stack" }, memberPlace, rolePlace), factPlace));
  const ended = new AbortController();
  let drawnProblems = "";
  rolePlace.hidden = !self.system.features.includes(/** @type {never} */ ("roles"));
  async function drawRoles() {
    if (rolePlace.hidden) return;
    try {
      const roles = await get("v1/roles", {}, ended.signal);
      fill(rolePlace, h("h2", null, t("roles.title")), h("p", { class: "dim" }, t("roles.explain")), timeline(roles));
    } catch (error) {
      if (!ended.signal.aborted) fill(rolePlace, h("h2", null, t("roles.title")), errorBox(error));
    }
  }
  function draw() {
    const sample = latest();
    if (state.error && !sample) {
      fill(problemPlace, errorBox(state.error));
      return;
    }
    if (!sample) return;
    // Said only when it changes, so that a screen reader does not repeat it.
    const text = JSON.stringify(problems(sample)) + String(state.error);
    if (text !== drawnProblems) {
      drawnProblems = text;
      fill(problemPlace, state.error ? h("div", { class: "banner bad" }, h("span", { class: "dot bad" }), t("bar.lost")) : problemList(sample));
    }
    fill(charts, CHARTS.map(chartCard));
    fill(factPlace, h("h2", null, t("fact.title")), facts(sample));
    fill(memberPlace, h("h2", null, t("member.title")), memberTable(sample));
  }
  const end = onSample(draw);
  void drawRoles();
  const timer = setInterval(() => void (document.hidden || drawRoles()), 5000);
  if (samples.length === 0) fill(charts, h("p", { class: "dim" }, t("state.loading")));
  return {
    destroy() {
      end();
      clearInterval(timer);
      ended.abort();
    },
  };
}
