// The frame around all pages: navigation, the way to a path, login, language, theme and the write lock.
// @ts-check

import { loadSelf, logIn, logOut, self } from "./api.js";
import { button, errorBox, notify, notifyError, openDialog } from "./dialog.js";
import { fill, h, icon } from "./dom.js";
import { LANGUAGES, language, loadLanguage, t } from "./i18n.js";
import { openPalette } from "./palette.js";
import { applyTheme, prefs } from "./prefs.js";
import { problems } from "./problems.js";
import { address, go, here, onAddress } from "./router.js";
import { latest, onSample, startSampling, state as sampling } from "./samples.js";
import { showShortcuts, startShortcuts } from "./shortcuts.js";
import { isUnlocked, lock, onLock, unlock } from "./write_lock.js";

const PAGES = ["overview", "tree", "search", "recipes", "sessions", "watches", "top", "changes", "ensemble"];
const TITLES = {
  overview: () => t("nav.overview"),
  tree: () => t("nav.tree"),
  search: () => t("nav.search"),
  recipes: () => t("nav.recipes"),
  sessions: () => t("nav.sessions"),
  watches: () => t("nav.watches"),
  top: () => t("nav.top"),
  changes: () => t("nav.changes"),
  ensemble: () => t("nav.ensemble"),
};

/** @typedef {{update?: (params: URLSearchParams) => void, destroy?: () => void}} MountedPage */

const main = h("main", { id: "main", tabindex: "-1" });
const nav = h("nav", { "aria-label": t("nav.label") });
const bar = h("header", { class: "bar" });
/** @type {{name: string, page: MountedPage} | null} */
let shownPage = null;
let visit = 0;

async function show() {
  const { page: name, params } = here();
  if (shownPage?.name === name && shownPage.page.update) {
    shownPage.page.update(params);
    drawNav();
    return;
  }
  visit += 1;
  const own = visit;
  shownPage?.page.destroy?.();
  shownPage = null;
  drawNav();
  if (!PAGES.includes(name)) {
    fill(main, h("div", { class: "empty" }, h("p", { class: "strong" }, t("page.unknown")), h("a", { href: address("overview") }, t("nav.overview"))));
    return;
  }
  try {
    const module = await import(`./pages/${name}.js`);
    if (own !== visit) return;
    main.className = `page-${name}`;
    main.replaceChildren();
    shownPage = { name, page: module.mount(main, params) };
    main.scrollTop = 0;
  } catch (error) {
    if (own === visit) fill(main, errorBox(error));
  }
}

function drawNav() {
  const now = here().page;
  const link = (/** @type {string} */ name) =>
    h("a", { href: address(name), "aria-current": name === now ? "page" : null }, icon(name), h("span", null, TITLES[/** @type {keyof typeof TITLES} */ (name)]()));
  fill(
    nav,
    h("a", { class: "brand", href: address("overview") }, h("img", { src: new URL("../zebu.svg", import.meta.url).href, alt: "", width: "22", height: "22" }), h("span", null, "Zebu")),
    PAGES.map(link),
    h("div", { class: "nav-foot" }, h("span", { class: "dim" }, `Zebu ${self.system.version}`)),
  );
}

function serverLine() {
  const sample = latest();
  if (sampling.error) return h("span", { class: "who bad" }, h("span", { class: "dot bad" }), t("bar.lost"));
  if (!sample) return h("span", { class: "who dim" }, "…");
  const { stats } = sample;
  const worst = problems(sample).some((problem) => problem.kind === "bad") ? "bad" : problems(sample).length > 0 ? "warn" : "good";
  const name = stats.server ? `${stats.server} · ` : stats.id === null ? "" : `${t("bar.server", { id: String(stats.id) })} · `;
  const epoch = stats.epoch === null ? "" : ` · ${t("bar.epoch", { epoch: String(stats.epoch) })}`;
  return h("span", { class: "who" }, h("span", { class: `dot ${worst}` }), `${name}${stats.role ?? t("role.none")}${epoch}`);
}

