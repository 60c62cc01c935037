// Locks as queues, elections, groups, services and queues, found by the names of their nodes.
// @ts-check

import { get, readListing, readNode } from "../api.js";
import { fromBase64, toText } from "../bytes.js";
import { emptyBox, errorBox } from "../dialog.js";
import { fill, h } from "../dom.js";
import { ago, duration, exact, number, t } from "../i18n.js";
import { nodeLink, sessionLink, tag, tokenText } from "../links.js";
import { join, pathProblem, shown } from "../path.js";
import { isByName, isQueue, KINDS, kindOf, nameGuards, sequenceOf, shortName, turns } from "../recipe_kinds.js";
import { remember } from "../router.js";
import { walk } from "../transfer.js";

const GROUPS_MAX = 100;
const CHILDREN_SHOWN = 8;
const CHILDREN_READ = 200;
const LONG_HOLD_MS = 3600 * 1000;
const DATA_SHOWN = 60;
/** Nodes of the server's own bookkeeping. */
const OWN = /^\/zookeeper(\/|$)/;

/** @typedef {{path: string, kind: string, total: number, rows: {child: any, part: string}[], waiting: number, since: number | null, isStuck: boolean}} Recipe */

/** Clients by their session, asked once per look. */
class Clients {
  constructor() {
    /** @type {Map<string, Promise<any>>} */
    this.known = new Map();
  }
  /** @param {string} id */
  of(id) {
    const asked = this.known.get(id) ?? get(`v1/sessions/${id}`).catch(() => null);
    this.known.set(id, asked);
    return asked;
  }
}

async function dataText(/** @type {string} */ path) {
  try {
    const text = toText(fromBase64((await readNode(path)).base64));
    return text === null ? null : text.slice(0, DATA_SHOWN);
  } catch {
    return null;
  }
}

/** Sequential children with the lowest numbers where there are any, else children by name. */
async function readChildren(/** @type {string} */ path, /** @type {boolean} */ isSequential) {
  const listing = await readListing(path, { limit: CHILDREN_READ, order: isSequential ? "sequence" : "name" });
  // A child that this login may not read still has its turn.
  const isPart = (/** @type {any} */ item) => !item.gone && (isSequential ? true : item.lifetime === "ephemeral" || sequenceOf(item.name) !== null);
  return { all: listing.items, children: listing.items.filter(isPart), total: isSequential ? listing.sequential : listing.total };
}

/** @returns {Promise<Recipe | null>} */
async function recognise(/** @type {string} */ path, /** @type {boolean} */ isSequential) {
  let found = await readChildren(path, isSequential);
  // The walk may have ended in front of the sequential children.
  if (!isSequential && found.children.some((/** @type {any} */ child) => sequenceOf(child.name) !== null)) return recognise(path, true);
  if (found.children.length === 0) return null;
  const firstData = () => dataText(join(path, found.children[0].name));
  const kind = await kindOf({ path, children: found.children, firstData, parentData: () => dataText(path) });
  if (isByName(kind)) found = await readChildren(path, false);
  if (found.children.length === 0) return null;
  const isReady = found.all.some((/** @type {any} */ item) => item.name === "ready" && !item.gone);
  const rows = turns(kind, found.children, isReady);
  const left = Math.max(0, found.total - found.all.length);
  const waiting = rows.filter((row) => row.part === "waits").length + (isQueue(kind) ? left : 0);
  const since = rows[0].child.stat?.ctime ?? null;
  const isStuck = isQueue(kind) && kind !== "sequence" && rows.some(({ child, part }) => part === "holds" && child.stat && child.lifetime !== "ephemeral");
  return { path, kind, total: found.total - (isReady && !isSequential ? 1 : 0), rows, waiting, since, isStuck };
}

/** The cells of a child that this login may see. */
function facts(/** @type {string} */ path, /** @type {any} */ child, /** @type {Clients} */ clients) {
  const client = h("td", { class: "mono client" }, h("span", { class: "dim" }, "…"));
  const data = h("td", { class: "mono dim break data-text" });
  const owner = child.stat.ephemeralOwner;
  if (owner === "0x0") fill(client, h("span", { class: "dim" }, t("recipes.noOwner")));
  else {
    void clients.of(owner).then((session) => {
      fill(client, session === null ? h("span", { class: "bad" }, t("recipes.noSession")) : session.connection ? shown(session.connection.remote) : h("span", { class: "dim" }, t("recipes.elsewhere")));
    });
  }
  if (child.stat.dataLength > 0) void dataText(path).then((text) => fill(data, text === null ? t("search.binary") : shown(text)));
  return [
    client,
    h("td", { class: "session" }, owner === "0x0" ? "–" : sessionLink(owner)),
    data,
    h("td", { class: "token", "data-label": t("recipes.token") }, tokenText(child.stat.czxid)),
    h("td", { class: "num age" }, h("time", { title: exact(child.stat.ctime) }, duration(Date.now() - child.stat.ctime))),
  ];
}

function row(/** @type {Recipe} */ recipe, /** @type {{child: any, part: string}} */ { child, part }, /** @type {number} */ index, /** @type {Clients} */ clients) {
  const path = join(recipe.path, child.name);
  const kinds = { holds: "leader", waits: "", member: "", item: "" };
  return h(
    "tr",
    { class: part === "holds" ? "holds" : "" },
    h("td", { class: "place num" }, number(index + 1)),
    h("td", { class: "part" }, tag(t(`part.${part}`), kinds[/** @type {keyof typeof kinds} */ (part)])),
    h("td", { class: "name" }, nodeLink(path, shortName(child.name))),
    child.stat ? facts(path, child, clients) : h("td", { class: "dim client", colspan: "5" }, t("recipes.hidden")),
  );
}

