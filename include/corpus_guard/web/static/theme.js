// Light or dark as Airflow is: it keeps its choice in this origin's storage and says nothing to its frames.
"use strict";
(() => {
  const apply = () => {
    let chosen = null;
    try {
      chosen = window.localStorage.getItem("theme");
    } catch {
      // Storage is closed to us: the system's choice stands.
    }
    if (chosen === "light" || chosen === "dark") {
      document.documentElement.dataset.theme = chosen;
    } else {
      delete document.documentElement.dataset.theme;
    }
  };
  apply();
  window.addEventListener("storage", (event) => {
    if (event.key === "theme" || event.key === null) apply();
  });
})();