function drawBar() {
  const lockButton = !self.mayWrite
    ? h("span", { class: "tag", title: t("lock.config") }, icon("lock"), t("lock.readOnly"))
    : h(
        "button",
        { type: "button", class: isUnlocked() ? "writing" : "quiet", id: "write-lock", onclick: () => (isUnlocked() ? lock() : void unlock()) },
        icon(isUnlocked() ? "unlock" : "lock"),
        h("span", null, isUnlocked() ? t("lock.writing") : t("lock.readOnly")),
      );
  const user = h(
    "button",
    { type: "button", class: "quiet", id: "who", onclick: self.user ? leave : enter, title: self.user ? t("login.leave") : t("login.title") },
    icon("user"),
    h("span", null, self.user ?? t("login.title")),
  );
  fill(
    bar,
    h("span", { id: "server-line" }, serverLine()),
    h("button", { type: "button", class: "jump", id: "jump", onclick: openPalette }, icon("search"), h("span", null, t("palette.hint")), h("kbd", null, "Ctrl K")),
    lockButton,
    user,
    languageChoice(),
    themeChoice(),
  );
}

function languageChoice() {
  const other = language === "en" ? "zh" : "en";
  return h(
    "button",
    { type: "button", class: "quiet", id: "language", lang: other === "zh" ? "zh-CN" : "en", onclick: () => changeAddress("lang", other) },
    LANGUAGES[other],
  );
}

function themeChoice() {
  const order = ["system", "light", "dark"];
  const now = applyTheme();
  const icons = { system: "system", light: "sun", dark: "moon" };
  const label = t("theme.title", { theme: t(`theme.${now}`) });
  return h(
    "button",
    {
      type: "button",
      class: "quiet",
      id: "theme",
      title: label,
      "aria-label": label,
      onclick: () => {
        const next = order[(order.indexOf(now) + 1) % order.length];
        prefs.set("theme", next);
        dropParameter("theme");
        applyTheme();
        drawBar();
        document.getElementById("theme")?.focus();
      },
    },
    icon(icons[/** @type {keyof typeof icons} */ (now)]),
  );
}

function dropParameter(/** @type {string} */ name) {
  const url = new URL(location.href);
  url.searchParams.delete(name);
  history.replaceState(null, "", url);
}

function changeAddress(/** @type {string} */ name, /** @type {string} */ value) {
  prefs.set(name, value);
  dropParameter(name);
  location.reload();
}

function enter() {
  openDialog(t("login.title"), (body, foot, close) => {
    const user = /** @type {HTMLInputElement} */ (h("input", { id: "login-user", autocomplete: "username", required: true }));
    const password = /** @type {HTMLInputElement} */ (h("input", { id: "login-password", type: "password", autocomplete: "current-password" }));
    const problem = h("p", { class: "bad", role: "alert" });
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        await logIn(user.value, password.value);
        password.value = "";
        close();
        drawBar();
        notify(t("login.done", { user: user.value }));
        go(location.pathname + location.search, true);
        void remount();
      } catch (error) {
        fill(problem, /** @type {Error} */ (error).message);
      }
    };
    fill(
      body,
      h("p", { class: "dim" }, t("login.explain")),
      h("form", { id: "login-form", onsubmit: submit }, h("label", null, t("login.user"), user), h("label", null, t("login.password"), password), problem),
    );
    fill(foot, button(t("action.cancel"), close), h("button", { class: "primary", type: "submit", form: "login-form" }, t("login.title")));
  });
}

async function leave() {
  try {
    await logOut();
    lock();
    drawBar();
    notify(t("login.left"));
    void remount();
  } catch (error) {
    notifyError(error);
  }
}

/** Shows the page as the new identity sees it. */
async function remount() {
  shownPage?.page.destroy?.();
  shownPage = null;
  await show();
}

async function start() {
  applyTheme();
  await loadLanguage();
  const app = /** @type {HTMLElement} */ (document.getElementById("app"));
  try {
    await loadSelf();
  } catch (error) {
    fill(app, errorBox(error));
    return;
  }
  const skip = h("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => { event.preventDefault(); main.focus(); } }, t("nav.skip"));
  fill(app, skip, nav, h("div", { class: "column" }, bar, main));
  app.removeAttribute("aria-busy");
  nav.setAttribute("aria-label", t("nav.label"));
  onLock(drawBar);
  onAddress(() => void show());
  drawBar();
  startShortcuts();
  startSampling();
  onSample(() => {
    const line = document.getElementById("server-line");
    if (line) fill(line, serverLine());
    const role = latest()?.stats.role;
    document.title = `${role ? `${role} · ` : ""}Zebu`;
  });
  document.addEventListener("zebu-shortcuts", showShortcuts);
  await show();
}

void start();
