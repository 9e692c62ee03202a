// What the pages do besides being read: choose, preview, decide, take back. Texts are written as text, never as HTML.
"use strict";

const base = document.body.dataset.base;
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// As the server shows them: what cannot be seen stands as its code point.
const shown = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu, (letter) =>
    letter === "\n" ? letter : `⟨U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );

async function send(path, body) {
  const answer = await fetch(`${base}api/v1/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Corpus-Guard": "page" },
    body: JSON.stringify(body),
    credentials: "same-origin",
  });
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // An empty answer of a proxy: the status says enough.
  }
  if (!answer.ok) throw new Error(told.detail || `the server answered with ${answer.status}; nothing was changed`);
  return told;
}

function say(text, good) {
  const place = one("#said");
  place.textContent = shown(text);
  place.className = good ? "good" : "wrong";
  place.hidden = false;
  place.scrollIntoView({ block: "nearest" });
}

// What was done is said on the page that comes next.
function leave(text, address) {
  try {
    window.sessionStorage.setItem("corpus-guard-said", text);
  } catch {
    // Nothing is said, then.
  }
  window.location.assign(address);
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = shown(text);
  if (className) made.className = className;
  return made;
}

function number(value) {
  return Number(value).toLocaleString("en");
}

function tell(place, preview) {
  place.replaceChildren();
  const list = element("dl", undefined, "facts");
  for (const [name, counts] of [["By source", preview.by_source], ["By trust", preview.by_trust], ["By severity", preview.by_severity]]) {
    list.append(element("dt", name));
    const entries = Object.entries(counts).map(([key, count]) => `${key} ${number(count)}`);
    list.append(element("dd", entries.join(" · ") || "–"));
  }
  place.append(list);
  if (preview.first_of_two) place.append(element("p", `Need a second reviewer besides you: ${number(preview.first_of_two)}.`, "small"));
  if (preview.second_of_two) place.append(element("p", `Approved once already, yours completes them: ${number(preview.second_of_two)}.`, "small"));
  if (preview.refused.length) {
    const lost = element("div", undefined, "note wrong small");
    lost.append(element("b", `${number(preview.refused.length)} cannot be decided so; nothing is done while they are chosen:`));
    for (const [item, why] of preview.refused.slice(0, 5)) lost.append(element("div", `${item.slice(0, 8)}: ${why}`));
    place.append(lost);
  }
  place.hidden = false;
}

const PAST = { release: "released", reject: "rejected", escalate: "escalated" };

function outcome(choice, decisions) {
  const second = decisions.filter((decision) => decision.approval < decision.of).length;
  const many = decisions.length === 1 ? "The item is" : `${number(decisions.length)} items are`;
  if (second) return `Kept: ${number(second)} wait for a second reviewer.`;
  if (choice === "escalate") return `${many} escalated.`;
  return `${many} ${PAST[choice]}. It takes effect with the next run of quarantine_release; until then it can be undone in History.`;
}

function read(form) {
  const data = new FormData(form);
  return { choice: data.get("choice"), reason: data.get("reason") };
}

function busy(form, yes) {
  for (const button of all("button", form)) button.disabled = yes;
}

// --- Queue ---------------------------------------------------------------------------------------------------------

