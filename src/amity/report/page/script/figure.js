// The frame of a picture: its title, what it shows in words, its readout under the pointer, and how it is saved.
"use strict";
((amity) => {
  const { el } = amity;
  const drawn = new Map(); // the box a picture is drawn in -> its draw function

  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (!target.isConnected) {
        watcher.unobserve(target);
        drawn.delete(target);
      } else if (Math.round(target.clientWidth) !== Number(target.dataset.width)) {
        drawn.get(target)();
      }
    }
  });

  /**
   * Return a figure. `draw(width, frame)` makes its SVG, again whenever the width or the colours change; `csv()` its
   * numbers as rows; `alt()` says in words what it shows.
   */
  function figure({ id, title, note, alt, draw, csv, controls }) {
    const box = el("div", { class: "drawing" });
    const tip = el("div", { class: "tip", hidden: true });
    const frame = { box, show: (x, y, content) => showTip(box, tip, x, y, content), hide: () => (tip.hidden = true) };
    const redraw = () => {
      const width = Math.round(box.clientWidth) || 640;
      const focused = box.contains(document.activeElement);
      box.dataset.width = width;
      const picture = draw(width, frame);
      if (picture.namespaceURI.endsWith("svg")) picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", alt());
      tip.hidden = true;
      box.replaceChildren(picture, tip);
      if (focused && picture.hasAttribute("tabindex")) picture.focus({ preventScroll: true });
    };
    const save = el("div", { class: "tools" }, [
      el(
        "button",
        {
          type: "button",
          class: "tool",
          id: `${id}-png`,
          "aria-label": `Save as PNG: ${title}`,
          on: { click: () => amity.savePng(box, id, title) },
        },
        "PNG",
      ),
      el(
        "button",
        {
          type: "button",
          class: "tool",
          id: `${id}-csv`,
          "aria-label": `Save as CSV: ${title}`,
          on: { click: () => amity.saveText(amity.csv(csv()), `${id}.csv`, "text/csv") },
        },
        "CSV",
      ),
    ]);
    const head = el("div", { class: "head" }, el("h3", {}, title), save);
    const node = el(
      "figure",
      { id, class: "figure" },
      el("figcaption", {}, head, note ? el("p", { class: "note" }, note) : null),
      controls || null,
      box,
    );
    drawn.set(box, redraw);
    watcher.observe(box);
    return { node, redraw };
  }

  /** Put the readout beside a place, inside the picture's box. */
  function showTip(box, tip, x, y, { title, rows, words }) {
    tip.replaceChildren(
      el("strong", {}, title),
      rows && rows.length ? el("table", { class: "plain" }, el("tbody", {}, rows.map(tipRow))) : "",
      words ? el("p", {}, words) : "",
    );
    tip.hidden = false;
    const width = box.clientWidth;
    const beside = x + 14 + tip.offsetWidth <= width ? x + 14 : Math.max(0, x - 14 - tip.offsetWidth);
    tip.style.left = `${beside}px`;
    tip.style.top = `${Math.max(0, Math.min(y, box.clientHeight - tip.offsetHeight))}px`;
    const told = (rows || []).map((row) => `${row.name} ${row.value}`).join(", ");
    amity.say([title, told, words].filter(Boolean).join(": "));
  }

  function tipRow({ name, value, colour, strong }) {
    const swatch = el("span", { class: "swatch" });
    if (colour) swatch.style.background = colour;
    return el(
      "tr",
      { class: strong ? "strong" : null },
      el("th", {}, colour ? swatch : "", amity.shorten(name, 32)),
      el("td", {}, value),
    );
  }

  /** Draw the pictures of a part that has just been made: the page must not grow later, under the reader's eyes. */
  function drawIn(section) {
    for (const [box, redraw] of drawn) if (section.contains(box)) redraw();
  }

  /** Draw every picture again: the colours have changed, or the page is being printed. */
  function redrawAll() {
    for (const [box, redraw] of drawn) if (box.isConnected) redraw();
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  matchMedia("print").addEventListener("change", redrawAll);

  /** Return the place of a pointer inside an SVG, in the units that it is drawn in. */
  function pointed(event, picture) {
    const box = picture.getBoundingClientRect();
    const scale = Number(picture.getAttribute("width")) / (box.width || 1);
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  /** Return an SVG of a size that fits its box. */
  function picture(width, height, attributes = {}) {
    return amity.svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "picture", ...attributes });
  }

  Object.assign(amity, { figure, drawIn, redrawAll, pointed, picture });
})(window.amity);
