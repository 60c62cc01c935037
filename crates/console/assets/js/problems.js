// What is wrong, in sentences, with what to do next. All from numbers that the server tells anyway.
// @ts-check

import { duration, millis, t } from "./i18n.js";
import { address } from "./router.js";

/** @typedef {{kind: "bad" | "warn", text: string, next: string, url: string | null}} Problem */

const LAG_MAX = 1000n;
const QUEUE_MAX = 500;
const SNAPSHOT_AGE_MS = 7 * 24 * 3600 * 1000;
const FSYNC_MS = 100;
const FILES_SHARE = 0.85;

/** The zxids of one epoch that are between two. */
export function lagOf(/** @type {string} */ ahead, /** @type {string} */ behind) {
  const [first, second] = [BigInt(ahead), BigInt(behind)];
  if (first >> 32n !== second >> 32n) return null;
  return first > second ? first - second : 0n;
}

/** The servers of the config that vote. */
export function voters(/** @type {any} */ ensemble) {
  return (ensemble?.config?.servers ?? []).filter((/** @type {any} */ server) => server.role === "participant");
}

/** @param {{stats: any, ensemble: any}} sample @returns {Problem[]} */
export function problems({ stats, ensemble }) {
  /** @type {Problem[]} */
  const list = [];
  const add = (/** @type {"bad" | "warn"} */ kind, /** @type {string} */ key, /** @type {Record<string, any>} */ values = {}, /** @type {string | null} */ url = null) =>
    list.push({ kind, text: t(`problem.${key}`, values), next: t(`problem.${key}.next`), url });
  const values = stats.values ?? {};
  if (!stats.role) add("bad", "noRole", {}, address("ensemble"));
  else if (stats.role === "read-only") add("bad", "readOnly", {}, address("ensemble"));
  if (ensemble?.role === "leader") {
    const all = voters(ensemble);
    const synced = new Set(ensemble.learners.filter((/** @type {any} */ learner) => learner.synced).map((/** @type {any} */ learner) => learner.id));
    const up = all.filter((/** @type {any} */ server) => server.isSelf || synced.has(server.id)).length;
    const need = Math.floor(all.length / 2) + 1;
    if (all.length > 1 && up < all.length) {
      add(up - 1 < need ? "bad" : "warn", up - 1 < need ? "lastQuorum" : "missing", { up, n: all.length }, address("ensemble"));
    }
    for (const learner of ensemble.learners) {
      const lag = lagOf(ensemble.zxid, learner.ackedZxid);
      if (lag !== null && lag > LAG_MAX) add("warn", "lag", { id: String(learner.id), n: Number(lag) }, address("ensemble"));
    }
  }
  if (stats.hasMntr === false) add("warn", "noMntr");
  if (stats.outstanding > QUEUE_MAX) add("warn", "queue", { n: stats.outstanding });
  const fsync = Number(values.avg_fsynctime);
  if (fsync > FSYNC_MS) add("warn", "fsync", { time: millis(fsync) });
  const [open, max] = [Number(values.open_file_descriptor_count), Number(values.max_file_descriptor_count)];
  if (max > 0 && open / max > FILES_SHARE) add("bad", "files", { n: open, max });
  if (stats.lastSnapshot && Date.now() - stats.lastSnapshot.writtenMs > SNAPSHOT_AGE_MS && Number(stats.zxid) > 100000) {
    add("warn", "snapshot", { time: duration(Date.now() - stats.lastSnapshot.writtenMs) });
  }
  return list;
}
