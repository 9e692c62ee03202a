// Actions of the pages: select, preview, decide, undo. Texts are inserted as text, never as HTML.
"use strict";

const base = document.body.dataset.base;
const MESSAGE_KEY = "corpus-guard-message";
const find = (selector, parent = document) => parent.querySelector(selector);
const findAll = (selector, parent = document) => [...parent.querySelectorAll(selector)];

// As on the server: invisible characters are shown as code points.
const visible = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu, (letter) =>
    letter === "\n" ? letter : `⟨U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );

async function post(path, body) {
  const response = await fetch(`${base}api/v1/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Corpus-Guard": "page" },
    body: JSON.stringify(body),
    credentials: "same-origin",
  });
  let result = {};
  try {
    result = await response.json();
  } catch {
    // A proxy answered without a body: the status has to do.
  }
  if (response.status === 401) throw new Error("You are no longer signed in. Nothing was changed. Sign in to Airflow in another tab, then try again.");
  if (!response.ok) throw new Error(result.detail || `The server answered with status ${response.status}. Nothing was changed.`);
  return result;
}

function showMessage(text, success) {
  const element = find("#message");
  element.textContent = visible(text);
  element.className = success ? "good" : "wrong";
  element.scrollIntoView({ block: "nearest" });
}

// Load a page and show a message there. With a fragment (#decide) a browser would only scroll in the old page.
function goTo(address, message) {
  try {
    window.sessionStorage.setItem(MESSAGE_KEY, message);
  } catch {
    // Storage is blocked: the page loads without the message.
  }
  const target = new URL(address, window.location.href);
  target.hash = "";
  window.location.assign(target);
}

function createElement(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = visible(text);
  if (className) element.className = className;
  return element;
}

function formatNumber(value) {
  return Number(value).toLocaleString("en");
}

function count(number, noun) {
  return `${formatNumber(number)} ${noun}${number === 1 ? "" : "s"}`;
}

const NAMES_SHOWN = 10; // documents that a preview names

function showPreview(container, preview, names, leaveOut) {
  container.replaceChildren();
  const listed = createElement("ul", undefined, "small");
  for (const name of [...names.values()].slice(0, NAMES_SHOWN)) listed.append(createElement("li", name));
  if (names.size > NAMES_SHOWN) listed.append(createElement("li", `and ${formatNumber(names.size - NAMES_SHOWN)} more`));
  container.append(listed);
  const list = createElement("dl", undefined, "facts");
  for (const [name, counts] of [["By source", preview.by_source], ["By trust level", preview.by_trust], ["By severity", preview.by_severity]]) {
    list.append(createElement("dt", name));
    const entries = Object.entries(counts).map(([key, number]) => `${key} ${formatNumber(number)}`);
    list.append(createElement("dd", entries.join(" · ") || "–"));
  }
  container.append(list);
  if (preview.first_of_two) {
    const verb = preview.first_of_two === 1 ? "needs" : "need";
    container.append(createElement("p", `${count(preview.first_of_two, "item")} ${verb} a second reviewer besides you.`, "small"));
  }
  if (preview.second_of_two) {
    const verb = preview.second_of_two === 1 ? "was" : "were";
    container.append(createElement("p", `${count(preview.second_of_two, "item")} ${verb} approved once already; your release completes the approval.`, "small"));
  }
  if (preview.refused.length) {
    const refused = createElement("div", undefined, "note wrong small");
    refused.append(createElement("b", `${count(preview.refused.length, "item")} cannot be decided:`));
    for (const [item, reason] of preview.refused.slice(0, 5)) refused.append(createElement("div", `${names.get(item)}: ${reason.replace(`item ${item} `, "")}`));
    const button = createElement("button", `Leave ${preview.refused.length === 1 ? "it" : "them"} out`);
    button.type = "button";
    button.addEventListener("click", () => leaveOut(preview.refused.map(([item]) => item)));
    refused.append(button);
    container.append(refused);
  }
  container.hidden = false;
}

