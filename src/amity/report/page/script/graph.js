// The strongest ties as a graph: silos on a circle, a curve from the one that gives to the one that takes.
"use strict";
((amity) => {
  const { svg } = amity;
  const NAMED = 48;

  /** Draw ties ({receiver, giver, value}) between silos in an order; `size(silo)` says how large a dot is, from 0 to 1. */
  function graph({ width, frame, names, order, ties, size, empty }) {
    const side = Math.min(width, 560);
    const letters = names.length <= NAMED ? (width < 480 ? 9 : 16) : 0;
    const room = letters ? amity.labels(names, letters).width : 0;
    const radius = Math.min(side / 2 - 34, width / 2 - room - 18);
    const [cx, cy] = [width / 2, side / 2];
    const place = new Map(order.map((silo, at) => [silo, (at / order.length) * 2 * Math.PI - Math.PI / 2]));
    const at = (silo, far = radius) => [cx + far * Math.cos(place.get(silo)), cy + far * Math.sin(place.get(silo))];
    const drawing = amity.picture(width, side, { tabindex: "0" });
    const curves = svg("g");
    drawing.append(curves);
    const thin = names.length > NAMED ? 0.5 : 1;
    const top = Math.max(...ties.map(({ value }) => value), 1e-9);
    const paths = ties.map((tie) => {
      const [from, to] = [at(tie.giver, radius - 8), at(tie.receiver, radius - 9)];
      const bend = elbow(from, to, [cx, cy]);
      const line = svg("path", {
        class: "tie",
        d: `M${point(from)}Q${point(bend)} ${point(towards(to, bend, 5))}`,
        "stroke-width": (0.8 + 2.6 * (tie.value / top)) * thin,
      });
      const head = arrow(to, bend, (5 + 3 * (tie.value / top)) * thin);
      const both = svg("g", { class: "tie", opacity: 0.35 + 0.6 * (tie.value / top) }, line, head);
      curves.append(both);
      return both;
    });
    for (const silo of order) drawing.append(dot(silo, names[silo], at, place.get(silo), radius, letters, size(silo)));
    if (!ties.length)
      drawing.append(svg("text", { class: "name plain", x: cx, y: cy, "text-anchor": "middle" }, empty));
    const show = (number) => {
      const silo = order[number];
      paths.forEach((path, tie) =>
        path.setAttribute(
          "class",
          ties[tie].receiver === silo || ties[tie].giver === silo ? "tie chosen" : "tie faint",
        ),
      );
      const mine = ties
        .filter(({ receiver }) => receiver === silo)
        .map(({ giver, value }) => ({ name: `from ${names[giver]}`, value: `${amity.number(100 * value, 1)} %` }));
      const others = ties
        .filter(({ giver }) => giver === silo)
        .map(({ receiver, value }) => ({ name: `to ${names[receiver]}`, value: `${amity.number(100 * value, 1)} %` }));
      const [x, y] = at(silo);
      frame.show(x, y, {
        title: names[silo],
        rows: [...mine, ...others.slice(0, 6)],
        words: mine.length + others.length ? "" : "no tie that stands out",
      });
    };
    const hide = () => {
      paths.forEach((path) => path.setAttribute("class", "tie"));
      frame.hide();
    };
    const near = ([px, py]) => {
      let [best, least] = [-1, 26];
      order.forEach((silo, number) => {
        const [x, y] = at(silo);
        const distance = Math.hypot(x - px, y - py);
        if (distance < least) [best, least] = [number, distance];
      });
      return best;
    };
    amity.choose(drawing, order.length, near, show, hide);
    return drawing;
  }

  const point = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

  /** Return where a curve bends: towards the middle, and a little to its right, so that two ways lie side by side. */
  function elbow([x1, y1], [x2, y2], [cx, cy]) {
    const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
    return [mx + (cx - mx) * 0.5 - (y2 - y1) * 0.07, my + (cy - my) * 0.5 + (x2 - x1) * 0.07];
  }

  /** Return the point so far before the first on the way from the second. */
  function towards([x, y], [fx, fy], far) {
    const length = Math.hypot(x - fx, y - fy) || 1;
    return [x - ((x - fx) / length) * far, y - ((y - fy) / length) * far];
  }

  function arrow([x, y], [fx, fy], size) {
    const way = Math.atan2(y - fy, x - fx);
    const corner = (turn) => point([x - size * 1.4 * Math.cos(way + turn), y - size * 1.4 * Math.sin(way + turn)]);
    return svg("path", { class: "head", d: `M${point([x, y])}L${corner(0.42)}L${corner(-0.42)}Z` });
  }

  function dot(silo, name, at, angle, radius, letters, size) {
    const [x, y] = at(silo);
    const group = svg("g", {}, svg("circle", { class: "node", cx: x, cy: y, r: 3 + 4 * Math.sqrt(size) }));
    if (!letters) return group;
    const [tx, ty] = at(silo, radius + 12);
    const anchor = Math.abs(Math.cos(angle)) < 0.3 ? "middle" : Math.cos(angle) > 0 ? "start" : "end";
    group.append(
      svg(
        "text",
        { class: "tick", x: tx, y: ty + 4 + 5 * Math.sin(angle), "text-anchor": anchor },
        amity.shorten(name, letters),
      ),
    );
    return group;
  }

  Object.assign(amity, { graph });
})(window.amity);
