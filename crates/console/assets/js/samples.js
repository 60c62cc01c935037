// Asks for the numbers of the server while the page is seen, and remembers the last minutes for the charts.
// @ts-check

import { get } from "./api.js";

const INTERVAL_MS = 2000;
const SAMPLES_MAX = 180;

/** @typedef {{at: number, stats: any, ensemble: any}} Sample */

/** @type {Sample[]} */
export const samples = [];
/** @type {Set<() => void>} */
const listeners = new Set();
/** The last error, until an answer comes. */
export const state = { error: /** @type {Error | null} */ (null) };
let timer = 0;

async function ask() {
  try {
    const [stats, ensemble] = await Promise.all([get("v1/stats"), get("v1/ensemble").catch(() => null)]);
    samples.push({ at: performance.now(), stats, ensemble });
    if (samples.length > SAMPLES_MAX) samples.shift();
    state.error = null;
  } catch (error) {
    state.error = /** @type {Error} */ (error);
  }
  listeners.forEach((listener) => listener());
}

async function loop() {
  if (!document.hidden) await ask();
  timer = window.setTimeout(loop, INTERVAL_MS);
}

/** Begins to ask. */
export function startSampling() {
  if (timer === 0) void loop();
}

/** Calls back after each answer; returns the end of it. */
export function onSample(/** @type {() => void} */ listener) {
  listeners.add(listener);
  if (samples.length > 0 || state.error) listener();
  return () => {
    listeners.delete(listener);
  };
}

export function latest() {
  return samples.at(-1) ?? null;
}

/** A counter's change per second between samples. A counter that fell was reset. */
export function rates(/** @type {(stats: any) => number} */ counter) {
  const list = [];
  for (let index = 1; index < samples.length; index += 1) {
    const [before, after] = [samples[index - 1], samples[index]];
    const seconds = (after.at - before.at) / 1000;
    const change = counter(after.stats) - counter(before.stats);
    list.push(change >= 0 && seconds < 30 ? change / seconds : null);
  }
  return list;
}

/** A number of each sample. */
export function gauges(/** @type {(stats: any) => number} */ gauge) {
  return samples.map((sample) => {
    const value = gauge(sample.stats);
    return Number.isFinite(value) ? value : null;
  });
}
