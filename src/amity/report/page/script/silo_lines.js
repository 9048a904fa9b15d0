// One line for each silo, muted; the one under the pointer, or chosen by the arrow keys, stands out.
"use strict";
((amity) => {
  const { svg } = amity;
  const { axes, endingMarks, path, roundName, scales, steer } = amity.lineParts;
  const ROOM = 30; // pixels below the lines for what went wrong

  /**
   * Draw `lines` (name, points), the mean among them (points), and `marks` ({round: [{silo, kind, why}]}) of silos that
   * were dropped or refused. `endings`: rounds in which silos went on alone.
   */
  function siloLines({ width, frame, lines, mean, rounds, marks, title, digits, unit, picked, pick, endings = [] }) {
    const troubled = rounds.some((round) => marks[round]);
    const height = 26 + Math.max(220, Math.min(340, width * 0.38)) + 42 + (troubled ? ROOM : 0);
    const values = lines.flatMap(({ points }) => points.map((point) => point[1]));
    const { area, x, y } = scales(width, height - (troubled ? ROOM : 0), 26, 12, rounds, values, title);
    const drawing = amity.picture(width, height, { tabindex: "0" });
    drawing.append(axes(area, x, y), endingMarks(endings, area, x));
    for (const { points } of lines)
      drawing.append(svg("path", { class: "line muted", d: path(points, x.place, y.place) }));
    drawing.append(svg("path", { class: "line strong", d: path(mean, x.place, y.place) }));
    if (troubled) drawing.append(trouble(marks, rounds, x, height));
    const front = svg("g");
    const cross = svg("g", { class: "pointer" });
    drawing.append(front, cross);
    let chosen = Math.max(
      -1,
      lines.findIndex(({ name }) => name === picked()),
    );
    const highlight = () => {
      const line = lines[chosen];
      if (!line) return front.replaceChildren();
      front.replaceChildren(svg("path", { class: "line chosen", d: path(line.points, x.place, y.place) }));
      const last = line.points[line.points.length - 1];
      if (last)
        front.append(
          svg(
            "text",
            { class: "name halo", x: area.right - 4, y: y.place(last[1]) - 8, "text-anchor": "end" },
            amity.shorten(line.name, 24),
          ),
        );
    };
    highlight();
    const at = (line, round) => (line.points.find((point) => point[0] === round) || [])[1] ?? null;
    const show = (round, down) => {
      if (down !== null) {
        chosen = closest(lines, round, (value) => Math.abs(y.place(value) - down), at);
        highlight();
      }
      const line = lines[chosen];
      const place = x.place(round);
      cross.replaceChildren(svg("line", { class: "cross", x1: place, x2: place, y1: area.top, y2: area.bottom }));
      const value = line ? at(line, round) : null;
      if (value !== null) cross.append(svg("circle", { cx: place, cy: y.place(value), r: 4, class: "dot chosen" }));
      const told = (number) =>
        number === null ? "\u2013" : `${amity.number(number, digits)}${unit ? ` ${unit}` : ""}`;
      const average = (mean.find((point) => point[0] === round) || [])[1] ?? null;
      const rows = [{ name: "mean over silos", value: told(average), colour: amity.ink("ink") }];
      if (line) rows.unshift({ name: line.name, value: told(value), colour: amity.ink("accent"), strong: true });
      frame.show(place, area.top, { title: roundName(round, endings), rows, words: troubleWords(marks[round] || []) });
    };
    const step = (way) => {
      const last = rounds[rounds.length - 1];
      const order = lines
        .map((_, place) => place)
        .sort((a, b) => (at(lines[a], last) ?? 0) - (at(lines[b], last) ?? 0));
      const now = order.indexOf(chosen);
      chosen = order[now < 0 ? 0 : (now + way + order.length) % order.length];
      pick(lines[chosen].name);
      highlight();
    };
    steer(drawing, frame, rounds, x, show, () => cross.replaceChildren(), step);
    return drawing;
  }

  function closest(lines, round, distance, at) {
    let [best, least] = [-1, Infinity];
    lines.forEach((line, place) => {
      const value = at(line, round);
      if (value === null) return;
      if (distance(value) < least) [best, least] = [place, distance(value)];
    });
    return best;
  }

  /** Mark rounds with dropped silos by a hollow triangle, with refused uploads by a cross. */
  function trouble(marks, rounds, x, height) {
    const group = svg("g");
    const y = height - 18;
    group.append(svg("text", { class: "tick", x: 0, y: height - 2 }, "\u25bd dropped   \u2715 refused"));
    for (const round of rounds) {
      const kinds = new Set((marks[round] || []).map(({ kind }) => kind));
      const at = x.place(round);
      if (kinds.has("dropped")) group.append(svg("path", { class: "dropped", d: `M${at - 4} ${y - 5}h8l-4 7z` }));
      if (kinds.has("refused"))
        group.append(svg("path", { class: "refused", d: `M${at - 3.5} ${y - 15}l7 7m0 -7l-7 7` }));
    }
    return group;
  }

  function troubleWords(marks) {
    return marks
      .slice(0, 4)
      .map(({ silo, kind, why }) => `${amity.shorten(silo, 24)} ${kind}${why ? `: ${why}` : ""}`)
      .concat(marks.length > 4 ? [`and ${marks.length - 4} more`] : [])
      .join("; ");
  }

  Object.assign(amity, { siloLines });
})(window.amity);
