// Refreshes what is live, and gives the page its keys. All but charts and streams works without it.
"use strict";

(() => {
  const refreshEvery = 2000; // milliseconds

  // Live is a choice of the user, for all pages.
  const live = document.getElementById("live");
  const isLive = () => localStorage.getItem("live") !== "off";
  const showLive = () => live && live.setAttribute("aria-pressed", String(isLive()));
  if (live) {
    live.addEventListener("click", () => {
      localStorage.setItem("live", isLive() ? "off" : "on");
      showLive();
    });
    showLive();
  }

  // A page that nobody sees asks for nothing, nor does a list in which rows are chosen.
  const busy = () => document.hidden || document.querySelector("#list input:checked") !== null;
  setInterval(() => {
    if (isLive() && !busy()) document.body.dispatchEvent(new CustomEvent("refresh"));
  }, refreshEvery);

  // The answer to a refresh is of no use when the user has chosen another filter, order or page meanwhile: it has the
  // address of the former one, which would be refreshed from then on.
  const addresses = new WeakMap(); // of refreshes that wait or are under way
  document.addEventListener("htmx:config:request", (e) => {
    const ctx = e.detail.ctx;
    if (ctx.sourceElement && ctx.sourceElement.matches("[hx-trigger*='refresh']")) addresses.set(ctx, ctx.sourceElement.getAttribute("hx-get"));
  });
  document.addEventListener("htmx:after:request", (e) => {
    const ctx = e.detail.ctx;
    if (addresses.has(ctx) && addresses.get(ctx) !== ctx.sourceElement.getAttribute("hx-get")) e.preventDefault();
  });

  // Who leaves the page waits for no refresh: one that breaks off by itself would be reported as an error.
  addEventListener("beforeunload", () => {
    for (const el of document.querySelectorAll("[hx-trigger*='refresh']")) el.dispatchEvent(new CustomEvent("htmx:abort"));
  });

  // The theme is a cookie, so that the server sends the page in the right colours at once.
  const theme = document.getElementById("theme");
  if (theme) {
    theme.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      document.cookie = `quorate_theme=${root.dataset.theme}; path=/ui/; max-age=31536000; samesite=strict`;
      document.dispatchEvent(new CustomEvent("themed"));
    });
  }

  // Keys: an element with data-key is reached by it; "g q" is g, then q. Escape leaves a field.
  let before = "";
  document.addEventListener("keydown", (e) => {
    const typing = e.target.closest("input, textarea, select");
    if (e.key === "Escape" && typing) {
      typing.blur();
      return;
    }
    if (typing || e.ctrlKey || e.metaKey || e.altKey || e.key.length !== 1) return;
    const keys = before === "g" ? `g ${e.key}` : e.key;
    before = e.key;
    const found = document.querySelector(`[data-key="${CSS.escape(keys)}"]`);
    if (!found) return;
    e.preventDefault();
    if (found.matches("input")) found.focus();
    else found.click();
  });

  // A choice of several rows at once.
  document.addEventListener("change", (e) => {
    if (!e.target.matches("[data-all]")) return;
    for (const box of document.querySelectorAll(`input[name="${e.target.dataset.all}"]`)) box.checked = e.target.checked;
  });

  // Forms whose answer is an error keep what was entered; the error is where the user looks.
  document.addEventListener("htmx:after:swap", (e) => {
    const fault = document.querySelector("#notice .fault");
    if (fault && e.detail && e.detail.ctx && e.detail.ctx.request && e.detail.ctx.request.method !== "GET") fault.scrollIntoView({ block: "nearest" });
  });
})();
