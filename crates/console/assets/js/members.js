// The servers of the ensemble: roles, how far they are, and how many may fail.
// @ts-check

import { self } from "./api.js";
import { h } from "./dom.js";
import { number, t } from "./i18n.js";
import { tag, zxidText } from "./links.js";
import { lagOf } from "./problems.js";

function addressOf(/** @type {any} */ server) {
  const first = server.addresses[0];
  return server.client ?? (first ? `${first.host}:${first.quorumPort}` : "–");
}

/** The role that a server has now, as far as this one knows; else that of the config. */
function roleOf(/** @type {any} */ server, /** @type {any} */ learner, /** @type {any} */ ensemble) {
  if (server.isLeader) return "leader";
  if (server.role === "observer") return "observer";
  return learner || (server.isSelf && ensemble.role) ? "follower" : "voter";
}

function rowOf(/** @type {any} */ server, /** @type {any} */ ensemble) {
  const learner = ensemble.learners.find((/** @type {any} */ known) => known.id === server.id);
  const isLeader = server.isLeader;
  const zxid = server.isSelf ? ensemble.zxid : learner?.ackedZxid ?? null;
  const lag = zxid && ensemble.role === "leader" ? lagOf(ensemble.zxid, zxid) : null;
  let state = h("span", { class: "dim" }, t("member.unknown"));
  if (server.isSelf) state = tag(t("member.here"), "good");
  else if (learner) state = learner.synced ? tag(t("member.synced"), "good") : tag(t("member.syncing"), "warn");
  else if (ensemble.role === "leader") state = tag(t("member.missing"), "bad");
  else if (isLeader) state = tag(t("member.leads"), "good");
  const role = roleOf(server, learner, ensemble);
  return h(
    "tr",
    null,
    h("td", { class: "num" }, server.id),
    h("td", { class: "mono" }, addressOf(server)),
    h("td", null, tag(role === "voter" ? t("role.voter") : role, role)),
    h("td", null, zxid ? zxidText(zxid) : h("span", { class: "dim" }, "–")),
    h("td", { class: "num" }, lag === null ? "–" : number(Number(lag))),
    h("td", null, state),
  );
}

/** How many servers may fail. */
export function quorumSentence(/** @type {any} */ ensemble) {
  const { quorum } = ensemble;
  if (!quorum) return "";
  if (quorum.voters.length < 2) return t("member.standalone");
  const spare = quorum.toleratedLosses;
  const mayFail = spare === null ? "" : ` ${spare === 0 ? t("member.noneMayFail") : t("member.mayFail", { n: spare })}`;
  const needed = quorum.groups ? t("member.byGroups") : t("member.quorum", { need: quorum.needed, n: quorum.voters.length });
  return needed + mayFail;
}

/** @param {{stats: any, ensemble: any}} sample */
export function memberTable({ stats, ensemble }) {
  if (!ensemble?.config) return h("div", { class: "empty" }, h("p", { class: "strong" }, t("member.standalone")), h("p", null, t("member.standaloneMore")));
  const observers = ensemble.role === "leader" || self.system.product === "remote" ? null : h("p", { class: "dim" }, t("member.askLeader"));
  return [
    h(
      "div",
      { class: "wide" },
      h("table", null,
        h("thead", null, h("tr", null, h("th", { class: "num" }, t("member.id")), h("th", null, t("member.address")), h("th", null, t("fact.role")), h("th", null, "zxid"), h("th", { class: "num" }, t("member.lag")), h("th", null, t("member.state")))),
        h("tbody", null, ensemble.config.servers.map((/** @type {any} */ server) => rowOf(server, ensemble)))),
    ),
    h("p", { class: "dim" }, quorumSentence(ensemble), stats.role === null ? ` ${t("role.none")}` : ""),
    observers,
  ];
}
