// From numbers to places and colours.
"use strict";
((amity) => {
  /** Return about `count` round numbers from low to high. */
  function ticks(low, high, count = 5, whole = false) {
    if (!(high > low)) return [low];
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    if (whole) step = Math.max(1, Math.round(step));
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
    return found;
  }

  /** Return how many digits ticks need to be told apart. */
  function digits(values) {
    if (values.length < 2) return Number.isInteger(values[0]) ? 0 : 1;
    return Math.min(6, Math.max(0, -Math.floor(Math.log10(Math.abs(values[1] - values[0]) + 1e-12) + 1e-9)));
  }

  /** Return a function from numbers between low and high to places between from and to. */
  function linear(low, high, from, to) {
    const span = high - low || 1;
    return (value) => from + ((value - low) / span) * (to - from);
  }

  /** Return least and greatest of the numbers that are there, with some air; null where there are none. */
  function extent(values, air = 0.06) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      if (value === null || value === undefined || !Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (low > high) return null;
    const more = (high - low || Math.abs(high) * 0.1 || 1) * air;
    return [low - more, high + more];
  }

  /** Return a colour of the style sheet as it is now, light or dark. */
  function ink(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  function channels(hex) {
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  }

  function mix(a, b, share) {
    const [from, to] = [channels(a), channels(b)];
    const parts = from.map((value, place) => Math.round(value + (to[place] - value) * share));
    return `#${parts.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
  }

  /** Return the colour at a share of the way along several. */
  function along(colours, share) {
    const at = Math.min(1, Math.max(0, share)) * (colours.length - 1);
    const first = Math.min(colours.length - 2, Math.floor(at));
    return mix(colours[first], colours[first + 1], at - first);
  }

  let measure = null; // a context to measure texts with, made once

  /** Return how wide a text is in a picture, in pixels. */
  function textWidth(text, size = 12, weight = 400) {
    measure = measure || document.createElement("canvas").getContext("2d");
    measure.font = `${weight} ${size}px ${ink("sans")}`;
    return measure.measureText(text).width;
  }

  /** Return names that are short enough for an edge of a picture, and how wide the widest is. */
  function labels(names, letters, size = 12, weight = 400) {
    const texts = names.map((name) => amity.shorten(name, letters));
    return { texts, width: Math.max(0, ...texts.map((text) => textWidth(text, size, weight))) };
  }

  /** Return the pen of a line: eight colours that colour-blind people can tell apart, then the same ones dashed. */
  function pen(place) {
    const dashes = ["", "6 3", "2 3", "8 3 2 3"];
    return { colour: `var(--c${place % 8})`, dash: dashes[Math.floor(place / 8) % dashes.length] };
  }

  /** Draw a horizontal axis below a picture: lines at even values from top to bottom, their numbers, and a title. */
  function axisBelow(drawing, { span, x, every, top, bottom, title, right, number = amity.number, zero = false }) {
    const { svg } = amity;
    const marks = ticks(span[0], span[1], Math.max(2, Math.floor(every)));
    for (const value of marks) {
      const at = { x1: x(value), x2: x(value), y1: top, y2: bottom };
      drawing.append(svg("line", { class: zero && Math.abs(value) < 1e-9 ? "zero" : "grid", ...at }));
      const anchor = value === 0 && x(value) < 20 ? "start" : "middle";
      const place = { class: "tick", x: x(value), y: bottom + 18, "text-anchor": anchor };
      drawing.append(svg("text", place, number(value, digits(marks))));
    }
    drawing.append(svg("text", { class: "title", x: right, y: bottom + 38, "text-anchor": "end" }, title));
  }

  Object.assign(amity, { axisBelow, ticks, digits, linear, extent, ink, mix, along, pen, textWidth, labels });
})(window.amity);
