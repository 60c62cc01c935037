// The servers, the quorum and what a loss would mean, the config, and the digests that show equal trees.
// @ts-check

import { get, readNode, self } from "../api.js";
import { fromBase64, toText } from "../bytes.js";
import { errorBox } from "../dialog.js";
import { fill, h } from "../dom.js";
import { number, t } from "../i18n.js";
import { copyButton, tag, zxidText } from "../links.js";
import { memberTable } from "../members.js";
import { OperateCard, digestComparison } from "../operate.js";
import { shown } from "../path.js";
import { latest, onSample } from "../samples.js";

const DIGESTS_SHOWN = 10;

/** What follows when none, one, two, … voters are lost. */
function losses(/** @type {any} */ ensemble) {
  const quorum = ensemble?.quorum;
  if (!quorum?.losses || quorum.voters.length < 2) return null;
  const spare = (/** @type {number} */ lost) => {
    const more = quorum.toleratedLosses - lost;
    return more > 0 ? t("quorum.spare", { n: more }) : t("quorum.spareNone");
  };
  const rows = quorum.losses.map((/** @type {any} */ loss) => {
    const left = quorum.voters.length - loss.lost;
    const marks = { always: ["quorum.serves", "good"], sometimes: ["quorum.depends", "warn"], never: ["quorum.stops", "bad"] };
    const [text, kind] = marks[/** @type {keyof typeof marks} */ (loss.quorum)];
    const missing = quorum.needed === null ? "" : t("quorum.missing", { n: quorum.needed - left });
    const more = loss.quorum === "always" ? spare(loss.lost) : loss.quorum === "never" ? missing : t("quorum.dependsMore");
    return h("tr", null, h("td", { class: "num" }, number(loss.lost)), h("td", { class: "num" }, number(left)), h("td", null, tag(t(text), kind)), h("td", { class: "dim" }, more));
  });
  return h("section", { class: "card" }, h("h2", null, t("quorum.title")), h("table", null, h("thead", null, h("tr", null, h("th", { class: "num" }, t("quorum.lost")), h("th", { class: "num" }, t("quorum.left")), h("th", null, t("quorum.writes")), h("th", null, t("quorum.then")))), h("tbody", null, rows)));
}

export function mount(/** @type {HTMLElement} */ root) {
  const memberPlace = h("section", { class: "card" });
  const lossPlace = h("div");
  const configPlace = h("section", { class: "card" });
  const digestPlace = h("section", { class: "card" });
  const comparePlace = h("section", { class: "card", id: "digests" }, h("h2", null, t("digest.compareTitle")), h("p", { class: "dim" }, t("digest.compareExplain")), digestComparison());
  const operate = new OperateCard();
  fill(root, h("div", { class: "head" }, h("h1", null, t("nav.ensemble")), h("p", null, t("ensemble.explain"))), memberPlace, h("div", { class: "columns spaced" }, h("div", { class: "stack" }, lossPlace, operate.element, configPlace), h("div", { class: "stack" }, comparePlace, digestPlace)));
  const ended = new AbortController();

  function draw() {
    const sample = latest();
    if (!sample) return;
    fill(memberPlace, h("h2", null, t("member.title")), memberTable(sample));
    fill(lossPlace, losses(sample.ensemble));
    comparePlace.hidden = !sample.ensemble?.config || !self.system.features.includes(/** @type {never} */ ("digests"));
    operate.look();
  }

  async function drawConfig() {
    try {
      const node = await readNode("/zookeeper/config", ended.signal);
      const text = toText(fromBase64(node.base64)) ?? "";
      const version = /^version=(.+)$/m.exec(text);
      fill(configPlace, h("h2", null, t("ensemble.config"), " ", text.trim() ? copyButton(text, t("ensemble.copyConfig")) : null), text.trim() ? h("pre", { class: "data mono wrap", tabindex: "0" }, shown(text).replace(/\\u000a/g, "\n")) : h("p", { class: "dim" }, t("ensemble.noConfig")), version ? h("p", { class: "dim" }, t("ensemble.configVersion"), " ", zxidText(`0x${version[1].trim()}`)) : null);
    } catch (error) {
      if (!ended.signal.aborted) fill(configPlace, h("h2", null, t("ensemble.config")), errorBox(error));
    }
  }

  async function drawDigests() {
    try {
      const digest = await get("v1/digest", {}, ended.signal);
      const rows = [{ zxid: digest.zxid, digest: digest.digest }, ...digest.history.reverse()].slice(0, DIGESTS_SHOWN);
      fill(digestPlace, h("h2", null, t("digest.title")), h("p", { class: "dim" }, t("digest.explain")), h("table", null, h("thead", null, h("tr", null, h("th", null, "zxid"), h("th", null, t("digest.digest")))), h("tbody", null, rows.map((row) => h("tr", null, h("td", null, zxidText(row.zxid)), h("td", { class: "mono break" }, row.digest))))));
    } catch (error) {
      if (!ended.signal.aborted) fill(digestPlace, h("h2", null, t("digest.title")), errorBox(error));
    }
  }

  const end = onSample(draw);
  void drawConfig();
  void drawDigests();
  const timer = setInterval(() => void (document.hidden || drawDigests()), 5000);
  return {
    destroy() {
      end();
      operate.destroy();
      clearInterval(timer);
      ended.abort();
    },
  };
}
