// Heat maps: rectangles where silos are few, an image of one pixel for each cell where they are many.
//
// Colours of weights go by *how many times an even share*. With m silos, a silo that listens to all alike gives each 1/m:
// that is a pale grey, which reads as "nothing special", and a uniform matrix is one pale square. Less fades into the
// paper, more goes through blue to the darkest ink, on a logarithmic scale that ends at m shares, which is everything. So
// a dark cell always means that one silo listens to another much more than to the rest, whatever m is. Scaled to the
// largest weight instead, a uniform matrix would be dark all over. Negative weights are orange: they push away.
"use strict";
((amity) => {
  const { svg } = amity;
  const FEW = 32; // silos up to which every cell is an element of its own
  const NAMED = 40; // silos whose names fit along an edge

  /** Return the colour of a weight among m silos. */
  function weightColours(m) {
    const [paper, even, mid, deep, far] = ["paper", "even", "more", "most", "negative"].map(amity.ink);
    const span = Math.log(Math.max(2, m));
    return (value) => {
      if (value === null) return null;
      const share = value * m;
      if (share < 0) return amity.along([paper, far], Math.min(1, 0.25 + (0.75 * Math.log1p(-share)) / span));
      if (share <= 1) return amity.mix(paper, even, share);
      return amity.along([even, mid, deep], Math.log(share) / span);
    };
  }

  /** Return the colour of a count, by its square root: beside a silo with 80 % of a class, one with 1 % is still seen. */
  function countColours(top) {
    const scale = ["even", "more", "most"].map(amity.ink);
    return (value) => (value ? amity.along(scale, Math.sqrt(value / top)) : null);
  }

  /**
   * Draw a matrix. `rows` and `columns` are names in the order to show, `value(row, column)` the numbers, `colour` what
   * they look like, `borders` where groups meet, `told(row, column)` what the readout says, `keys` the scale below.
   */
  function heat({ width, frame, rows, columns, value, colour, borders, told, keys, labels, square, framed }) {
    const down = amity.labels(rows.length <= NAMED ? rows : [], width < 480 ? 11 : 20);
    const across = amity.labels(columns.length <= NAMED ? columns : [], width < 480 ? 9 : 16);
    const left = Math.max(22, down.width + 12);
    const named = across.width > 0 && (width - left) / columns.length >= 18; // else names would lie on each other
    const top = named ? across.width * 0.82 + 32 : 26;
    const free = width - left - (named ? Math.max(14, across.width * 0.5) : 2);
    const cell = square ? Math.min(64, free / columns.length) : Math.min(110, free / columns.length);
    const high = square ? cell : Math.max(8, Math.min(26, 520 / rows.length));
    const [wide, tall] = [cell * columns.length, high * rows.length];
    const drawing = amity.picture(width, top + tall + 78, { tabindex: "0" });
    drawing.append(cells(rows, columns, value, colour, { left, top, cell, high, wide, tall }));
    for (const at of borders || []) {
      drawing.append(
        svg("line", { class: "border", x1: left + at * cell, x2: left + at * cell, y1: top, y2: top + tall }),
      );
      if (square)
        drawing.append(
          svg("line", { class: "border", x1: left, x2: left + wide, y1: top + at * high, y2: top + at * high }),
        );
    }
    if (framed && rows.length <= FEW)
      rows.forEach((_, at) =>
        drawing.append(
          svg("rect", {
            class: "self",
            x: left + framed[at] * cell + 1,
            y: top + at * high + 1,
            width: cell - 2,
            height: high - 2,
          }),
        ),
      );
    drawing.append(svg("rect", { class: "edge", x: left, y: top, width: wide, height: tall }));
    if (high >= 11)
      down.texts.forEach((name, at) =>
        drawing.append(
          svg("text", { class: "tick", x: left - 7, y: top + (at + 0.5) * high + 4, "text-anchor": "end" }, name),
        ),
      );
    if (named) across.texts.forEach((name, at) => drawing.append(tilted(name, left + (at + 0.5) * cell, top - 7)));
    drawing.append(svg("text", { class: "title", x: 0, y: 12 }, labels));
    drawing.append(keys(left, top + tall + 26, Math.min(width - left, 420)));
    const ring = svg("rect", {
      class: "pointer ring",
      width: Math.max(3, cell),
      height: Math.max(3, high),
      visibility: "hidden",
    });
    drawing.append(ring);
    roam(drawing, frame, { left, top, cell, high, rows, columns, ring, told });
    return drawing;
  }

  function tilted(text, x, y) {
    return svg("text", { class: "tick", x, y, transform: `rotate(-55 ${x.toFixed(1)} ${y.toFixed(1)})` }, text);
  }

  function cells(rows, columns, value, colour, { left, top, cell, high, wide, tall }) {
    const none = amity.ink("absent");
    const blank = amity.ink("paper");
    if (rows.length <= FEW && columns.length <= FEW) {
      const gap = Math.min(cell, high) > 9 ? 1 : 0;
      const group = svg("g", { class: "cells" });
      rows.forEach((_, row) => {
        columns.forEach((_, column) => {
          const number = value(row, column);
          const fill = number === null ? none : colour(number) || blank;
          group.append(
            svg("rect", { x: left + column * cell, y: top + row * high, width: cell - gap, height: high - gap, fill }),
          );
        });
      });
      return group;
    }
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [columns.length, rows.length];
    const pen = canvas.getContext("2d");
    for (let row = 0; row < rows.length; row += 1) {
      for (let column = 0; column < columns.length; column += 1) {
        const number = value(row, column);
        pen.fillStyle = number === null ? none : colour(number) || blank;
        pen.fillRect(column, row, 1, 1);
      }
    }
    return svg("image", {
      class: "cells",
      x: left,
      y: top,
      width: wide,
      height: tall,
      href: canvas.toDataURL(),
      preserveAspectRatio: "none",
      "image-rendering": "pixelated",
    });
  }

  /** Let pointer and arrow keys go from cell to cell. */
  function roam(drawing, frame, { left, top, cell, high, rows, columns, ring, told }) {
    let [row, column] = [0, -1];
    const show = () => {
      ring.setAttribute("x", left + column * cell);
      ring.setAttribute("y", top + row * high);
      ring.setAttribute("visibility", "visible");
      frame.show(left + (column + 1) * cell, top + row * high, told(row, column));
    };
    const hide = () => {
      ring.setAttribute("visibility", "hidden");
      frame.hide();
    };
    drawing.addEventListener("pointermove", (event) => {
      const [x, y] = amity.pointed(event, drawing);
      const [over, under] = [Math.floor((x - left) / cell), Math.floor((y - top) / high)];
      if (over < 0 || under < 0 || over >= columns.length || under >= rows.length) return hide();
      [row, column] = [under, over];
      show();
    });
    drawing.addEventListener("pointerleave", hide);
    drawing.addEventListener("blur", hide);
    drawing.addEventListener("keydown", (event) => {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (event.key === "Escape") return hide();
      if (!(event.key in steps)) return;
      event.preventDefault();
      const [y, x] = column < 0 ? [0, 1] : steps[event.key];
      row = Math.max(0, Math.min(rows.length - 1, row + y));
      column = Math.max(0, Math.min(columns.length - 1, column + x));
      show();
    });
  }

  /** Return the scale of weights in shares: nothing, an even share, twice that, and so on up to all. */
  function weightKey(m, colour, negative) {
    const marks = [
      [0, "nothing"],
      [1, "even share"],
    ];
    for (const share of [2, 5, 20, 50]) if (share < m * 0.6) marks.push([share, `\u00d7${share}`]);
    marks.push([m, "all"]);
    if (negative) marks.unshift([-1, "negative"]);
    return key(marks.map(([share, text]) => [colour(share / m), text]));
  }

  function key(marks) {
    return (left, top, width) => {
      const group = svg("g");
      const step = Math.min(90, Math.max(width / marks.length, ...marks.map(([, text]) => amity.textWidth(text) + 8)));
      const fit =
        step * marks.length <= width + 8
          ? marks
          : [...marks.slice(0, Math.floor(width / step) - 1), marks[marks.length - 1]];
      fit.forEach(([fill, text], place) => {
        group.append(
          svg("rect", {
            class: "key",
            x: left + place * step,
            y: top,
            width: step - 2,
            height: 10,
            fill: fill || amity.ink("paper"),
          }),
        );
        group.append(svg("text", { class: "tick", x: left + place * step, y: top + 25 }, text));
      });
      return group;
    };
  }

  /** Return where groups that lie side by side meet; nowhere where they are scattered, as lines would be everywhere. */
  function borders(groups) {
    const edges = [];
    for (let at = 1; at < groups.length; at += 1) if (groups[at] !== groups[at - 1]) edges.push(at);
    return edges.length === new Set(groups).size - 1 ? edges : [];
  }

  Object.assign(amity, { heat, weightColours, countColours, weightKey, key, borders });
})(window.amity);
