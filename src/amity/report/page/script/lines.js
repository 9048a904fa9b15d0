// Line charts: a few curves that are read out together at a round, or many of which one stands out.
"use strict";
((amity) => {
  const { svg } = amity;
  const SMALL = 12; // pixels of the small print

  /** Return grid, ticks and titles around a drawing area. */
  function axes(area, x, y) {
    const { left, right, top, bottom } = area;
    const group = svg("g", { class: "axes" });
    const across = amity.ticks(y.low, y.high, Math.max(2, Math.round((bottom - top) / 55)));
    const digits = amity.digits(across);
    for (const value of across) {
      const at = y.place(value);
      group.append(svg("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }));
      group.append(
        svg("text", { class: "tick", x: left - 8, y: at + 4, "text-anchor": "end" }, amity.number(value, digits)),
      );
    }
    const most = Math.max(1, Math.min(10, Math.floor((right - left) / 60)));
    for (const value of x.low === x.high ? [x.low] : amity.ticks(x.low, x.high, most, true)) {
      group.append(
        svg("text", { class: "tick", x: x.place(value), y: bottom + 18, "text-anchor": "middle" }, String(value)),
      );
    }
    group.append(svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    group.append(svg("text", { class: "title", x: 0, y: 12 }, y.title));
    group.append(svg("text", { class: "title", x: right, y: bottom + 36, "text-anchor": "end" }, "round"));
    return group;
  }

  /** Mark the round after the last, in which silos went on alone: a line before it, and its name. */
  function endingMarks(endings, area, x) {
    const group = svg("g", { class: "endings" });
    for (const round of endings) {
      const at = (x.place(round) + x.place(Math.max(x.low, round - 1))) / 2;
      group.append(svg("line", { class: "ending", x1: at, x2: at, y1: area.top, y2: area.bottom }));
      group.append(svg("text", { class: "tick", x: at - 5, y: area.bottom - 6, "text-anchor": "end" }, "ending \u2192"));
    }
    return group;
  }

  const roundName = (round, endings) => (endings.includes(round) ? "ending: each silo on its own" : `round ${round}`);

  /** Return the path of points, broken where a value is missing. */
  function path(points, x, y) {
    let text = "";
    let pen = false;
    for (const [round, value] of points) {
      if (value === null || value === undefined) {
        pen = false;
        continue;
      }
      text += `${pen ? "L" : "M"}${x(round).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
    }
    return text;
  }

  function bandPath(band, x, y) {
    const known = band.filter(([, low]) => low !== null);
    const over = known.map(([round, , high]) => `${x(round).toFixed(1)} ${y(high).toFixed(1)}`);
    const under = known.map(([round, low]) => `${x(round).toFixed(1)} ${y(low).toFixed(1)}`).reverse();
    return known.length ? `M${over.concat(under).join("L")}Z` : "";
  }

  function scales(width, height, top, right, rounds, values, title) {
    const span = amity.extent(values) || [0, 1];
    const digits = amity.digits(amity.ticks(span[0], span[1], 4));
    const widest = Math.max(...span.map((value) => amity.textWidth(amity.number(value, digits))));
    const area = { left: Math.max(30, widest + 14), right: width - right, top, bottom: height - 42 };
    const [first, last] = [rounds[0] ?? 0, rounds[rounds.length - 1] ?? 1];
    const x = {
      low: first,
      high: last,
      place:
        first === last ? () => (area.left + area.right) / 2 : amity.linear(first, last, area.left + 6, area.right - 6),
    };
    const y = { low: span[0], high: span[1], title, place: amity.linear(span[0], span[1], area.bottom, area.top) };
    return { area, x, y };
  }

  /** Return names at the ends of their lines, moved apart where they would overlap. */
  function endLabels(series, area, y) {
    const labels = series
      .map((one) => ({ one, last: one.points.findLast(([, value]) => value !== null) }))
      .filter(({ last }) => last)
      .map(({ one, last }) => ({ one, at: y.place(last[1]) }))
      .sort((a, b) => a.at - b.at);
    for (let pass = 0; pass < 60; pass += 1) {
      for (let place = 1; place < labels.length; place += 1) {
        const close = SMALL + 3 - (labels[place].at - labels[place - 1].at);
        if (close > 0) {
          labels[place].at += close / 2;
          labels[place - 1].at -= close / 2;
        }
      }
    }
    const shift = Math.max(0, area.top - (labels[0]?.at ?? area.top));
    return labels.map(({ one, at }) =>
      svg(
        "text",
        { class: "name", x: area.right + 8, y: at + shift + 4, fill: one.colour },
        amity.shorten(one.name, 20),
      ),
    );
  }

  /** Return a legend in lines above the drawing, and how high it is. */
  function legend(series, width, top) {
    const group = svg("g");
    let [x, y] = [0, top];
    for (const one of series) {
      const name = amity.shorten(one.name, 24);
      const size = 26 + amity.textWidth(name) + 16;
      if (x > 0 && x + size > width) [x, y] = [0, y + 20];
      group.append(
        svg("line", {
          x1: x,
          x2: x + 20,
          y1: y - 4,
          y2: y - 4,
          stroke: one.colour,
          "stroke-width": 2.5,
          "stroke-dasharray": one.dash || null,
        }),
      );
      group.append(svg("text", { class: "tick", x: x + 26, y }, name));
      x += size;
    }
    return [group, y - top + 24];
  }

  /** Return the round nearest to a place. */
  function nearest(rounds, x, at) {
    return rounds.reduce(
      (best, round) => (Math.abs(x.place(round) - at) < Math.abs(x.place(best) - at) ? round : best),
      rounds[0],
    );
  }

  /**
   * Draw curves with a crosshair that reads all of them out. `series`: name, colour, dash, points [[round, value]],
   * band [[round, low, high]] or none. `endings`: rounds that are one.
   */
  function curves({ width, frame, series, rounds, title, digits, unit, endings = [] }) {
    const beside = width >= 680 && series.length <= 12;
    const right = beside
      ? 16 +
        amity.labels(
          series.map(({ name }) => name),
          20,
          12.5,
          600,
        ).width
      : 12;
    const [key, tall] = beside ? [null, 0] : legend(series, width, 36);
    const top = 26 + tall;
    const height = top + Math.max(220, Math.min(360, width * 0.4)) + 42;
    const values = series.flatMap(({ points, band }) => [
      ...points.map((point) => point[1]),
      ...(band || []).flatMap(([, low, high]) => [low, high]),
    ]);
    const { area, x, y } = scales(width, height, top, right, rounds, values, title);
    const drawing = amity.picture(width, height, { tabindex: "0" });
    drawing.append(axes(area, x, y), key || "", endingMarks(endings, area, x));
    for (const { band, colour } of series) {
      if (band) drawing.append(svg("path", { class: "band", d: bandPath(band, x.place, y.place), fill: colour }));
    }
    for (const { points, colour, dash } of series) {
      drawing.append(
        svg("path", {
          class: "line",
          d: path(points, x.place, y.place),
          stroke: colour,
          "stroke-dasharray": dash || null,
        }),
      );
      if (points.length <= 30)
        for (const [round, value] of points)
          if (value !== null)
            drawing.append(svg("circle", { cx: x.place(round), cy: y.place(value), r: 2.4, fill: colour }));
    }
    if (beside) drawing.append(...endLabels(series, area, y));
    const cross = svg("g", { class: "pointer" });
    drawing.append(cross);
    const show = (round) => {
      const at = x.place(round);
      cross.replaceChildren(svg("line", { class: "cross", x1: at, x2: at, y1: area.top, y2: area.bottom }));
      const rows = series.map(({ name, colour, points }) => ({
        name,
        colour,
        number: (points.find((point) => point[0] === round) || [])[1] ?? null,
      }));
      rows.sort((a, b) => (b.number ?? -Infinity) - (a.number ?? -Infinity));
      for (const { number, colour } of rows)
        if (number !== null)
          cross.append(svg("circle", { cx: at, cy: y.place(number), r: 4, fill: colour, class: "dot" }));
      frame.show(at, area.top, {
        title: roundName(round, endings),
        rows: rows.map((row) => ({
          ...row,
          value: row.number === null ? "\u2013" : `${amity.number(row.number, digits)}${unit ? ` ${unit}` : ""}`,
        })),
      });
    };
    steer(drawing, frame, rounds, x, show, () => cross.replaceChildren());
    return drawing;
  }

  /** Let pointer and arrow keys choose a round. */
  function steer(drawing, frame, rounds, x, show, clear, upDown = null) {
    let round = null;
    const hide = () => {
      clear();
      frame.hide();
    };
    drawing.addEventListener("pointermove", (event) => {
      const [at, down] = amity.pointed(event, drawing);
      if (rounds.length) show((round = nearest(rounds, x, at)), down);
    });
    drawing.addEventListener("pointerleave", hide);
    drawing.addEventListener("blur", hide);
    drawing.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
      if (event.key === "Escape") return hide();
      if (upDown && (event.key === "ArrowUp" || event.key === "ArrowDown")) upDown(event.key === "ArrowUp" ? 1 : -1);
      else if (!(event.key in steps)) return;
      event.preventDefault();
      const place = round === null ? rounds.length - 1 : rounds.indexOf(round) + (steps[event.key] || 0);
      round = rounds[Math.max(0, Math.min(rounds.length - 1, place))];
      if (round !== undefined) show(round, null);
    });
  }

  Object.assign(amity, { curves, lineParts: { axes, endingMarks, path, roundName, scales, steer } });
})(window.amity);
