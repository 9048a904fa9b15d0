// What exactly was run? Configuration, versions, who holds what, and the command that repeats it.
"use strict";
((amity) => {
  const { el } = amity;

  function show(view, state, refresh) {
    const run = view.runs.find((one) => one.name === state.setup) || view.runs[0];
    const options = view.runs.map((one) => [one.name, one.name]);
    return [
      notes(view),
      run
        ? [
            el(
              "div",
              { class: "controls" },
              amity.choice("setup-run", "Run", options, run.name, (name) => refresh({ setup: name })),
            ),
            repeat(run),
            facts(run),
            config(run, state),
          ]
        : null,
      holdings(view),
      table(view, state),
    ];
  }

  function notes(view) {
    if (!view.notes.length) return null;
    return el(
      "div",
      { class: "block", id: "notes" },
      el("h3", {}, "Notes on the data"),
      el(
        "ul",
        { class: "plain" },
        view.notes.map((note) => el("li", {}, note)),
      ),
    );
  }

  function repeat(run) {
    if (!run.command) return null;
    return el(
      "div",
      { class: "block" },
      el("h3", {}, "To repeat it"),
      el(
        "div",
        { class: "command" },
        el("pre", { id: "command", tabindex: "0" }, unbroken(run.command)),
        amity.copyButton("copy-command", run.command),
      ),
    );
  }

  /** Return a command whose lines are broken between words alone, never behind the hyphens of an option. */
  const unbroken = (command) =>
    command.split(/( )/).map((word) => (word.startsWith("-") ? el("span", { class: "whole" }, word) : word));

  function facts(run) {
    const entries = Object.entries(run.facts);
    if (!entries.length) return null;
    return el(
      "div",
      { class: "block" },
      el("h3", {}, "Versions and facts"),
      el(
        "dl",
        { class: "facts" },
        entries.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
      ),
    );
  }

  function config(run, state) {
    if (!run.config) return null;
    return el(
      "details",
      { id: "config", open: state.open.config },
      el("summary", {}, "Configuration, as TOML"),
      el(
        "div",
        { class: "command" },
        el("pre", { tabindex: "0" }, run.config),
        amity.copyButton("copy-config", run.config),
      ),
    );
  }

  function classNames(view) {
    const most = Math.max(0, ...view.silos.map(({ held }) => (held || []).length));
    return Array.from(
      { length: most },
      (_, place) => view.classes?.[place] ?? (most === 1 ? "examples" : String(place)),
    );
  }

  function holdings(view) {
    const classes = classNames(view);
    if (!classes.length) return null;
    const silos = view.silos.filter(({ held }) => held);
    const names = silos.map(({ name }) => name);
    const top = Math.max(1, ...silos.flatMap(({ held }) => held));
    const count = (row, column) => silos[column].held[row] ?? 0;
    const keys = [...new Set([0, 1, Math.round(top / 16), Math.round(top / 4), top])].sort((a, b) => a - b);
    return amity.figure({
      id: "holdings",
      title: "Who holds what",
      note: "Training examples of each class (row) at each silo (column). Blank means none; the colour goes by the square root of the count. Lines lie between groups of alike silos.",
      alt: () =>
        `Heat map of training examples: ${amity.plural(silos.length, "silo")}, ${amity.plural(classes.length, "class", "classes")}, at most ${amity.plural(top, "example")} of a class at one silo.`,
      draw: (width, frame) => {
        const colour = amity.countColours(top);
        return amity.heat({
          width,
          frame,
          colour,
          rows: classes,
          columns: names,
          value: count,
          square: false,
          borders: amity.borders(silos.map(({ group }) => group)),
          labels: "class \u2193, silo \u2192",
          keys: amity.key(keys.map((value) => [colour(value), amity.number(value, 0)])),
          told: (row, column) => ({
            title: names[column],
            rows: [{ name: `class ${classes[row]}`, value: amity.plural(count(row, column), "example") }],
            words: "to train with",
          }),
        });
      },
      csv: () => [
        ["silo", "group", "train", "val", "test", ...classes.map((name) => `class ${name}`)],
        ...view.silos.map((silo) => [
          silo.name,
          silo.group,
          silo.train,
          silo.val,
          silo.test,
          ...classes.map((_, place) => silo.held?.[place] ?? null),
        ]),
      ],
    }).node;
  }

  function table(view, state) {
    if (!view.silos.some(({ train, test }) => train !== null || test !== null)) return null;
    const count = (key, title) => ({
      key,
      title,
      value: (silo) => silo[key],
      cell: (silo) => amity.number(silo[key], 0),
    });
    const grouped = view.silos.some(({ group }) => group !== null);
    const spent = view.runs.filter(({ privacy }) => privacy);
    const columns = [
      {
        key: "name",
        title: "Silo",
        text: true,
        value: ({ name }) => name,
        cell: ({ name }) => el("span", { title: name }, amity.shorten(name, 40)),
      },
      ...(grouped ? [count("group", "Group")] : []),
      count("train", "To train"),
      ...(view.silos.some(({ val }) => val !== null) ? [count("val", "To choose the round")] : []),
      count("test", "To test"),
      ...spent.map(epsilon),
    ];
    const title = spent.length ? "Examples of every silo, and epsilon" : "Examples of every silo";
    return el(
      "details",
      { id: "silo-sizes", open: state.open["silo-sizes"] },
      el("summary", {}, title),
      amity.table({
        id: "silo-table",
        caption: title,
        columns,
        parts: [{ rows: view.silos }],
        sort: state.sorts.silos,
      }),
    );
  }

  /** Return the column of what silos have spent in a run with differential privacy. */
  const epsilon = ({ name, privacy }) => ({
    key: `epsilon ${name}`,
    title: `Epsilon, ${name}`,
    value: (silo) => privacy.silos[silo.name] ?? 0,
    cell: (silo) => amity.number(privacy.silos[silo.name] ?? 0, 2),
  });

  /** A live page may have nothing on record yet: then there is no such part. */
  const uses = (view) =>
    view.runs.length || view.silos.length || view.notes.length
      ? [
          view.notes,
          view.silos,
          view.classes,
          view.runs.map((run) => [run.name, run.seed, run.config, run.facts, run.command, run.privacy]),
        ]
      : null;
  amity.part({ id: "setup", title: "What exactly was run?", show, uses });
})(window.amity);