const PAST = { release: "released", reject: "rejected", escalate: "escalated" };

function describeOutcome(choice, decisions) {
  const forSecond = decisions.filter((decision) => decision.approval < decision.of).length;
  const items = count(decisions.length, "item");
  if (choice === "escalate") return `${items} escalated.`;
  if (forSecond === decisions.length) return `Recorded. A second reviewer must also release ${forSecond === 1 ? "it" : `these ${items}`}.`;
  const note = "This takes effect with the next run of quarantine_release. Until then you can undo it in History.";
  if (forSecond) return `${items} ${PAST[choice]}, of which a second reviewer must also release ${formatNumber(forSecond)}. ${note}`;
  return `${items} ${PAST[choice]}. ${note}`;
}

function readForm(form) {
  const data = new FormData(form);
  return { choice: data.get("choice"), reason: data.get("reason") };
}

// A common reason is a start: it can be edited. It does not choose the decision.
function setUpReasonTemplates() {
  for (const select of findAll("[data-template]"))
    select.addEventListener("change", () => {
      const reason = find("textarea[name=reason]", select.form);
      if (select.value) reason.value = select.selectedOptions[0].textContent;
      reason.focus();
    });
}

// Choose a decision and go on to the reason.
function choose(form, choice) {
  find(`input[name=choice][value=${choice}]`, form).click();
  find("textarea[name=reason]", form).focus();
}

function setBusy(form, busy) {
  for (const button of findAll("button", form)) button.disabled = busy;
}

// --- Queue ---------------------------------------------------------------------------------------------------------

