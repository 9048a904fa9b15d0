// The page: its header, its parts in their order, and what the reader has chosen, which outlives every new view.
"use strict";
((amity) => {
  const { el } = amity;
  const state = {
    worth: null, // the method whose verdicts are shown; null: the one that the view leads with
    ties: null,
    course: null,
    setup: null,
    order: "given",
    round: null, // of the weights; null: the latest one
    measure: "mean",
    silo: null,
    open: {}, // details by id
    sorts: {
      verdicts: { key: "difference", way: "descending" },
      methods: { key: null, way: "descending" },
      metrics: { key: null, way: "descending" },
      silos: { key: null, way: "ascending" },
    },
  };
  const parts = [];
  const shown = new Map(); // a part's id -> what it was last drawn from, as text
  let view = null;
  let pressed = null; // the part that a pointer is held down in: it must not be replaced under the finger
  const waiting = new Set();

  amity.part = (part) => parts.push(part);

  /** Do something to the page, and leave what the reader is looking at where it was on the screen. */
  function inPlace(change) {
    const anchor = [...document.querySelectorAll("main > section")].find(
      (section) => section.getBoundingClientRect().bottom > 0,
    )?.id;
    const before = anchor && document.getElementById(anchor).getBoundingClientRect().top;
    const scrolled = window.scrollY > 0;
    change();
    const after = anchor && document.getElementById(anchor)?.getBoundingClientRect().top;
    if (scrolled && after !== undefined && after !== before)
      window.scrollBy({ top: after - before, behavior: "instant" });
  }

  /** Draw a view: only parts whose contents have changed are made anew, and the reader's place is kept. */
  function render(next) {
    inPlace(() => renderParts(next));
  }

  function renderParts(next) {
    view = next;
    document.title = `${view.live ? "Watching" : "Amity"}: ${view.title}`;
    const page = document.getElementById("page");
    if (!page.querySelector("header")) page.replaceChildren(el("header", { id: "top" }));
    header(page.querySelector("header"));
    const present = parts.filter((part) => part.uses(view) !== null);
    for (const part of parts) {
      const old = document.getElementById(part.id);
      if (!present.includes(part)) {
        if (old) old.remove();
        shown.delete(part.id);
      }
    }
    present.forEach((part, place) => {
      let section = document.getElementById(part.id);
      if (!section) {
        section = el("section", { id: part.id, "aria-labelledby": `${part.id}-title` });
        const before = present
          .slice(place + 1)
          .map(({ id }) => document.getElementById(id))
          .find(Boolean);
        page.insertBefore(section, before || page.querySelector("footer"));
      }
      const print = JSON.stringify(part.uses(view));
      if (shown.get(part.id) === print) return;
      shown.set(part.id, print);
      if (pressed === part.id) waiting.add(part.id);
      else draw(part);
    });
    footer(page);
  }

  /** Make one part anew, and put the focus back where it was. */
  function draw(part) {
    const section = document.getElementById(part.id);
    const focused = section.contains(document.activeElement) ? document.activeElement : null;
    const id = focused?.id || focused?.closest("[id]")?.id;
    for (const details of section.querySelectorAll("details[id]")) state.open[details.id] = details.open;
    const boxes = [...section.querySelectorAll(".scroll[id], .feedbox[id], pre[id]")];
    const scrolled = boxes.map((box) => [box.id, box.scrollLeft, box.scrollTop]);
    const refresh = (changes) => {
      Object.assign(state, changes);
      inPlace(() => draw(part));
    };
    const made = el(
      "div",
      { class: "content" },
      el("h2", { id: `${part.id}-title` }, part.title),
      part.show(view, state, refresh),
    );
    section.replaceChildren(made);
    amity.drawIn(section);
    for (const [key, left, top] of scrolled) document.getElementById(key)?.scrollTo(left, top);
    const again = id && document.getElementById(id);
    const target = again?.matches("[tabindex], button, select, input") ? again : again?.querySelector("summary, svg");
    target?.focus({ preventScroll: true });
  }

  function header(place) {
    const rounds = Math.max(0, ...view.runs.map(({ asked, ending }) => asked - (ending ? 1 : 0)));
    const live = view.live ? view.live.runs.map((run) => run.silos.length) : [];
    const silos = view.silos.length || Math.max(0, ...live); // of a run without a record yet, those that are seen
    const told = [
      view.data,
      view.setting && view.setting !== "own" && view.setting !== "natural" ? view.setting : "",
      view.model,
      silos ? amity.plural(silos, "silo") : "",
      rounds ? `${amity.plural(rounds, "round")}${view.runs.some(({ ending }) => ending) ? " and an ending" : ""}` : "",
    ];
    const links = parts.filter((part) => part.uses(view) !== null && part.id !== "live");
    const print = JSON.stringify([view.title, told, links.map(({ id }) => id), Boolean(view.live)]);
    if (shown.get("top") === print) return;
    shown.set("top", print);
    place.replaceChildren(
      el("p", { class: "kicker" }, view.live ? "Amity, live" : "Amity report"),
      el("h1", {}, view.title),
      el("p", { class: "facts-line" }, told.filter(Boolean).join(" \u00b7 ")),
      links.length > 1
        ? el(
            "nav",
            { "aria-label": "Questions" },
            el(
              "ol",
              {},
              links.map(({ id, title }) => el("li", {}, el("a", { href: `#${id}` }, title))),
            ),
          )
        : "",
    );
  }

  function footer(page) {
    const old = page.querySelector("footer");
    const text = `Made by Amity ${view.amity} on ${amity.day(view.made)}. This page holds all its numbers and asks nothing of any network.`;
    if (old) old.firstChild.textContent = text;
    else page.append(el("footer", {}, el("p", {}, text)));
  }

  document.addEventListener("pointerdown", (event) => (pressed = event.target.closest?.("section")?.id ?? null));
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => {
      pressed = null;
      for (const part of parts) if (waiting.delete(part.id)) inPlace(() => draw(part));
    });
  }

  Object.assign(amity, { render, state });
})(window.amity);
