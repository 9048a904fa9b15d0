// Dots with intervals around a line at zero, and plain dots: pictures of one number for each silo.
"use strict";
((amity) => {
  const { svg } = amity;

  const KINDS = {
    gains: "gain",
    "better alone": "lose",
    "no clear difference": "level",
    "cannot be compared": "unknown",
  };

  /** Draw the difference of each silo with its interval; `silos` are verdicts, best first. */
  function differences({ width, frame, silos, unit }) {
    const few = silos.length <= 40;
    const row = few ? 26 : Math.max(3, Math.min(14, 900 / silos.length));
    const letters = width < 480 ? 14 : 22;
    const left = few
      ? amity.labels(
          silos.map(({ silo }) => silo),
          letters,
          12.5,
        ).width + 14
      : 12;
    const [top, bottom] = [34, 34 + row * silos.length];
    const span = amity.extent([0, ...silos.flatMap(({ low, high, difference }) => [low, high, difference])], 0.05) || [
      -1, 1,
    ];
    const x = amity.linear(span[0], span[1], left, width - 14);
    const drawing = amity.picture(width, bottom + 44, { tabindex: "0" });
    const right = width - 14;
    const every = (width - left) / 80;
    const axis = { span, x, every, top: top - 8, bottom, title: unit, right, number: amity.signed, zero: true };
    amity.axisBelow(drawing, axis);
    drawing.append(
      svg(
        "text",
        { class: "title lose", x: x(0) - 8, y: 14, "text-anchor": "end" },
        x(0) > 110 ? "\u2190 better alone" : "",
      ),
    );
    drawing.append(
      svg("text", { class: "title gain", x: x(0) + 8, y: 14 }, width - x(0) > 110 ? "better together \u2192" : ""),
    );
    const band = svg("rect", { class: "pointer highlight", x: 0, width, height: row, visibility: "hidden" });
    drawing.append(band);
    silos.forEach((silo, place) =>
      drawing.append(interval(silo, top + (place + 0.5) * row, x, few ? [left - 12, letters] : null, row)),
    );
    const show = (place) => {
      const silo = silos[place];
      band.setAttribute("y", top + place * row);
      band.setAttribute("visibility", "visible");
      frame.show(silo.difference === null ? x(0) : x(silo.high ?? silo.difference), top + place * row + row, {
        title: silo.silo,
        rows: siloRows(silo),
        words: silo.words,
      });
    };
    const hide = () => {
      band.setAttribute("visibility", "hidden");
      frame.hide();
    };
    choose(drawing, silos.length, (at) => Math.floor((at[1] - top) / row), show, hide);
    return drawing;
  }

  function siloRows({ difference, low, high }) {
    if (difference === null) return [];
    const rows = [{ name: "difference", value: amity.signed(difference, 1) }];
    if (low !== null && high !== null)
      rows.push({ name: "interval", value: `${amity.signed(low, 1)} to ${amity.signed(high, 1)}` });
    return rows;
  }

  function interval({ silo, difference, low, high, judgement }, y, x, name, row) {
    const group = svg("g", { class: KINDS[judgement] || "unknown" });
    if (name)
      group.append(
        svg("text", { class: "name plain", x: name[0], y: y + 4, "text-anchor": "end" }, amity.shorten(silo, name[1])),
      );
    if (low !== null && high !== null)
      group.append(svg("line", { class: "interval", x1: x(low), x2: x(high), y1: y, y2: y }));
    const size = Math.min(5, row / 2.4);
    if (difference === null) group.append(svg("text", { class: "tick", x: x(0) + 6, y: y + 4 }, "?"));
    else if (judgement === "no clear difference")
      group.append(svg("circle", { class: "mark hollow", cx: x(difference), cy: y, r: size - 0.5 }));
    else if (judgement === "better alone")
      group.append(
        svg("rect", {
          class: "mark",
          x: x(difference) - size * 0.85,
          y: y - size * 0.85,
          width: size * 1.7,
          height: size * 1.7,
        }),
      );
    else group.append(svg("circle", { class: "mark", cx: x(difference), cy: y, r: size }));
    return group;
  }

  /** Let pointer and arrow keys go through things that lie in a row. */
  function choose(drawing, count, place, show, hide) {
    let now = -1;
    drawing.addEventListener("pointermove", (event) => {
      const at = place(amity.pointed(event, drawing));
      if (at >= 0 && at < count) show((now = at));
      else hide();
    });
    drawing.addEventListener("pointerleave", hide);
    drawing.addEventListener("blur", hide);
    drawing.addEventListener("keydown", (event) => {
      const steps = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, Home: -count, End: count };
      if (event.key === "Escape") return hide();
      if (!(event.key in steps) || count === 0) return;
      event.preventDefault();
      now = Math.max(0, Math.min(count - 1, now + steps[event.key]));
      show(now);
    });
  }

  /** Return how far above or below the middle each dot lies, so that dots at the same place are all seen. */
  function swarm(places, most) {
    const size = 7.5;
    const steps = [0];
    for (let step = size; step <= most; step += size) steps.push(step, -step);
    const taken = [];
    return places.map((place) => {
      const free = steps.find((step) => taken.every(([x, y]) => Math.hypot(x - place, y - step) >= size - 0.5));
      const height = free ?? steps[taken.length % steps.length];
      taken.push([place, height]);
      return height;
    });
  }

  /** Draw each silo of each row as a dot, and the mean as a bar: `rows` have name, colour and dots [{name, value}]. */
  function dots({ width, frame, rows, title, digits, unit }) {
    const row = Math.max(...rows.map((one) => one.dots.length)) > 10 ? 54 : 40;
    const narrow = width < 560;
    const left = narrow
      ? 8
      : amity.labels(
          rows.map(({ name }) => name),
          22,
          12.5,
        ).width + 18;
    const high = narrow ? row + 16 : row;
    const [top, bottom] = [8, 8 + high * rows.length];
    const span = amity.extent(
      rows.flatMap((one) => one.dots.map(({ value }) => value)),
      0.04,
    ) || [0, 1];
    const x = amity.linear(span[0], span[1], left + 4, width - 14);
    const drawing = amity.picture(width, bottom + 44, { tabindex: "0" });
    amity.axisBelow(drawing, { span, x, every: (width - left) / 90, top, bottom, title, right: width - 14 });
    const all = [];
    rows.forEach((one, place) => {
      const y = top + high * place + (narrow ? 28 : high / 2);
      drawing.append(
        svg(
          "text",
          {
            class: "name plain",
            x: narrow ? left : left - 8,
            y: narrow ? y - 14 : y + 4,
            "text-anchor": narrow ? "start" : "end",
          },
          amity.shorten(one.name, narrow ? 36 : 22),
        ),
      );
      const known = one.dots.filter(({ value }) => value !== null);
      const heights = swarm(
        known.map((dot) => x(dot.value)),
        high / 2 - 5,
      );
      known.forEach((dot, order) => {
        const cy = y + heights[order];
        drawing.append(svg("circle", { class: "silo", cx: x(dot.value), cy, r: 4, fill: one.colour }));
        all.push({ ...dot, row: one.name, colour: one.colour, x: x(dot.value), y: cy });
      });
      if (!known.length) return;
      const mean = known.reduce((sum, { value }) => sum + value, 0) / known.length;
      drawing.append(svg("line", { class: "mean", x1: x(mean), x2: x(mean), y1: y - 12, y2: y + 12 }));
    });
    const ring = svg("circle", { class: "pointer ring", r: 6.5, visibility: "hidden" });
    drawing.append(ring);
    const show = (place) => {
      const dot = all[place];
      ring.setAttribute("cx", dot.x);
      ring.setAttribute("cy", dot.y);
      ring.setAttribute("visibility", "visible");
      frame.show(dot.x, dot.y, {
        title: dot.name,
        rows: [
          { name: dot.row, colour: dot.colour, value: `${amity.number(dot.value, digits)}${unit ? ` ${unit}` : ""}` },
        ],
      });
    };
    const hide = () => {
      ring.setAttribute("visibility", "hidden");
      frame.hide();
    };
    const near = ([px, py]) => {
      let [best, least] = [-1, 20];
      all.forEach((dot, place) => {
        const distance = Math.hypot(dot.x - px, dot.y - py);
        if (distance < least) [best, least] = [place, distance];
      });
      return best;
    };
    choose(drawing, all.length, near, show, hide);
    return drawing;
  }

  Object.assign(amity, { differences, dots, choose, KINDS });
})(window.amity);
