"use strict";
// The page is complete without this script; it adds the controls and nothing else. Filters act on the screen only:
// what is printed is always the whole report (see report.css).
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);

  const theme = $("theme");
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);
  const nameTheme = () => { theme.textContent = isDark() ? "Light mode" : "Dark mode"; };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  preferred.addEventListener("change", nameTheme);
  nameTheme();
  theme.hidden = false;

  const numbers = $("numbers");
  const showNumbers = (on) => {
    root.classList.toggle("without-numbers", !on);
    numbers.setAttribute("aria-pressed", String(on));
    numbers.textContent = on ? "Hide numbers" : "Show numbers";
  };
  numbers.addEventListener("click", () => showNumbers(root.classList.contains("without-numbers")));
  showNumbers(false);

  const attribute = $("pick-attribute"), threat = $("pick-threat");
  const panels = document.querySelectorAll(".panel");
  const filter = () => {
    const a = attribute ? attribute.value : "", t = threat ? threat.value : "";
    let shown = 0;
    for (const panel of panels) {
      const article = panel.closest(".attribute");
      article.hidden = a !== "" && article.dataset.attribute !== a;
      panel.hidden = t !== "" && panel.dataset.threat !== t;
      shown += article.hidden || panel.hidden ? 0 : 1;
    }
    $("shown").textContent = a || t ? `${shown} of ${panels.length} panels` : "";
  };
  for (const pick of [attribute, threat]) if (pick) pick.addEventListener("change", filter);
  document.querySelector(".toolbar").hidden = false;
  filter();

  // A link into the evidence leads somewhere even when a filter hides it.
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", () => {
      const target = $(link.hash.slice(1));
      if (!target || !target.closest("[hidden]")) return;
      for (const pick of [attribute, threat]) if (pick) pick.value = "";
      filter();
    });
  }
})();
