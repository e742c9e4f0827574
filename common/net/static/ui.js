"use strict";
// Parts of a page that change: asked for again and again, and replaced where they differ. No library, nothing from outside.

const MOST_PATIENCE = 15000;

/** Return the way from a part down to an element in it, as numbers of children. */
function way(part, element) {
  const steps = [];
  for (let here = element; here !== part; here = here.parentElement) {
    steps.unshift(Array.prototype.indexOf.call(here.parentElement.children, here));
  }
  return steps;
}

function follow(part, steps) {
  return steps.reduce((here, step) => here && here.children[step], part);
}

/** Replace what a part holds; the focus, what is unfolded and how far tables are scrolled stay as they are. */
function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? way(old, document.activeElement) : null;
  const unfolded = [...old.querySelectorAll("details[open][id]")].map((details) => details.id);
  const scrolled = [...old.querySelectorAll(".wide")].map((wide) => wide.scrollLeft);
  old.replaceChildren(...fresh.childNodes);
  for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
  for (const id of unfolded) { const details = document.getElementById(id); if (details) details.open = true; }
  old.querySelectorAll(".wide").forEach((wide, place) => { wide.scrollLeft = scrolled[place] || 0; });
  const target = focused && follow(old, focused);
  if (target && target.focus) target.focus({ preventScroll: true });
}

/** Say a sentence to those who hear the page, when it has changed. */
function announce(region) {
  const place = document.querySelector("[data-said]"), part = region.querySelector("[data-announce]");
  if (place && part && place.textContent !== part.dataset.announce) place.textContent = part.dataset.announce;
}

const turns = new WeakMap();

/** Ask for a region again and again, until it has ended or somebody else has begun to. */
async function keepFresh(region, first) {
  const every = Number(region.dataset.every), gone = document.querySelector(".gone");
  const turn = (turns.get(region) || 0) + 1;
  turns.set(region, turn);
  let tag = "", pause = first === undefined ? every : first, asked = first === undefined;
  if (asked) announce(region);
  while (!asked || !region.querySelector("[data-ended]")) {
    await new Promise((done) => setTimeout(done, pause));
    if (turns.get(region) !== turn) return;
    if (document.hidden) continue;
    try {
      const answer = await fetch(region.dataset.live, { headers: tag ? { "If-None-Match": tag } : {} });
      if (turns.get(region) !== turn) return;
      asked = true;
      if (!answer.ok && answer.status !== 304) throw new Error(String(answer.status));
      pause = every;
      gone.hidden = true;
      if (answer.status === 304) continue;
      tag = answer.headers.get("ETag") || "";
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const known = new Map([...region.children].map((part) => [part.dataset.part, part]));
      for (const part of [...fresh.body.children]) {
        const old = known.get(part.dataset.part);
        if (!old) region.append(document.importNode(part, true));
        else if (old.outerHTML !== part.outerHTML) replace(old, document.importNode(part, true));
      }
      announce(region);
    } catch (error) {
      gone.hidden = false;
      pause = Math.min(2 * pause, MOST_PATIENCE);
    }
  }
}

document.querySelectorAll("[data-live]").forEach((region) => keepFresh(region));

// A form whose answer stands beside it: asked for again when something in it changes, and the address says what was asked.
document.querySelectorAll("form[data-answer]").forEach((form) => {
  const region = document.getElementById(form.dataset.answer);
  const query = () => new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== "")).toString();
  let wait = 0;
  const ask = () => {
    clearTimeout(wait);
    document.querySelectorAll("#wrong").forEach((words) => words.remove());
    form.querySelectorAll("[aria-invalid]").forEach((field) => field.removeAttribute("aria-invalid"));
    wait = setTimeout(() => {
      history.replaceState(null, "", `${form.getAttribute("action")}?${query()}`);
      region.dataset.live = `${form.getAttribute("action")}/part?${query()}`;
      region.setAttribute("aria-busy", "true");
      keepFresh(region, 0).then(() => region.removeAttribute("aria-busy"));
    }, 350);
  };
  form.querySelectorAll("input[type=range]").forEach((slider) => {
    const field = document.getElementById(slider.dataset.for), low = Number(slider.dataset.low), high = Number(slider.dataset.high);
    slider.closest("[hidden]").hidden = false;
    const say = () => slider.setAttribute("aria-valuetext", field.value);
    slider.addEventListener("input", () => {
      const value = low * Math.pow(high / low, Number(slider.value));
      field.value = slider.dataset.whole ? String(Math.round(Number(value.toPrecision(3)))) : String(Number(value.toPrecision(2)));
      say();
      ask();
    });
    field.addEventListener("input", () => {
      const share = Math.log(Number(field.value) / low) / Math.log(high / low);
      if (Number.isFinite(share)) slider.value = String(share);
      say();
      ask();
    });
    say();
  });
});

// A form whose answer takes a while says so, and is sent once.
document.querySelectorAll("form[data-busy]").forEach((form) => form.addEventListener("submit", () => {
  const button = form.querySelector("button"), place = document.querySelector("[role=status]");
  button.disabled = true;
  if (place) place.textContent = `${form.dataset.busy} ...`;
}));
window.addEventListener("pageshow", () => document.querySelectorAll("form[data-busy] button").forEach((button) => { button.disabled = false; }));

// A file that is chosen goes to this page's own server, which answers with its place; without scripts the place is typed.
document.querySelectorAll("[data-pick]").forEach((row) => {
  row.hidden = false;
  const chooser = row.querySelector("input"), field = document.getElementById(chooser.dataset.into);
  const place = document.querySelector(`[data-picked="${chooser.dataset.into}"]`);
  const token = chooser.form.querySelector("[name=token]").value, button = chooser.form.querySelector("button");
  chooser.addEventListener("change", async () => {
    const file = chooser.files[0];
    if (!file) return;
    if (file.size > Number(chooser.dataset.most) * 1048576) { place.textContent = "This file is too large to be copied: write its place below."; return; }
    place.textContent = `Reading ${file.name} ...`;
    button.disabled = true;
    try {
      const answer = await fetch(`${chooser.dataset.to}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers: { "Tandem-Form": token, "Content-Type": "application/octet-stream" } });
      const words = await answer.text();
      if (answer.ok) { field.value = words; place.textContent = `${file.name} is here.`; } else { place.textContent = words; }
    } catch (error) { place.textContent = "This page's own server does not answer. Is tandem ui still running?"; }
    button.disabled = false;
  });
});
