// The stat of a node with the meaning of each number, and its quota.
// @ts-check

import { readNode } from "./api.js";
import { fromBase64, toText } from "./bytes.js";
import { fill, h } from "./dom.js";
import { bytes, exact, ago, number, t } from "./i18n.js";
import { sessionLink, zxidText } from "./links.js";
import { join } from "./path.js";

const QUOTA = "/zookeeper/quota";

export async function statTab(/** @type {HTMLElement} */ place, /** @type {any} */ node) {
  const { stat, lifetime, ttlMs } = node;
  const time = (/** @type {number} */ at) => (at > 0 ? [exact(at), h("span", { class: "dim" }, ` · ${ago(at)}`)] : "–");
  const rows = [
    ["czxid", zxidText(stat.czxid)],
    ["ctime", time(stat.ctime)],
    ["mzxid", zxidText(stat.mzxid)],
    ["mtime", time(stat.mtime)],
    ["pzxid", zxidText(stat.pzxid)],
    ["version", number(stat.version)],
    ["cversion", number(stat.cversion)],
    ["aversion", number(stat.aversion)],
    ["ephemeralOwner", stat.ephemeralOwner === "0x0" ? h("span", { class: "dim" }, t("stat.noOwner")) : sessionLink(stat.ephemeralOwner)],
    ["dataLength", `${bytes(stat.dataLength)}${stat.dataLength >= 1024 ? ` (${number(stat.dataLength)})` : ""}`],
    ["numChildren", number(stat.numChildren)],
  ];
  const quota = h("div");
  fill(
    place,
    h("p", { class: "sentence" }, t(`lifetimeText.${lifetime}`, { ttl: number((ttlMs ?? 0) / 1000) })),
    h("div", { class: "wide" }, h("table", { class: "stat" }, h("tbody", null, rows.map(([name, content]) => h("tr", null, h("th", { scope: "row", class: "mono" }, name), h("td", null, content), h("td", { class: "dim meaning" }, t(`stat.${name}`))))))),
    h("h3", null, t("quota.title")),
    quota,
  );
  await quotaPart(quota, node.path);
}

/** Limits are text such as `count=5,bytes=-1`. */
function parseLimits(/** @type {string} */ text) {
  const pairs = text.split(/[,;]/).map((pair) => pair.split("="));
  return new Map(pairs.filter((pair) => pair.length === 2).map(([name, value]) => [name.trim(), Number(value)]));
}

async function quotaPart(/** @type {HTMLElement} */ place, /** @type {string} */ path) {
  if (path === "/") {
    fill(place, h("p", { class: "dim" }, t("quota.none")));
    return;
  }
  const base = QUOTA + path;
  const read = async (/** @type {string} */ name) => {
    const node = await readNode(join(base, name));
    return parseLimits(toText(fromBase64(node.base64)) ?? "");
  };
  try {
    const [limits, used] = await Promise.all([read("zookeeper_limits"), read("zookeeper_stats")]);
    const row = (/** @type {string} */ key, /** @type {string} */ label, /** @type {(x: number) => string} */ form) => {
      const [soft, hard] = [limits.get(key) ?? -1, limits.get(`${key}HardLimit`) ?? -1];
      const limit = (/** @type {number} */ value) => (value < 0 ? h("span", { class: "dim" }, t("quota.unlimited")) : form(value));
      const amount = used.get(key) ?? 0;
      const isOver = (soft >= 0 && amount > soft) || (hard >= 0 && amount > hard);
      return h("tr", null, h("th", { scope: "row" }, label), h("td", { class: `num ${isOver ? "bad" : ""}` }, form(amount)), h("td", { class: "num" }, limit(soft)), h("td", { class: "num" }, limit(hard)));
    };
    const head = ["", t("quota.used"), t("quota.soft"), t("quota.hard")];
    fill(place, h("table", null, h("thead", null, h("tr", null, head.map((text, index) => h("th", { class: index > 0 ? "num" : "" }, text)))), h("tbody", null, row("count", t("quota.count"), (x) => number(x)), row("bytes", t("quota.bytes"), bytes))));
  } catch {
    fill(place, h("p", { class: "dim" }, t("quota.none")));
  }
}
