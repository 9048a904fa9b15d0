// Numbers, sizes, times and names as people read them.
"use strict";
((amity) => {
  const MINUS = "\u2212";
  const NOTHING = "\u2013";

  /** Return a number with so many digits (null: four that say something); of a very large one its size, of none a dash. */
  function number(value, digits = 1) {
    if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
    const size = Math.abs(value);
    if (digits === null) return number(value, size ? Math.max(0, 3 - Math.floor(Math.log10(size))) : 0);
    if (size >= 1e6 || digits > 8) return value.toPrecision(3).replace("-", MINUS).replace("e+", "e");
    const text = size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
  }

  /** Return a number that always shows its sign. */
  function signed(value, digits = 1) {
    const text = number(value, digits);
    return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
  }

  function bytes(count) {
    if (count === null || count === undefined) return NOTHING;
    for (const [size, unit] of [
      [1e9, "GB"],
      [1e6, "MB"],
      [1e3, "kB"],
    ]) {
      if (count >= size) return `${number(count / size, count / size < 10 ? 1 : 0)} ${unit}`;
    }
    return `${number(count, 0)} bytes`;
  }

  function duration(seconds) {
    if (seconds === null || seconds === undefined) return NOTHING;
    const whole = Math.max(0, Math.round(seconds));
    if (seconds > 0 && seconds < 1) return `${number(seconds, 1)} s`;
    if (whole < 60) return `${whole} s`;
    const parts = [
      [86400, "d"],
      [3600, "h"],
      [60, "min"],
      [1, "s"],
    ];
    const first = parts.findIndex(([size]) => whole >= size);
    const [size, unit] = parts[first];
    const [smaller, name] = parts[first + 1];
    const rest = Math.floor((whole % size) / smaller);
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
  }

  const two = (value) => String(value).padStart(2, "0");

  function clock(time) {
    const date = new Date(time * 1000);
    return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  }

  function day(time) {
    const date = new Date(time * 1000);
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
  }

  /** Return a name without its middle where it is long: beginnings and ends differ most. */
  function shorten(name, length) {
    const letters = [...name];
    if (letters.length <= length) return name;
    const head = Math.ceil((length - 1) * 0.55);
    const tail = length - 1 - head;
    return `${letters.slice(0, head).join("")}\u2026${tail > 0 ? letters.slice(-tail).join("") : ""}`;
  }

  function plural(count, one, many = `${one}s`) {
    return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
  }

  /** Return rounds in words: "round 3", "rounds 3 to 9", "rounds 3, 5, 9". */
  function rounds(list) {
    if (list.length === 0) return "";
    if (list.length === 1) return `round ${list[0]}`;
    const whole = list.every((round, place) => place === 0 || round === list[place - 1] + 1);
    if (whole) return `rounds ${list[0]} to ${list[list.length - 1]}`;
    return list.length <= 6
      ? `rounds ${list.join(", ")}`
      : `${list.length} rounds from ${list[0]} to ${list[list.length - 1]}`;
  }

  /** Return a few names as a sentence has them. */
  function names(list, most = 4) {
    if (list.length === 1) return list[0];
    if (list.length <= most) return `${list.slice(0, -1).join(", ")} and ${list[list.length - 1]}`;
    return `${list.slice(0, most).join(", ")} and ${list.length - most} more`;
  }

  /** Return how many digits scores have: shares so many, errors in the labels' own unit as many as say something. */
  const scoreDigits = (view, digits) => (view.score.unit ? digits : null);

  /** Return a score with its unit. */
  function score(value, view, digits = 1) {
    const text = number(value, scoreDigits(view, digits));
    return value === null || value === undefined || !view.score.unit ? text : `${text} ${view.score.unit}`;
  }

  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  /** Return rows as the text of a csv file: texts that begin like a formula are kept from being one. */
  function csv(rows) {
    const cell = (value) => {
      if (value === null || value === undefined) return "";
      if (typeof value === "number") return String(value);
      const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  Object.assign(amity, {
    number,
    signed,
    bytes,
    duration,
    clock,
    day,
    shorten,
    plural,
    rounds,
    names,
    score,
    scoreDigits,
    capital,
    csv,
  });
})(window.amity);
