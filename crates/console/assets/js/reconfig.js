// A change of the config: servers join, leave or change their role, after a preview of the quorums.
// @ts-check

import { get, request } from "./api.js";
import { button, errorBox, notify, openDialog, typedField } from "./dialog.js";
import { fill, h } from "./dom.js";
import { either, number, t } from "./i18n.js";
import { tag, zxidText } from "./links.js";

const PORTS = { quorum: "2888", election: "3888", client: "2181" };

/** A line `server.N=…` in its parts. */
function parseLine(/** @type {string} */ line) {
  const found = /^server\.(-?\d+)=([^;]*?)(?::(participant|observer))?(;.*)?$/.exec(line);
  return found && { id: found[1], addresses: found[2], role: found[3] ?? "participant", client: found[4] ?? "" };
}

/** The servers as a form. */
class Form {
  constructor(/** @type {any[]} */ servers, /** @type {() => void} */ onchange) {
    this.onchange = onchange;
    this.rows = servers.map((server) => ({ ...server, wanted: server.role, port: "" }));
    this.added = { id: "", host: "", quorum: PORTS.quorum, election: PORTS.election, client: PORTS.client, role: "participant" };
  }

  element() {
    const choice = (/** @type {string} */ label, /** @type {string} */ value, /** @type {string[]} */ names, /** @type {(name: string) => void} */ chosen) => {
      const select = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": label, onchange: () => { chosen(select.value); this.onchange(); } }, names.map((name) => h("option", { value: name, selected: name === value }, t(`reconfig.role.${name}`)))));
      return select;
    };
    const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, any>} */ props = {}) => {
      const input = /** @type {HTMLInputElement} */ (h("input", { id: `reconfig-${name}`, class: "mono", value: /** @type {any} */ (this.added)[name], spellcheck: "false", autocomplete: "off", ...props, oninput: () => { /** @type {any} */ (this.added)[name] = input.value.trim(); this.onchange(); } }));
      return h("label", null, label, input);
    };
    const rows = this.rows.map((row) => {
      // A server that joins needs a client port in its line; one of a static config may have none.
      const port = /** @type {HTMLInputElement} */ (h("input", { class: "mono short", "aria-label": t("reconfig.clientPort"), value: row.port, oninput: () => { row.port = port.value.trim(); this.onchange(); } }));
      return h("tr", null, h("td", { class: "num" }, row.id), h("td", { class: "mono break" }, row.addresses), h("td", null, row.client ? h("span", { class: "mono" }, row.client.slice(1)) : port), h("td", null, choice(t("reconfig.roleOf", { id: row.id }), row.wanted, ["participant", "observer", "leave"], (name) => { row.wanted = name; })));
    });
    return [
      h("div", { class: "wide" }, h("table", { id: "reconfig-servers" }, h("thead", null, h("tr", null, h("th", { class: "num" }, t("member.id")), h("th", null, t("member.address")), h("th", null, t("reconfig.clientPort")), h("th", null, t("fact.role")))), h("tbody", null, rows))),
      h("h3", null, t("reconfig.add")),
      h("div", { class: "filters" }, field("id", t("member.id"), { class: "mono short" }), field("host", t("reconfig.host")), field("quorum", t("reconfig.quorumPort"), { class: "mono short" }), field("election", t("reconfig.electionPort"), { class: "mono short" }), field("client", t("reconfig.clientPort"), { class: "mono short" }), h("label", null, t("fact.role"), choice(t("reconfig.add"), this.added.role, ["participant", "observer"], (name) => { this.added.role = name; }))),
    ];
  }

  /** The change as a request names it; null without any. */
  change() {
    const leaving = this.rows.filter((row) => row.wanted === "leave").map((row) => row.id);
    const joining = this.rows.filter((row) => row.wanted !== "leave" && row.wanted !== row.role).map((row) => `server.${row.id}=${row.addresses}:${row.wanted}${row.client || (row.port ? `;${row.port}` : "")}`);
    const { id, host, quorum, election, client, role } = this.added;
    if (id && host) joining.push(`server.${id}=${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${quorum}:${election}:${role};${client}`);
    if (leaving.length === 0 && joining.length === 0) return null;
    return { joining: joining.join(","), leaving: leaving.join(",") };
  }
}

function ids(/** @type {number[] | null} */ list) {
  if (list === null) return t("reconfig.unknown");
  return list.length === 0 ? "–" : list.join(", ");
}

