// Choices that this browser remembers: language, theme, viewers. Never data and never passwords.
// @ts-check

const PREFIX = "zebu.";

export const prefs = {
  /** @param {string} name @returns {string | null} */
  get(name) {
    try {
      return localStorage.getItem(PREFIX + name);
    } catch {
      return null;
    }
  },
  /** @param {string} name @param {string | null} value */
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(PREFIX + name);
      else localStorage.setItem(PREFIX + name, value);
    } catch {
      // A browser without storage forgets the choice.
    }
  },
};

/** Applies the theme: system, light or dark. */
export function applyTheme() {
  const asked = new URLSearchParams(location.search).get("theme") ?? prefs.get("theme") ?? "system";
  if (asked === "light" || asked === "dark") document.documentElement.dataset.theme = asked;
  else delete document.documentElement.dataset.theme;
  return asked;
}
