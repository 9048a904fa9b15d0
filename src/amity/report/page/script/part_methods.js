// Which method? The table, what is level said as level, every silo as a dot, and what it cost.
"use strict";
((amity) => {
  const { el } = amity;
  const BYTES = /^bytes_/;
  const NAMES = { auroc: "AUROC", macro_f1: "Macro F1", f1: "F1", rmse: "RMSE", mae: "MAE", r2: "R\u00b2" };

  function show(view, state) {
    const several = view.methods.length > 1;
    const shown = view.methods.filter(({ reference }) => !reference);
    return [
      several ? el("p", { class: "lead" }, standing(view)) : null,
      table(view, state),
      view.remarks.length
        ? el(
            "details",
            { class: "note", id: "reading", open: state.open.reading },
            el("summary", {}, "How to read this table"),
            view.remarks.map((text) => el("p", {}, text)),
          )
        : null,
      silos(view),
      metrics(view, state),
      shown.length ? traffic(view) : null,
    ];
  }

  /** Say in a sentence who leads and who cannot be told from it. */
  function standing(view) {
    if (view.why_no_best) return `${view.why_no_best}.`;
    const best = view.methods.find((method) => method.best);
    if (!best) return "Nothing has been measured yet.";
    const score = amity.score(best.numbers.delivered?.mean, view);
    const extreme = view.score.better === "lower" ? "lowest" : "highest";
    const head = `The models of ${best.name} have the ${extreme} mean ${view.score.title}, ${score}.`;
    const others = view.methods.filter((method) => !method.best);
    const level = others.filter((method) => method.level === true).map(({ name }) => name);
    const behind = others.filter((method) => method.level === false).map(({ name }) => name);
    if (!level.length && !behind.length)
      return `${head} Too little was measured to test whether that is more than chance.`;
    if (!level.length) return `${head} Every other method is behind it by more than chance would explain.`;
    const rest = behind.length ? ` Behind: ${amity.names(behind, 6)}.` : "";
    return `${head} Level with it, so that the difference may be chance: ${amity.names(level, 6)}.${rest}`;
  }

  const ERRORS = ["rmse", "mae"]; // in the labels' own unit
  const SCORES = ["delivered", "worst", "spread", "last", "best_on_test", "cloud"];

  const digitsOf = (view, key) =>
    ERRORS.includes(key) ? null : SCORES.includes(key) ? amity.scoreDigits(view, 2) : 2;

  function cell(view, key, value) {
    if (!value) return "\u2013";
    const bytes = BYTES.test(key);
    const digits = bytes || key === "seconds" ? 1 : digitsOf(view, key);
    const scale = bytes ? 1e6 : 1;
    if (key === "block_score" && value.mean > 10_000) return ">10,000";
    const text = amity.number(value.mean === null ? null : value.mean / scale, digits);
    if (value.deviation === null || bytes || key === "seconds") return text;
    return [text, el("small", {}, `\u00b1 ${amity.number(value.deviation / scale, digits)}`)];
  }

  function mark(method) {
    if (method.best) return el("span", { class: "standing best" }, "best mean");
    if (method.level === true) return el("span", { class: "standing" }, "level");
    if (method.level === false) return el("span", { class: "standing" }, "behind");
    return "";
  }

  function table(view, state) {
    const several = view.methods.length > 1;
    const sort = state.sorts.methods;
    if (!sort.key)
      Object.assign(sort, { key: "delivered", way: view.score.better === "lower" ? "ascending" : "descending" });
    const tested = several && view.methods.some(({ p }) => p && p !== "\u2013");
    const chosen = [...new Set(view.methods.map(({ chosen_by: by }) => by).filter(Boolean))];
    const which =
      chosen.length === 1
        ? {
            validation: "; delivered is the round that validation data chose",
            "last round": "; delivered is the last round",
          }[chosen[0]] || ""
        : "";
    const columns = [
      {
        key: "name",
        title: "Method",
        text: true,
        value: ({ name }) => name,
        cell: (method) => [
          el("span", { title: method.name }, amity.shorten(method.name, 34)),
          method.seeds.length > 1 ? el("small", {}, `${method.seeds.length} seeds`) : null,
        ],
      },
      ...(several
        ? [
            {
              key: "standing",
              title: "Standing",
              text: true,
              value: ({ best, level }) => (best ? "a" : level ? "b" : "c"),
              cell: mark,
            },
          ]
        : []),
      ...Object.entries(view.table).map(([key, title]) => ({
        key,
        title,
        value: ({ numbers }) => numbers[key]?.mean ?? null,
        cell: ({ numbers }) => cell(view, key, numbers[key]),
      })),
      ...(tested
        ? [
            {
              key: "p",
              title: "Paired test",
              help: "could the difference from the best be chance?",
              text: true,
              cell: ({ p }) => el("span", { class: "note" }, p || "\u2013"),
            },
          ]
        : []),
      ...(chosen.length > 1
        ? [{ key: "chosen", title: "Round chosen by", text: true, cell: ({ chosen_by: by }) => by || "\u2013" }]
        : []),
    ];
    const references = view.methods.filter(({ reference }) => reference);
    const parts = [{ rows: view.methods.filter(({ reference }) => !reference) }];
    if (references.length) parts.push({ title: parts[0].rows.length ? "To compare with" : null, rows: references });
    const best = (method) => (method.best && several ? "best" : null);
    return amity.table({
      id: "methods-table",
      caption: `${several ? "Methods side by side" : "Its numbers"}${which}`,
      columns,
      parts,
      sort,
      mark: best,
    });
  }

  /** Return the dots of a method: the delivered score of each silo; of each seed where silos are dealt anew. */
  function dotsOf(view, method) {
    return method.runs.flatMap((place) => {
      const run = view.runs[place];
      const seed = method.runs.length > 1 ? `, seed ${run.seed}` : "";
      return run.delivered.map((value, silo) => ({ name: `${view.silos[silo]?.name ?? silo}${seed}`, value }));
    });
  }

  function silos(view) {
    const rows = view.methods
      .map((method, place) => ({ name: method.name, colour: amity.pen(place).colour, dots: dotsOf(view, method) }))
      .filter(({ dots }) => dots.some(({ value }) => value !== null));
    if (!rows.length) return null;
    const unit = view.score.unit;
    const title = `test ${view.score.title} of a silo${unit ? `, ${unit}` : ""}`;
    return amity.figure({
      id: "silos",
      title: "Every silo with the model it is given",
      note: "A dot is a silo, the upright line their mean. A method can serve most silos well and a few badly.",
      alt: () =>
        `Dots of ${view.score.title} by silo for ${amity.names(
          rows.map(({ name }) => name),
          8,
        )}.`,
      draw: (width, frame) => amity.dots({ width, frame, rows, title, digits: amity.scoreDigits(view, 2), unit }),
      csv: () => [
        ["method", "silo", view.score.key],
        ...rows.flatMap(({ name, dots }) => dots.map((dot) => [name, dot.name, dot.value])),
      ],
    }).node;
  }

  function metrics(view, state) {
    const keys = [...new Set(view.methods.flatMap((method) => Object.keys(method.metrics)))];
    const clouds = view.methods.some(({ cloud }) => cloud);
    if (!keys.length && !clouds) return null;
    const title = (key) => NAMES[key] || amity.capital(key.replaceAll("_", " "));
    const columns = [
      {
        key: "name",
        title: "Method",
        text: true,
        value: ({ name }) => name,
        cell: ({ name }) => amity.shorten(name, 34),
      },
      ...keys.map((key) => ({
        key,
        title: title(key),
        value: (method) => method.metrics[key]?.mean ?? null,
        cell: (method) => cell(view, key, method.metrics[key]),
      })),
      ...(clouds
        ? [
            {
              key: "cloud",
              title: "Cloud models",
              help: "what the server mixed for each silo, before it trains",
              value: ({ cloud }) => cloud?.mean ?? null,
              cell: ({ cloud }) => cell(view, "cloud", cloud),
            },
          ]
        : []),
    ];
    return el(
      "div",
      { class: "block" },
      el("h3", {}, "More metrics"),
      el(
        "p",
        { class: "note" },
        "Means over silos with the models that are delivered; silos where a metric is undefined are left out.",
      ),
      amity.table({
        id: "metrics-table",
        caption: "More metrics of each method",
        columns,
        parts: [{ rows: view.methods }],
        sort: state.sorts.metrics,
      }),
    );
  }

  function traffic(view) {
    const kinds = [
      { key: "bytes_up", name: "up", colour: "var(--c0)" },
      { key: "bytes_down", name: "down", colour: "var(--c4)" },
      { key: "bytes_eval", name: "only to measure", colour: "var(--level)" },
    ];
    const part = (method, key) => method.numbers[key]?.mean ?? 0;
    const rows = view.methods
      .map((method) => ({ name: method.name, parts: kinds.map(({ key }) => part(method, key) / 1e6) }))
      .filter(({ parts }) => parts.some((value) => value > 0));
    if (!rows.length) return null;
    return amity.figure({
      id: "traffic",
      title: "What was sent",
      note: "Megabytes over all silos and rounds of one run, as the server sees them.",
      alt: () =>
        `Megabytes sent: ${rows
          .map(
            ({ name, parts }) =>
              `${name} ${amity.number(
                parts.reduce((a, b) => a + b, 0),
                1,
              )}`,
          )
          .join(", ")}.`,
      draw: (width, frame) =>
        amity.bars({ width, frame, rows, kinds, title: "MB", told: (value) => `${amity.number(value, 2)} MB` }),
      csv: () => [
        ["method", "bytes_up", "bytes_down", "bytes_eval"],
        ...view.methods.map((method) => [method.name, ...kinds.map(({ key }) => method.numbers[key]?.mean ?? null)]),
      ],
    }).node;
  }

  const uses = (view) =>
    view.methods.length
      ? [view.methods, view.table, view.remarks, view.score, view.runs.map(({ delivered }) => delivered)]
      : null;
  amity.part({ id: "methods", title: "Which method?", show, uses });
})(window.amity);
