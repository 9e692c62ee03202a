// Light or dark as in Airflow, which stores the choice in this origin's storage and does not tell its frames.
"use strict";
(() => {
  const apply = () => {
    let theme = null;
    try {
      theme = window.localStorage.getItem("theme");
    } catch {
      // Storage is blocked: use the system's theme.
    }
    if (theme === "light" || theme === "dark") {
      document.documentElement.dataset.theme = theme;
    } else {
      delete document.documentElement.dataset.theme;
    }
  };
  apply();
  window.addEventListener("storage", (event) => {
    if (event.key === "theme" || event.key === null) apply();
  });
})();
