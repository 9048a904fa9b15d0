// Who helps whom? Alarms in words, the matrix over rounds, and the ties that stand out.
"use strict";
((amity) => {
  const { el } = amity;
  const SIGNS = { good: "\u2713", remark: "\u2022", warning: "!" };
  const WORDS = { good: "good", remark: "remark", warning: "warning" };

  function show(view, state, refresh) {
    const runs = view.runs.filter(({ weights }) => weights && weights.rounds.length);
    if (!runs.length)
      return [
        el(
          "p",
          { class: "lead" },
          "No method here decides who learns from whom: all silos get the same from the server, or nothing.",
        ),
        ...alarms(view, view.runs, true),
      ];
    const run = runs.find((one) => one.name === state.ties) || leading(view, runs);
    const options = runs.map((one) => [one.name, one.name]);
    const order = state.order === "clustered" ? run.weights.clustered : run.weights.given;
    const parts = pictures(view, run, state, () => order);
    return [
      ...alarms(view, [run], false),
      el(
        "div",
        { class: "controls" },
        amity.choice("ties-run", "Method", options, run.name, (name) => refresh({ ties: name })),
        amity.toggle(
          "order",
          "Order of silos",
          [
            ["given", "As given"],
            ["clustered", "Alike side by side"],
          ],
          state.order,
          (way) => refresh({ order: way }),
        ),
      ),
      slider(run, state, parts),
      el(
        "div",
        { class: "pair even" },
        parts.map(({ node }) => node),
      ),
    ];
  }

  /** Return the run to begin with: of the method that the page leads with, else of the best method that is among them. */
  function leading(view, runs) {
    const way = view.score.better === "lower" ? 1 : -1;
    const number = (method) => way * (method.numbers.delivered?.mean ?? -way * Infinity);
    const first = (method) => (method.name === view.worth[0]?.method ? 0 : 1);
    const methods = [...view.methods].sort((a, b) => first(a) - first(b) || number(a) - number(b));
    for (const method of methods) {
      const run = runs.find((one) => method.runs.includes(view.runs.indexOf(one)));
      if (run) return run;
    }
    return runs[0];
  }

  function alarms(view, runs, named) {
    const items = runs.flatMap((run) => run.alarms.map((alarm) => [run, alarm]));
    if (!items.length)
      return [
        el(
          "p",
          { class: "alarm good" },
          el("span", { class: "badge", "aria-hidden": "true" }, SIGNS.good),
          el("span", {}, "Nothing about these weights gives reason to worry."),
        ),
      ].filter(() => !named);
    return items.map(([run, { level, title, words, silos, rounds }]) => {
      const who = silos.length
        ? ` (${amity.names(
            silos.map((name) => amity.shorten(name, 24)),
            6,
          )})`
        : "";
      const when = rounds.length ? ` In ${amity.rounds(rounds)}.` : "";
      const badge = el("span", { class: "badge", role: "img", "aria-label": WORDS[level] }, SIGNS[level]);
      return el(
        "p",
        { class: `alarm ${level}` },
        badge,
        el(
          "span",
          {},
          el("b", {}, `${named ? `${run.name}: ` : ""}${amity.capital(title)}. `),
          sentence(words),
          words.includes(silos[0] ?? "\u0000") ? "" : who,
          when,
        ),
      );
    });
  }

  /** Return words as a sentence. */
  function sentence(words) {
    return `${amity.capital(words)}${/[.!?]$/.test(words) ? "" : "."}`;
  }

  /** Return a slider over the rounds; at its end it follows the latest one. */
  function slider(run, state, parts) {
    const { rounds } = run.weights;
    if (rounds.length < 2) return null;
    const last = rounds.length - 1;
    const place = amity.placeOf(run.weights, state.round);
    const told = el("output", { for: "round" }, words(rounds[place], place === last));
    const input = el("input", {
      type: "range",
      id: "round",
      min: 0,
      max: last,
      step: 1,
      value: place,
      "aria-valuetext": words(rounds[place], place === last),
      on: { input: move },
    });
    function move() {
      const at = Number(input.value);
      state.round = at === last ? null : rounds[at];
      told.textContent = words(rounds[at], at === last);
      input.setAttribute("aria-valuetext", told.textContent);
      for (const part of parts) part.redraw();
    }
    return el("div", { class: "slider" }, el("label", { for: "round" }, "Round"), input, told);
  }

  const words = (round, latest) => (latest ? `${round} (latest)` : String(round));

  function pictures(view, run, state, order) {
    const names = view.silos.map(({ name }) => name);
    const groups = view.silos.map(({ group }) => group);
    const m = run.weights.given.length;
    const round = () => run.weights.rounds[amity.placeOf(run.weights, state.round)];
    const now = () => amity.matrix(run.weights, amity.placeOf(run.weights, state.round));
    const ties = () => amity.strongest(run.weights, amity.placeOf(run.weights, state.round));
    const top = Math.max(1, ...view.silos.map(({ train }) => train || 0));
    const share = (value) => `${amity.number(100 * value, 1)} %`;
    const heat = amity.figure({
      id: "weights",
      title: "How much each silo takes from each other",
      note: `Rows take, columns give; outlined cells are what a silo takes from itself. The pale grey of an even share (1 of ${m}, ${share(1 / m)}) means nothing special.`,
      alt: () => `Heat map of weights in round ${round()}: ${tieWords(ties(), names)}`,
      draw: (width, frame) => {
        const [list, weight] = [order(), now()];
        const colour = amity.weightColours(m);
        return amity.heat({
          width,
          frame,
          colour,
          square: true,
          framed: list.map((_, at) => at),
          rows: list.map((silo) => names[silo]),
          columns: list.map((silo) => names[silo]),
          value: (row, column) => weight(list[row], list[column]),
          borders: state.order === "given" ? amity.borders(list.map((silo) => groups[silo])) : [],
          labels: `from \u2192, to \u2193, round ${round()}`,
          keys: amity.weightKey(m, colour, run.weights.low < 0),
          told: (row, column) => {
            const value = weight(list[row], list[column]);
            const from = row === column ? "itself" : names[list[column]];
            const words =
              value === null
                ? "was not asked in this round"
                : `takes ${share(value)} from ${from}, ${amity.number(value * m, 1)} times an even share`;
            return { title: names[list[row]], words };
          },
        });
      },
      csv: () => {
        const weight = now();
        return [
          ["to", ...names.map((name) => `from ${name}`)],
          ...names.map((name, row) => [name, ...names.map((_, column) => weight(row, column))]),
        ];
      },
    });
    const graph = amity.figure({
      id: "ties",
      title: "The ties that stand out",
      note: `An arrow goes from the silo that gives to the one that takes: at least one and a half times an even share, at most ${amity.tiesOf(m) === 1 ? "one" : "three"} for each silo. The size of a dot is the size of a silo.`,
      alt: () => `Graph of the strongest ties in round ${round()}: ${tieWords(ties(), names)}`,
      draw: (width, frame) =>
        amity.graph({
          width,
          frame,
          names,
          order: order(),
          ties: ties(),
          size: (silo) => (view.silos[silo].train || 0) / top,
          empty: "No tie stands out.",
        }),
      csv: () => [
        ["from", "to", "weight"],
        ...ties().map(({ giver, receiver, value }) => [names[giver], names[receiver], value]),
      ],
    });
    return [heat, graph];
  }

  function tieWords(ties, names) {
    if (!ties.length) return "no silo takes much more from one other than from the rest.";
    const told = ties
      .slice(0, 3)
      .map(
        ({ giver, receiver, value }) =>
          `${names[receiver]} takes ${amity.number(100 * value, 0)} % from ${names[giver]}`,
      );
    return `${amity.plural(ties.length, "tie")} stand out; ${told.join(", ")}.`;
  }

  const print = ({ weights }) =>
    weights && [weights.rounds, weights.codes.length, weights.codes.slice(-64), weights.clustered, weights.given];
  const uses = (view) =>
    view.runs.length ? [view.runs.map((run) => [run.name, run.seed, run.alarms, print(run)]), view.silos.length] : null;
  amity.leading = leading;
  amity.part({ id: "helps", title: "Who helps whom?", show, uses });
})(window.amity);
