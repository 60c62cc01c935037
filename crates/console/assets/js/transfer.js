// Walks, exports and imports of subtrees.
// @ts-check

import { request, scan } from "./api.js";
import { t } from "./i18n.js";
import { nameOf } from "./path.js";

const FORMAT = "zebu-export-1";
const OPS_PER_MULTI = 100;
const BYTES_PER_MULTI = 400_000;

/** All pages of a walk. Nodes that are visited twice, because others were deleted, are told once. */
export async function* walk(/** @type {string} */ path, /** @type {Record<string, any>} */ query, /** @type {AbortSignal} */ signal) {
  let after = null;
  let afterCzxid = null;
  let jumped = false;
  const seen = new Set();
  for (;;) {
    const page = await scan(path, { ...query, after, afterCzxid }, signal);
    jumped ||= page.jumped;
    page.items = page.items.filter((/** @type {any} */ item) => !seen.has(item.path));
    if (jumped || page.next !== null) page.items.forEach((/** @type {any} */ item) => seen.add(item.path));
    yield page;
    if (page.next === null) return;
    after = page.next;
    // The console over the client protocol has none.
    afterCzxid = page.nextCzxid ?? null;
  }
}

/** Whether a node outlives its session. */
export function isPersistent(/** @type {any} */ item) {
  return item.lifetime !== "ephemeral";
}

/** The operation that creates a node anew. A reader without the permission ADMIN sees no digests, so cannot copy them. */
export function createOp(/** @type {any} */ node, /** @type {string} */ path) {
  if (!node.acl || node.acl.some((/** @type {any} */ entry) => entry.scheme === "digest" && entry.id.endsWith(":x"))) {
    throw new Error(t("transfer.maskedAcl", { path: node.path }));
  }
  const data = node.base64 === null ? { data: null } : { base64: node.base64 };
  const mode = node.lifetime === "container" ? { mode: "container" } : {};
  const ttl = node.lifetime === "ttl" ? { ttl: node.ttlMs } : {};
  return { create: path, ...data, ...mode, ...ttl, acl: node.acl };
}

/** Saves a subtree as a file. */
export async function saveFile(/** @type {string} */ path, /** @type {AbortSignal} */ signal, /** @type {(count: number) => void} */ onprogress) {
  /** @type {string[]} */
  const lines = [];
  for await (const page of walk(path, { base64: true, acl: true, limit: 500 }, signal)) {
    for (const item of page.items) {
      lines.push(JSON.stringify({ path: item.path, lifetime: item.lifetime, ttlMs: item.ttlMs, base64: item.base64, acl: item.acl }));
    }
    onprogress(lines.length);
  }
  const head = JSON.stringify({ format: FORMAT, root: path, nodes: lines.length, at: new Date().toISOString() });
  const file = new Blob([`${[head, ...lines].join("\n")}\n`], { type: "application/octet-stream" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `${nameOf(path) === "/" ? "root" : nameOf(path)}-${new Date().toISOString().slice(0, 10)}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return lines.length;
}

/** Reads an export. Throws a sentence's key if it is none. */
export function parseExport(/** @type {string} */ text) {
  const lines = text.split("\n").filter(Boolean);
  const head = parseLine(lines[0] ?? "");
  if (head?.format !== FORMAT) throw new Error("import.notExport");
  const nodes = lines.slice(1).map(parseLine);
  const isNode = (/** @type {any} */ node) => typeof node?.path === "string" && node.path.startsWith("/") && (node.base64 === null || typeof node.base64 === "string");
  if (!nodes.every(isNode)) throw new Error("import.damaged");
  return { root: String(head.root), nodes };
}

function parseLine(/** @type {string} */ line) {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** Writes nodes in transactions of bounded size; tells how many were written. */
export async function importNodes(/** @type {any[]} */ nodes, /** @type {(node: any) => any} */ operation, /** @type {AbortSignal} */ signal, /** @type {(count: number) => void} */ onprogress) {
  let written = 0;
  while (written < nodes.length) {
    const ops = [];
    let size = 0;
    while (written + ops.length < nodes.length && ops.length < OPS_PER_MULTI && size < BYTES_PER_MULTI) {
      const op = operation(nodes[written + ops.length]);
      size += JSON.stringify(op).length;
      ops.push(op);
    }
    await request("POST", "v1/multi", { body: JSON.stringify({ ops }), signal });
    written += ops.length;
    onprogress(written);
  }
  return written;
}