function queue() {
  const bar = one("[data-bulk]");
  if (!bar) return;
  const dialog = one("[data-dialog]");
  const form = one("form", dialog);
  const rows = all("tr[data-item]");
  let everything = null;
  let digest = one("[data-policy]")?.dataset.policy;

  const chosen = () =>
    everything ||
    rows.filter((row) => one("[data-pick]", row).checked).map((row) => ({ version_id: row.dataset.item, revision: row.dataset.revision }));

  const count = () => {
    const many = chosen().length;
    for (const place of all("[data-count]")) place.textContent = `${number(many)} ${many === 1 ? "item" : "items"}`;
    bar.hidden = many === 0;
    for (const row of rows) row.classList.toggle("chosen", one("[data-pick]", row).checked);
    one("[data-go]", form).disabled = true;
    one("[data-preview]", form).hidden = true;
  };
  const pickAll = (yes) => {
    for (const box of all("[data-pick]")) box.checked = yes;
    everything = null;
    count();
  };
  for (const box of all("[data-pick]"))
    box.addEventListener("change", () => {
      everything = null;
      count();
    });
  one("[data-all]").addEventListener("change", (event) => pickAll(event.target.checked));
  one("[data-none]").addEventListener("click", () => {
    one("[data-all]").checked = false;
    pickAll(false);
  });
  one("[data-everything]")?.addEventListener("click", async (event) => {
    try {
      const answer = await fetch(`${base}api/v1/queue/revisions?${event.target.dataset.query}`, { credentials: "same-origin" });
      if (!answer.ok) throw new Error(`the server answered with ${answer.status}`);
      for (const box of all("[data-pick]")) box.checked = true;
      everything = (await answer.json()).items;
      count();
    } catch (problem) {
      say(problem.message, false);
    }
  });
  one("[data-open]").addEventListener("click", () => dialog.showModal());
  one("[data-close]", dialog).addEventListener("click", () => dialog.close());

  const wrong = (problem) => {
    const place = one("[data-preview]", form);
    place.replaceChildren(element("p", problem.message, "note wrong"));
    place.hidden = false;
  };
  const preview = async () => {
    if (!form.reportValidity()) return;
    busy(form, true);
    let clean = false;
    try {
      const told = await send("previews", { ids: chosen().map((item) => item.version_id), choice: read(form).choice });
      tell(one("[data-preview]", form), told);
      clean = told.refused.length === 0;
    } catch (problem) {
      wrong(problem);
    }
    busy(form, false);
    one("[data-go]", form).disabled = !clean;
    if (clean) one("[data-go]", form).focus();
  };
  one("[data-see]", form).addEventListener("click", preview);
  for (const field of all("input[name=choice]", form))
    field.addEventListener("change", () => {
      one("[data-go]", form).disabled = true;
      one("[data-preview]", form).hidden = true;
    });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (one("[data-go]", form).disabled) {
      await preview();
      return;
    }
    busy(form, true);
    const asked = read(form);
    try {
      const done = await send("decisions", { items: chosen(), ...asked, policy_digest: digest });
      leave(outcome(asked.choice, done.decisions), window.location.href);
    } catch (problem) {
      wrong(problem);
      busy(form, false);
      one("[data-go]", form).disabled = true;
    }
  });
  count();
}

// --- One item ------------------------------------------------------------------------------------------------------

function item() {
  const form = one("[data-item-form]");
  if (!form) return;
  const { item: version_id, revision, policy } = form.dataset;
  const decide = one("form", form);
  decide.addEventListener("submit", async (event) => {
    event.preventDefault();
    busy(decide, true);
    const asked = read(decide);
    try {
      const done = await send("decisions", { items: [{ version_id, revision }], ...asked, policy_digest: policy });
      const next = event.submitter?.dataset.next;
      leave(outcome(asked.choice, done.decisions), next ? base + next : window.location.href);
    } catch (problem) {
      say(problem.message, false);
      busy(decide, false);
    }
  });
}

function buttons() {
  // <form data-send="decisions/…/undo">: a reason and a button.
  for (const form of all("form[data-send]"))
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      busy(form, true);
      const data = Object.fromEntries(new FormData(form));
      try {
        await send(form.dataset.send, data);
        leave(form.dataset.done, window.location.href);
      } catch (problem) {
        say(problem.message, false);
        busy(form, false);
      }
    });
}

function lazy() {
  for (const place of all("details[data-lazy]"))
    place.addEventListener("toggle", async () => {
      const body = one("[data-body]", place);
      if (!place.open || !body) return;
      delete body.dataset.body;
      body.removeAttribute("data-body");
      try {
        const answer = await fetch(base + place.dataset.lazy, { credentials: "same-origin", headers: { Accept: "text/html" } });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const part = page.querySelector("[data-part]") || page.querySelector("main");
        body.replaceChildren(...part.childNodes);
      } catch {
        body.textContent = "It could not be loaded.";
      }
    });
}

function said() {
  try {
    const text = window.sessionStorage.getItem("corpus-guard-said");
    window.sessionStorage.removeItem("corpus-guard-said");
    if (text) say(text, true);
  } catch {
    // Nothing was kept.
  }
}

said();
queue();
item();
buttons();
lazy();
