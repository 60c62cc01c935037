// What is wrong, in sentences, with what to do next. All from numbers that the server tells anyway.
// @ts-check

import { duration, either, millis, t } from "./i18n.js";
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
    const quorum = ensemble.quorum;
    const [up, n] = [quorum?.synchronized?.length ?? 0, quorum?.voters.length ?? 0];
    const critical = quorum?.critical ?? [];
    if (quorum?.synchronized && up < n) {
      if (critical.length === 0) add("warn", "missing", { up, n }, address("ensemble"));
      else if (critical.length === up) add("bad", "lastQuorum", { up, n }, address("ensemble"));
      else add("bad", "critical", { up, n, ids: either(critical) }, address("ensemble"));
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