function setUpQueue() {
  const bar = find("[data-bulk]");
  if (!bar) return;
  const dialog = find("[data-dialog]");
  const form = find("form", dialog);
  const rows = findAll("tr[data-item]");
  const boxes = findAll("[data-select]");
  const confirm = find("[data-confirm]", form);
  const previewArea = find("[data-preview]", form);
  const policyDigest = find("[data-policy]")?.dataset.policy;
  let allMatching = null; // set while all matching items are selected, on all pages

  const selectedItems = () =>
    allMatching ||
    rows.filter((row) => find("[data-select]", row).checked).map((row) => ({ version_id: row.dataset.item, revision: row.dataset.revision }));

  const discardPreview = () => {
    confirm.disabled = true;
    previewArea.hidden = true;
  };
  const update = () => {
    const number = selectedItems().length;
    for (const element of findAll("[data-count]")) element.textContent = count(number, "item");
    bar.hidden = number === 0;
    for (const row of rows) row.classList.toggle("chosen", find("[data-select]", row).checked);
    discardPreview();
  };
  const selectPage = (checked) => {
    for (const box of boxes) box.checked = checked;
    allMatching = null;
    update();
  };
  for (const box of boxes)
    box.addEventListener("change", () => {
      allMatching = null;
      update();
    });
  find("[data-select-page]").addEventListener("change", (event) => selectPage(event.target.checked));
  find("[data-select-none]").addEventListener("click", () => {
    find("[data-select-page]").checked = false;
    selectPage(false);
  });
  find("[data-select-all]")?.addEventListener("click", async (event) => {
    try {
      const response = await fetch(`${base}api/v1/queue/revisions?${event.target.dataset.query}`, { credentials: "same-origin" });
      const result = await response.json();
      if (!response.ok) throw new Error(result.detail || `The server answered with status ${response.status}.`);
      for (const box of boxes) box.checked = true;
      allMatching = result.items;
      update();
    } catch (error) {
      showMessage(error.message, false);
    }
  });
  find("[data-open]").addEventListener("click", () => dialog.showModal());
  const links = rows.map((row) => find("a.where", row));
  const step = (by) => links[Math.min(Math.max(links.indexOf(document.activeElement) + by, 0), links.length - 1)]?.focus();
  const toggle = (row) => find("[data-select]", row)?.click();
  const decide = (choice) => {
    const row = document.activeElement.closest("tr[data-item]");
    if (!selectedItems().length && row) toggle(row);
    if (!selectedItems().length) return;
    dialog.showModal();
    choose(form, choice);
  };
  onKeys({
    j: () => step(1),
    k: () => step(-1),
    s: () => document.activeElement.closest("tr[data-item]") && toggle(document.activeElement.closest("tr[data-item]")),
    a: () => find("[data-select-page]").click(),
    r: () => decide("release"),
    x: () => decide("reject"),
    e: () => decide("escalate"),
  });
  find("[data-close]", dialog).addEventListener("click", () => dialog.close());

  const leaveOut = (ids) => {
    for (const row of rows) if (ids.includes(row.dataset.item)) find("[data-select]", row).checked = false;
    allMatching = allMatching?.filter((item) => !ids.includes(item.version_id)) ?? null;
    update();
    if (selectedItems().length) preview();
    else dialog.close();
  };
  const showError = (error) => {
    previewArea.replaceChildren(createElement("p", error.message, "note wrong"));
    previewArea.hidden = false;
  };
  const preview = async () => {
    if (!form.reportValidity()) return;
    setBusy(form, true);
    let allowed = false;
    try {
      const ids = selectedItems().map((item) => item.version_id);
      const result = await post("previews", { ids, choice: readForm(form).choice });
      const onPage = new Map(rows.map((row) => [row.dataset.item, find("a.where", row).textContent.trim()]));
      const names = new Map(ids.map((id) => [id, onPage.get(id) || `${id.slice(0, 8)}, on another page`]));
      showPreview(previewArea, result, names, leaveOut);
      allowed = result.refused.length === 0;
    } catch (error) {
      showError(error);
    }
    setBusy(form, false);
    confirm.disabled = !allowed;
    if (allowed) confirm.focus();
  };
  find("[data-show-preview]", form).addEventListener("click", preview);
  for (const input of findAll("input[name=choice]", form)) input.addEventListener("change", discardPreview);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (confirm.disabled) {
      await preview();
      return;
    }
    setBusy(form, true);
    const decision = readForm(form);
    try {
      const result = await post("decisions", { items: selectedItems(), ...decision, policy_digest: policyDigest });
      goTo(window.location.href, describeOutcome(decision.choice, result.decisions));
    } catch (error) {
      showError(error);
      setBusy(form, false);
      confirm.disabled = true;
    }
  });
  update();
}

// --- One item ------------------------------------------------------------------------------------------------------

function setUpItem() {
  const container = find("[data-item-form]");
  if (!container) return;
  const { item: version_id, revision, policy } = container.dataset;
  const form = find("form", container);
  onKeys({ r: () => choose(form, "release"), x: () => choose(form, "reject"), e: () => choose(form, "escalate") });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    setBusy(form, true);
    const decision = readForm(form);
    try {
      const result = await post("decisions", { items: [{ version_id, revision }], ...decision, policy_digest: policy });
      const next = event.submitter?.dataset.next;
      goTo(next ? base + next : window.location.href, describeOutcome(decision.choice, result.decisions));
    } catch (error) {
      showMessage(error.message, false);
      setBusy(form, false);
    }
  });
}

// <form data-send="decisions/…/undo">: a reason and a button.
function setUpReasonForms() {
  for (const form of findAll("form[data-send]"))
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const answer = Object.fromEntries(new FormData(form, event.submitter));
      setBusy(form, true);
      try {
        const result = await post(form.dataset.send, answer);
        goTo(result.page ? base + result.page : window.location.href, result.message || form.dataset.done);
      } catch (error) {
        showMessage(error.message, false);
        setBusy(form, false);
      }
    });
}

