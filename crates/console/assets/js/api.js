// Requests to the console's server. Every change shows the token of this page; every error has a sentence.
// @ts-check

import { has, t } from "./i18n.js";

const BASE = new URL("api/", new URL(".", location.href));
/** What the server said about itself and this browser. */
export const self = { user: null, csrf: "", mayWrite: false, build: "", system: { product: "", version: "", features: [], servers: "" } };

/** A refused request. */
export class ApiError extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    const code = body?.code ?? (status === 0 ? "NETWORK" : "HTTP");
    super(has(`error.${code}`) ? t(`error.${code}`) : body?.detail ?? t("error.HTTP", { status }));
    this.status = status;
    this.code = code;
    this.detail = body?.detail ?? "";
    this.body = body;
  }
}

/** The part of an address that names a node. */
export function encodePath(/** @type {string} */ path) {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** @param {string} method @param {string} path @param {{query?: Record<string, any>, body?: any, headers?: Record<string, string>, signal?: AbortSignal}} options */
export async function request(method, path, options = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined && value !== null && value !== false) url.searchParams.set(name, value === true ? "" : String(value));
  }
  /** @type {Record<string, string>} */
  const headers = { ...options.headers };
  if (method !== "GET") headers["x-zebu-csrf"] = self.csrf;
  let answer;
  try {
    answer = await fetch(url, { method, headers, body: options.body, signal: options.signal, cache: "no-store", redirect: "error" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, null);
  }
  if (!answer.ok) throw new ApiError(answer.status, await answer.json().catch(() => null));
  return answer;
}

/** An answer in JSON. */
export async function get(/** @type {string} */ path, /** @type {Record<string, any>} */ query = {}, /** @type {AbortSignal | undefined} */ signal = undefined) {
  return (await request("GET", path, { query, signal })).json();
}

/** Asks the server who we are. */
export async function loadSelf() {
  Object.assign(self, await get("self"));
  return self;
}

export async function logIn(/** @type {string} */ user, /** @type {string} */ password) {
  await request("POST", "login", { body: JSON.stringify({ user, password }), headers: { "content-type": "application/json" } });
  await loadSelf();
}

export async function logOut() {
  await request("POST", "logout");
  await loadSelf();
}

/** The data, stat and tag of a node. */
export async function readNode(/** @type {string} */ path, /** @type {AbortSignal | undefined} */ signal = undefined) {
  const answer = await request("GET", `v1/tree${encodePath(path)}`, { query: { base64: true }, signal });
  return { ...(await answer.json()), tag: answer.headers.get("etag") ?? "" };
}

/** The stat of a node. */
export function readStat(/** @type {string} */ path, /** @type {AbortSignal | undefined} */ signal = undefined) {
  return get(`v1/tree${encodePath(path)}`, { stat: true }, signal);
}

/** A part of the sorted children. */
export function readListing(/** @type {string} */ path, /** @type {Record<string, any>} */ query, /** @type {AbortSignal | undefined} */ signal = undefined) {
  return get(`v1/listing${encodePath(path)}`, query, signal);
}

/** A page of a walk over a subtree. */
export function scan(/** @type {string} */ path, /** @type {Record<string, any>} */ query, /** @type {AbortSignal | undefined} */ signal = undefined) {
  return get(`v1/scan${encodePath(path)}`, query, signal);
}

/** Writes the data of a node that still has this tag. */
export async function writeData(/** @type {string} */ path, /** @type {string} */ base64, /** @type {string} */ tag) {
  return (await request("PUT", `v1/tree${encodePath(path)}`, { query: { base64: true }, body: base64, headers: { "if-match": tag } })).json();
}

/** Creates a node. */
export async function createNode(/** @type {string} */ path, /** @type {string} */ base64, /** @type {Record<string, any>} */ query) {
  return (await request("POST", `v1/tree${encodePath(path)}`, { query: { base64: true, ...query }, body: base64 })).json();
}

/** An event stream. */
export function stream(/** @type {string} */ path, /** @type {Record<string, string>} */ query) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return new EventSource(url);
}
