// Was joining worth it? The answer in a sentence, three counts, then silo by silo.
"use strict";
((amity) => {
  const { el } = amity;
  const SIGNS = {
    gains: "\u25b2",
    "better alone": "\u25bc",
    "no clear difference": "\u25cb",
    "cannot be compared": "?",
  };

  function show(view, state, refresh) {
    if (!view.worth.length) {
      const words = view.why_no_worth || "There is nothing to compare with.";
      return [el("p", { class: "answer small" }, "This cannot be said yet."), el("p", { class: "lead" }, words)];
    }
    const worth = view.worth.find(({ method }) => method === state.worth) || view.worth[0];
    const options = view.worth.map(({ method }) => [method, method]);
    const pick = amity.choice("worth-method", "Joining with", options, worth.method, (method) =>
      refresh({ worth: method }),
    );
    return [
      el("p", { class: "answer", id: "answer" }, worth.words),
      counts(worth),
      worth.chance ? el("p", { class: "chance" }, worth.chance) : null,
      pick
        ? el("div", { class: "controls" }, pick, worth.choice ? el("p", { class: "note" }, worth.choice) : null)
        : null,
      el("div", { class: "pair" }, picture(view, worth), el("div", { class: "beside" }, verdicts(view, worth, state))),
      worth.rule ? el("p", { class: "note rule" }, worth.rule) : null,
    ];
  }

  /** Return the counts as large plain numbers; silos that cannot be compared only where there are some. */
  function counts(worth) {
    const all = [
      [worth.gain, worth.gain === 1 ? "gains" : "gain", "gain"],
      [worth.level, "no clear difference", "level"],
      [worth.lose, worth.lose === 1 ? "does better alone" : "do better alone", "lose"],
    ];
    if (worth.unknown) all.push([worth.unknown, "cannot be compared", "unknown"]);
    const total = worth.gain + worth.lose + worth.level + worth.unknown; // over all seeds, where silos are dealt anew
    const items = all.map(([count, words, kind]) =>
      el("li", { class: count ? kind : "level" }, el("b", {}, String(count)), el("span", {}, words)),
    );
    return el("ul", { class: "counts", "aria-label": `Of ${amity.plural(total, "silo")}` }, items);
  }

  const byDifference = (a, b) => (b.difference ?? -Infinity) - (a.difference ?? -Infinity);

  function picture(view, worth) {
    const silos = [...worth.silos].sort(byDifference);
    const { title, unit } = view.score;
    const note = unit
      ? `${amity.capital(title)} of ${worth.method} less that of the silo's own model, trained alone.`
      : `By how many percent the ${title} of ${worth.method} is smaller than that of the silo's own model, trained alone.`;
    return amity.figure({
      id: "differences",
      title: "What joining changed for each silo",
      note: `${note} The line is the interval that the difference lies in; where it crosses zero, it may be chance.`,
      alt: () =>
        `Differences of ${amity.plural(silos.length, "silo")}: ${worth.gain} gain, ${worth.lose} do better alone, ${worth.level} show no clear difference. The table has each of them.`,
      draw: (width, frame) => amity.differences({ width, frame, silos, unit: unit ? `points of ${title}` : `${title} smaller, in %` }),
      csv: () => [
        ["silo", "examples", "alone", "global", "personal", "difference", "low", "high", "verdict"],
        ...worth.silos.map((silo) => [
          silo.silo,
          silo.examples,
          silo.alone,
          silo.shared,
          silo.personal,
          silo.difference,
          silo.low,
          silo.high,
          silo.judgement,
        ]),
      ],
    }).node;
  }

  /** Return the table of silos; verdict and difference stand beside the name, where a phone shows them too. */
  function verdicts(view, worth, state) {
    const shared = worth.silos.some((silo) => silo.shared !== null);
    const ended = worth.silos.some((silo) => silo.delivers);
    const number = (key, title, help) => ({
      key,
      title,
      help,
      value: (silo) => silo[key],
      cell: (silo) => amity.number(silo[key], amity.scoreDigits(view, 1)),
    });
    const columns = [
      {
        key: "silo",
        title: "Silo",
        text: true,
        value: (silo) => silo.silo,
        cell: (silo) => el("span", { title: silo.silo }, amity.shorten(silo.silo, 24)),
      },
      {
        key: "judgement",
        title: "Verdict",
        text: true,
        value: (silo) => silo.judgement,
        cell: (silo) => verdict(silo),
      },
      {
        key: "difference",
        title: "Difference",
        help: view.score.unit
          ? "personal less alone, with its interval"
          : `by how many percent personal is smaller than alone, with its interval`,
        value: (silo) => silo.difference,
        cell: difference,
      },
      number("alone", "Alone", `its own model: ${worth.alone}`),
      ...(shared ? [number("shared", "Global", `one model for all: ${worth.shared}`)] : []),
      number("personal", "Personal", `its personal model: ${worth.method}`),
      {
        key: "examples",
        title: "Examples",
        help: "to test on",
        value: (silo) => silo.examples,
        cell: (silo) => amity.number(silo.examples, 0),
      },
      ...(ended ? [delivers] : []),
    ];
    return amity.table({
      id: "verdicts",
      caption: view.score.unit
        ? `Each silo with ${worth.method}; ${view.score.title} in %, differences in points`
        : `Each silo with ${worth.method}; ${view.score.title}, differences in percent of that alone`,
      columns,
      parts: [{ rows: worth.silos }],
      sort: state.sorts.verdicts,
    });
  }

  const delivers = {
    key: "delivers",
    title: "Delivers",
    help: "the model that it went on with from what was learnt together, or the one that it trained alone; and its epochs",
    text: true,
    value: (silo) => silo.delivers || "",
    cell: (silo) => silo.delivers || "\u2013",
  };

  function difference({ difference: points, low, high }) {
    if (points === null) return "\u2013";
    if (low === null || high === null) return amity.signed(points, 1);
    return [amity.signed(points, 1), el("small", {}, `${amity.signed(low, 1)} to ${amity.signed(high, 1)}`)];
  }

  function verdict({ judgement, words, over_seeds: seeds }) {
    const sign = el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[judgement] || "");
    const alike = seeds && seeds.length > 1 ? seeds.filter((one) => one === judgement).length : 0;
    const told = alike && alike < seeds.length ? el("small", {}, `${alike} of ${seeds.length} seeds say so`) : null;
    return el("span", { class: `verdict ${amity.KINDS[judgement] || ""}` }, sign, words, told);
  }

  amity.part({
    id: "worth",
    title: "Was joining worth it?",
    show,
    uses: (view) => (view.methods.length || view.worth.length ? [view.worth, view.why_no_worth, view.score] : null),
  });
})(window.amity);
