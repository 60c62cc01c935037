// Addresses. Each state of a page has one, so a copied address shows the same.
// @ts-check

/** @type {((change: {replaced: boolean}) => void)[]} */
const listeners = [];
const ROOT = new URL(".", location.href).pathname;
/** What an address keeps when the page changes. */
const STICKY = ["lang", "theme"];

/** The page and its parameters. */
export function here() {
  const name = location.pathname.slice(ROOT.length).split("/")[0] || "overview";
  return { page: name, params: new URLSearchParams(location.search) };
}

/** The address of a page. */
export function address(/** @type {string} */ page, /** @type {Record<string, any>} */ params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  }
  const now = new URLSearchParams(location.search);
  for (const name of STICKY) {
    const value = now.get(name);
    if (value && !query.has(name)) query.set(name, value);
  }
  const text = query.toString();
  return `${ROOT}${page === "overview" ? "" : page}${text ? `?${text}` : ""}`;
}

/** Shows an address. */
export function go(/** @type {string} */ url, replaced = false) {
  if (replaced) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  listeners.forEach((listener) => listener({ replaced }));
}

/** Writes parameters of this page into the address without showing it anew. */
export function remember(/** @type {string} */ page, /** @type {Record<string, any>} */ params) {
  history.replaceState(null, "", address(page, params));
}

export function onAddress(/** @type {(change: {replaced: boolean}) => void} */ listener) {
  listeners.push(listener);
}

addEventListener("popstate", () => listeners.forEach((listener) => listener({ replaced: false })));

// Links of the console do not load the page anew.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.download) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(ROOT) || url.pathname.includes("/api/")) return;
  event.preventDefault();
  go(url.pathname + url.search);
});
