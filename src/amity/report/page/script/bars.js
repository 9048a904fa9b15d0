// Stacked bars for sizes, and sparklines for the live page.
"use strict";
((amity) => {
  const { svg } = amity;

  /** Draw `rows` (name, parts [numbers]) as stacked bars; `kinds` name the parts and their colours. */
  function bars({ width, frame, rows, kinds, title, told }) {
    const narrow = width < 560;
    const row = narrow ? 46 : 30;
    const left = narrow
      ? 4
      : amity.labels(
          rows.map(({ name }) => name),
          22,
          12.5,
        ).width + 18;
    const top = 30;
    const bottom = top + row * rows.length;
    const most = Math.max(...rows.map(({ parts }) => parts.reduce((sum, part) => sum + part, 0)), 1e-9);
    const x = amity.linear(0, most, left, width - 16);
    const drawing = amity.picture(width, bottom + 44, { tabindex: "0" });
    let at = 0;
    for (const { name, colour } of kinds) {
      drawing.append(
        svg("rect", { x: at, y: 4, width: 11, height: 11, fill: colour }),
        svg("text", { class: "tick", x: at + 16, y: 14 }, name),
      );
      at += 32 + amity.textWidth(name);
    }
    const span = [0, most];
    amity.axisBelow(drawing, { span, x, every: (width - left) / 100, top, bottom, title, right: width - 16 });
    rows.forEach(({ name, parts }, place) => {
      const y = top + row * place + (narrow ? 20 : 5);
      drawing.append(
        svg(
          "text",
          {
            class: "name plain",
            x: narrow ? left : left - 8,
            y: narrow ? y - 5 : y + 14,
            "text-anchor": narrow ? "start" : "end",
          },
          amity.shorten(name, narrow ? 36 : 22),
        ),
      );
      let sum = 0;
      parts.forEach((part, kind) => {
        drawing.append(
          svg("rect", {
            x: x(sum),
            y,
            width: Math.max(0, x(sum + part) - x(sum)),
            height: 20,
            fill: kinds[kind].colour,
          }),
        );
        sum += part;
      });
    });
    const show = (place) => {
      const values = rows[place].parts.map((part, kind) => ({
        name: kinds[kind].name,
        colour: kinds[kind].colour,
        value: told(part),
      }));
      frame.show(left + 40, top + row * place, { title: rows[place].name, rows: values });
    };
    amity.choose(drawing, rows.length, ([, y]) => Math.floor((y - top) / row), show, frame.hide);
    return drawing;
  }

  /** Return a line without axes, as large as a word. */
  function spark(values, label, width = 96, height = 22) {
    const known = values.map((value, place) => [place, value]).filter(([, value]) => value !== null);
    const drawing = amity.picture(width, height, { class: "spark", role: "img", "aria-label": label });
    if (!known.length) return drawing;
    const [low, high] = amity.extent(
      known.map(([, value]) => value),
      0.1,
    );
    const x = amity.linear(0, Math.max(1, values.length - 1), 3, width - 4);
    const y = amity.linear(low, high, height - 3, 3);
    drawing.append(svg("path", { class: "line", d: amity.lineParts.path(known, x, y) }));
    const [place, value] = known[known.length - 1];
    drawing.append(svg("circle", { class: "dot", cx: x(place), cy: y(value), r: 2.5 }));
    return drawing;
  }

  Object.assign(amity, { bars, spark });
})(window.amity);
