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

async function keepFresh(region) {
  const every = Number(region.dataset.every), gone = document.querySelector(".gone");
  let tag = "", pause = every;
  announce(region);
  while (!region.querySelector("[data-ended]")) {
    await new Promise((done) => setTimeout(done, pause));
    if (document.hidden) continue;
    try {
      const answer = await fetch(region.dataset.live, { headers: tag ? { "If-None-Match": tag } : {} });
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

document.querySelectorAll("[data-live]").forEach(keepFresh);

// A form whose answer takes a while says so, and is sent once.
document.querySelectorAll("form[data-busy]").forEach((form) => form.addEventListener("submit", () => {
  const button = form.querySelector("button"), place = document.querySelector("[role=status]");
  button.disabled = true;
  if (place) place.textContent = `${form.dataset.busy} ...`;
}));
window.addEventListener("pageshow", () => document.querySelectorAll("form[data-busy] button").forEach((button) => { button.disabled = false; }));
