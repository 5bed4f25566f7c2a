"use strict";

// A stored choice wins over the system's; a page from a disk may be allowed to store nothing.
const themes = {
  read() {
    try { return localStorage.getItem("patchgen-theme"); } catch { return null; }
  },
  write(theme) {
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("patchgen-theme", theme); } catch { /* lasts as long as the page */ }
  },
  toggle() {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const now = document.documentElement.dataset.theme || system;
    themes.write(now === "dark" ? "light" : "dark");
  },
};
if (themes.read()) document.documentElement.dataset.theme = themes.read();
document.getElementById("theme").addEventListener("click", themes.toggle);
