// Tables that sort by a click or a key, and scroll inside their own box.
"use strict";
((amity) => {
  const { el } = amity;
  const NUMBERS_FIRST = { ascending: 1, descending: -1 };

  /**
   * Return a table. `columns`: key, title, value(row) to sort by, cell(row) to show, `text` for words instead of numbers,
   * `help` behind a heading. `sort` is {key, way} and is kept by the caller, so that it survives a new view. `parts` are
   * rows that are sorted among themselves, each with a title or none.
   */
  function table({ id, caption, columns, parts, sort, mark }) {
    const head = el("tr");
    const built = el("table", { id }, el("caption", {}, el("span", {}, caption)), el("thead", {}, head));
    const box = el(
      "div",
      { class: "scroll", id: `${id}-box`, tabindex: "0", role: "region", "aria-label": caption },
      built,
    );
    const fill = () => {
      head.replaceChildren(...columns.map((column) => heading(column, sort, id, again)));
      for (const old of [...built.tBodies]) old.remove();
      for (const part of parts) built.append(body(part, columns, sort, mark));
    };
    const again = (column) => {
      const first = column.text ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      sort.way = sort.key === column.key && sort.way === first ? other : first;
      sort.key = column.key;
      fill();
      document.getElementById(`${id}-by-${column.key}`).focus();
      amity.say(`sorted by ${column.title}, ${sort.way}`);
    };
    fill();
    return box;
  }

  function heading(column, sort, id, again) {
    const active = sort && sort.key === column.key;
    const kind = column.text ? "words" : "figures";
    if (!column.value || !sort) return el("th", { scope: "col", class: kind, title: column.help }, column.title);
    const sign = el(
      "span",
      { class: "sign", "aria-hidden": "true" },
      active ? (sort.way === "ascending" ? "\u2191" : "\u2193") : "",
    );
    const button = el(
      "button",
      { type: "button", id: `${id}-by-${column.key}`, title: column.help, on: { click: () => again(column) } },
      column.text ? [column.title, sign] : [sign, column.title],
    );
    return el("th", { scope: "col", class: kind, "aria-sort": active ? sort.way : "none" }, button);
  }

  function body({ title, rows }, columns, sort, mark) {
    const made = el("tbody");
    if (title)
      made.append(el("tr", { class: "apart" }, el("th", { colspan: columns.length, scope: "rowgroup" }, title)));
    for (const row of sorted(rows, columns, sort)) {
      const line = el("tr", { class: mark ? mark(row) : null });
      columns.forEach((column, place) => {
        const kind = column.text ? "words" : "figures";
        const content = column.cell(row);
        line.append(
          place === 0 ? el("th", { scope: "row", class: kind }, content) : el("td", { class: kind }, content),
        );
      });
      made.append(line);
    }
    return made;
  }

  /** Return rows in order; what has no number comes last either way. */
  function sorted(rows, columns, sort) {
    const column = sort && columns.find(({ key }) => key === sort.key);
    if (!column || !column.value) return rows;
    const way = NUMBERS_FIRST[sort.way] || 1;
    const missing = (value) => value === null || value === undefined;
    return [...rows].sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      if (missing(x) || missing(y)) return Number(missing(x)) - Number(missing(y));
      const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return way * order;
    });
  }

  Object.assign(amity, { table });
})(window.amity);