// <details data-lazy="…">: loaded when it is opened.
function setUpLazyDetails() {
  for (const details of findAll("details[data-lazy]"))
    details.addEventListener("toggle", async () => {
      const body = find("[data-body]", details);
      if (!details.open || !body) return;
      body.removeAttribute("data-body");
      try {
        const response = await fetch(base + details.dataset.lazy, { credentials: "same-origin", headers: { Accept: "text/html" } });
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const part = page.querySelector("[data-part]") || page.querySelector("main");
        body.replaceChildren(...part.childNodes);
      } catch {
        body.textContent = "This could not be loaded. Try again later.";
      }
    });
}

// --- Shortcuts -----------------------------------------------------------------------------------------------------

const SHORTCUTS_KEY = "corpus-guard-shortcuts";
const shortcuts = {};

function onKeys(actions) {
  Object.assign(shortcuts, actions);
}

function stored(key) {
  try {
    return window.localStorage.getItem(key);
  } catch {
    return null; // storage is blocked
  }
}

// Single keys, as WCAG 2.1.4 allows them: they can be switched off, and mean nothing while somebody types.
function setUpShortcuts() {
  const help = find("[data-shortcuts]");
  if (!help) return;
  const enabled = find("[data-shortcuts-on]", help);
  enabled.checked = stored(SHORTCUTS_KEY) !== "off";
  enabled.addEventListener("change", () => {
    try {
      window.localStorage.setItem(SHORTCUTS_KEY, enabled.checked ? "on" : "off");
    } catch {
      // Storage is blocked: the choice holds for this page.
    }
  });
  find("[data-shortcuts-open]").addEventListener("click", () => help.showModal());
  find("[data-close]", help).addEventListener("click", () => help.close());
  const marks = findAll("#text mark[id]");
  let current = -1;
  const showMark = (by) => {
    if (!marks.length) return;
    current = (current + by + marks.length) % marks.length;
    window.location.hash = marks[current].id;
  };
  if (find("#text")) onKeys({ j: () => showMark(1), k: () => showMark(current < 0 ? 0 : -1) });
  onKeys({ n: () => find("[data-next-item]")?.click(), u: () => find("[data-queue]")?.click(), "?": () => help.showModal() });
  document.addEventListener("keydown", (event) => {
    const form = event.target.closest?.("form[data-decide]");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form) {
      event.preventDefault();
      form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !enabled.checked || find("dialog[open]")) return;
    if (event.target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return;
    const action = shortcuts[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function showMessageOfLastPage() {
  try {
    const text = window.sessionStorage.getItem(MESSAGE_KEY);
    window.sessionStorage.removeItem(MESSAGE_KEY);
    if (text) window.setTimeout(() => showMessage(text, true), 100); // a screen reader reads what is added once the page is there
  } catch {
    // Storage is blocked: there is no message.
  }
}

// A table or picture that is wider than the screen is reached and moved by keyboard, if nothing in it takes the focus already.
function setUpScrolling() {
  const regions = findAll(".scroll, .wide-picture");
  const update = () => {
    for (const region of regions) {
      const isStop = region.scrollWidth > region.clientWidth && !find("a[href], button, input, select, textarea, summary", region);
      if (isStop) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    }
  };
  update();
  window.addEventListener("resize", update);
}

// On a narrow screen the name of this view may be out of sight in the row of views.
function showCurrentView() {
  const current = find(".top nav [aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.clientWidth / 2;
}

// A box that is too low for its text shows the evidence first.
function showEvidence() {
  for (const box of findAll(".text.short")) {
    const mark = find("mark", box);
    if (mark) box.scrollTop = mark.offsetTop - box.offsetTop - 2 * parseFloat(getComputedStyle(box).lineHeight);
  }
}

showMessageOfLastPage();
showCurrentView();
showEvidence();
setUpScrolling();
setUpReasonTemplates();
setUpQueue();
setUpItem();
setUpShortcuts();
setUpReasonForms();
setUpLazyDetails();