function card(/** @type {Recipe} */ recipe, /** @type {Clients} */ clients) {
  const marks = [];
  if (recipe.waiting > 0) marks.push(tag(t("recipes.waiting", { n: recipe.waiting }), recipe.waiting > 10 ? "warn" : ""));
  if (isQueue(recipe.kind) && recipe.waiting > 0 && recipe.since !== null && Date.now() - recipe.since > LONG_HOLD_MS) marks.push(tag(t("recipes.long"), "warn"));
  if (recipe.isStuck) marks.push(tag(t("recipes.stuck"), "bad"));
  const head = ["#", t("recipes.part"), t("recipes.node"), t("recipes.client"), t("recipes.session"), t("search.data"), t("recipes.token"), t("recipes.since")];
  const left = recipe.total - Math.min(recipe.rows.length, CHILDREN_SHOWN);
  const since = isQueue(recipe.kind) && recipe.since !== null ? t("recipes.held", { time: ago(recipe.since) }) : t("recipes.count", { n: recipe.total });
  return h(
    "section",
    { class: "card queue", "data-kind": recipe.kind },
    h("header", null, h("h2", null, nodeLink(recipe.path)), h("span", { class: "strong" }, t(`recipe.${recipe.kind}`)), h("span", { class: "dim" }, since), marks),
    h("div", { class: "wide" }, h("table", null, h("thead", null, h("tr", null, head.map((text, index) => h("th", { class: index === 0 || index === 7 ? "num" : "" }, text)))), h("tbody", null, recipe.rows.slice(0, CHILDREN_SHOWN).map((entry, index) => row(recipe, entry, index, clients))))),
    left > 0 ? h("p", { class: "dim" }, t("recipes.more", { n: left })) : null,
  );
}

export function mount(/** @type {HTMLElement} */ root, /** @type {URLSearchParams} */ params) {
  const under = /** @type {HTMLInputElement} */ (h("input", { id: "recipes-under", class: "mono", value: params.get("under") ?? "/" }));
  const kind = /** @type {HTMLSelectElement} */ (h("select", { id: "recipes-kind" }, h("option", { value: "" }, t("recipes.all")), KINDS.map((name) => h("option", { value: name, selected: name === params.get("kind") }, t(`recipe.${name}`)))));
  const waiters = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: params.get("waiters") === "1" }));
  const status = h("div", { class: "progress", role: "status" });
  const place = h("div");
  /** @type {Recipe[]} */
  let found = [];
  let running = new AbortController();

  async function look(/** @type {Event | null} */ event) {
    event?.preventDefault();
    running.abort();
    running = new AbortController();
    const own = running;
    const wrong = pathProblem(under.value);
    if (wrong) {
      fill(status, h("span", { class: "bad" }, t(wrong)));
      return;
    }
    found = [];
    try {
      /** @type {Map<string, number>} The parents with how many of their children are sequential. */
      const paths = new Map();
      let visited = 0;
      for await (const page of walk(under.value, { groups: true, limit: 200, visit: 50000 }, own.signal)) {
        visited += page.visited;
        page.groups.forEach((/** @type {any} */ group) => OWN.test(group.path) || paths.set(group.path, (paths.get(group.path) ?? 0) + group.sequential));
        fill(status, t("recipes.looking", { visited, n: paths.size }));
        if (paths.size >= GROUPS_MAX) break;
      }
      for (const [path, sequential] of [...paths].slice(0, GROUPS_MAX)) {
        const recipe = await recognise(path, sequential > 0).catch(() => null);
        if (own.signal.aborted) return;
        if (recipe) found.push(recipe);
      }
      nameGuards(found);
      found.sort((a, b) => b.waiting - a.waiting || Number(isQueue(b.kind)) - Number(isQueue(a.kind)) || a.path.localeCompare(b.path));
      draw();
      if (paths.size >= GROUPS_MAX) status.append(` ${t("recipes.cut", { n: GROUPS_MAX })}`);
    } catch (error) {
      if (!own.signal.aborted) {
        fill(status);
        fill(place, errorBox(error));
      }
    }
  }

  function draw() {
    remember("recipes", { under: under.value === "/" ? null : under.value, kind: kind.value, waiters: waiters.checked ? 1 : null });
    const list = found.filter((recipe) => (!kind.value || recipe.kind === kind.value) && (!waiters.checked || recipe.waiting > 0));
    fill(status, t("recipes.found", { n: list.length }), list.length < found.length ? ` ${t("recipes.of", { n: found.length })}` : "");
    const clients = new Clients();
    fill(place, list.length === 0 ? emptyBox(t("recipes.none"), t("recipes.noneMore")) : list.map((recipe) => card(recipe, clients)));
  }

  kind.addEventListener("change", draw);
  waiters.addEventListener("change", draw);
  fill(
    root,
    h("div", { class: "head" }, h("h1", null, t("nav.recipes")), h("p", null, t("recipes.explain"))),
    h("form", { onsubmit: look }, h("div", { class: "filters" }, h("label", null, t("search.under"), under), h("label", null, t("recipes.kind"), kind), h("label", { class: "check" }, waiters, t("recipes.onlyWaiters")), h("button", { type: "submit", class: "primary", id: "recipes-run" }, t("action.reload")))),
    status,
    place,
  );
  void look(null);
  return { destroy: () => running.abort() };
}