/** Both configs beside each other. */
function quorumTable(/** @type {any} */ preview) {
  const both = (/** @type {string} */ key, /** @type {(facts: any) => any} */ of) => h("tr", null, h("th", { scope: "row" }, t(key)), h("td", null, of(preview.old)), h("td", null, of(preview.new)));
  const holds = (/** @type {any} */ facts) => (facts.hasQuorum === null ? t("reconfig.unknown") : facts.hasQuorum ? tag(t("reconfig.yes"), "good") : tag(t("reconfig.no"), "bad"));
  return h(
    "div",
    { class: "wide" },
    h(
      "table",
      { id: "reconfig-preview" },
      h("thead", null, h("tr", null, h("td", null), h("th", null, t("reconfig.old")), h("th", null, t("reconfig.new")))),
      h(
        "tbody",
        null,
        both("reconfig.voters", (facts) => ids(facts.voters)),
        both("reconfig.observers", (facts) => ids(facts.observers)),
        both("reconfig.needed", (facts) => (facts.needed === null ? t("reconfig.groups") : number(facts.needed))),
        both("reconfig.losses", (facts) => (facts.toleratedLosses === null ? t("reconfig.groups") : number(facts.toleratedLosses))),
        both("reconfig.synchronized", (facts) => ids(facts.synchronized)),
        both("reconfig.hasQuorum", holds),
        both("reconfig.critical", (facts) => ids(facts.critical)),
      ),
    ),
  );
}

/** What follows, worst first. */
function sentences(/** @type {any} */ preview) {
  /** @type {[string, string][]} */
  const lines = [];
  const { old, new: next } = preview;
  if (next.hasQuorum === false) lines.push(["bad", t("reconfig.noQuorum", { ids: ids(next.synchronized) })]);
  if (next.hasQuorum === null) lines.push(["warn", t("reconfig.askLeader", { id: String(preview.leader ?? "?") })]);
  if (preview.leaderStays === false) lines.push(["warn", t("reconfig.leaderLeaves", { id: String(preview.leader) })]);
  const critical = next.critical?.length ?? 0;
  if (next.hasQuorum && critical > 0) lines.push(["warn", t("reconfig.criticalNow", { ids: either(next.critical) })]);
  if (next.toleratedLosses !== null && old.toleratedLosses !== null && next.toleratedLosses < old.toleratedLosses) lines.push(["warn", t("reconfig.fewer", { before: old.toleratedLosses, n: next.toleratedLosses })]);
  if (!next.groups && next.voters.length % 2 === 0) lines.push(["warn", t("reconfig.even", { n: next.voters.length })]);
  if (next.toleratedLosses !== null) lines.push([next.toleratedLosses === 0 ? "warn" : "", next.toleratedLosses === 0 ? t("reconfig.noLoss") : t("reconfig.loss", { n: next.toleratedLosses })]);
  return lines;
}

export async function reconfigDialog() {
  let current;
  try {
    current = await get("v1/reconfig");
  } catch (error) {
    openDialog(t("reconfig.title"), (body, foot, close) => {
      fill(body, errorBox(error));
      fill(foot, button(t("action.close"), close));
    });
    return;
  }
  const servers = current.old.servers.map(parseLine).filter(Boolean);
  openDialog(t("reconfig.title"), (body, foot, close, signal) => {
    const place = h("div", { class: "stack", role: "status" });
    const form = new Form(servers, () => { fill(place); fill(foot, button(t("action.cancel"), close), plan); });
    const plan = h("button", { type: "button", class: "primary", id: "reconfig-plan", onclick: () => void preview() }, t("reconfig.plan"));
    fill(body, h("p", { class: "dim" }, t("reconfig.explain"), " ", t("ensemble.configVersion"), " ", zxidText(current.version)), current.old.groups ? h("div", { class: "banner warn" }, t("reconfig.hasGroups")) : null, form.element(), place);
    fill(foot, button(t("action.cancel"), close), plan);
    async function preview() {
      const change = form.change();
      if (!change) {
        fill(place, h("p", { class: "bad" }, t("reconfig.nothing")));
        return;
      }
      try {
        const found = await get("v1/reconfig", change, signal);
        const run = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "danger", id: "reconfig-run", onclick: () => void apply(change, found.version, run) }, t("reconfig.deed")));
        fill(place, h("ul", { class: "consequences" }, sentences(found).map(([kind, text]) => h("li", { class: kind }, text))), quorumTable(found), h("p", { class: "mono dim break" }, change.joining ? `joining=${change.joining} ` : "", change.leaving ? `leaving=${change.leaving}` : ""), typedField("reconfig", run), h("div", { id: "reconfig-outcome" }));
        fill(foot, button(t("action.cancel"), close), plan, run);
      } catch (error) {
        if (!signal.aborted) fill(place, errorBox(error));
      }
    }
    async function apply(/** @type {any} */ change, /** @type {string} */ from, /** @type {HTMLButtonElement} */ run) {
      run.disabled = true;
      const outcome = /** @type {HTMLElement} */ (document.getElementById("reconfig-outcome"));
      fill(outcome, t("operate.running"));
      try {
        const answer = await (await request("POST", "v1/reconfig", { body: JSON.stringify({ ...change, from }), signal })).json();
        close();
        notify(t("reconfig.done", { version: answer.version ?? "" }));
      } catch (error) {
        if (!signal.aborted) fill(outcome, errorBox(error));
      }
    }
  }, "wide");
}
