// How did it go? Curves of all methods, one line for each silo, what went wrong, and what happened.
"use strict";
((amity) => {
  const { el } = amity;

  const MEASURES = {
    mean: { name: "mean over silos", score: true, of: (course) => course.mean },
    worst: { name: "the worst silo", score: true, of: (course) => course.worst },
    loss: { name: "training loss", of: (course) => course.loss, digits: 4 },
    test_loss: { name: "loss on test data", of: (course) => course.test_loss || [], digits: 4 },
    collaborators: { name: "collaborators of a silo", of: (course) => course.collaborators, digits: 2 },
    bytes: {
      name: "megabytes in a round",
      of: (course) => course.bytes_up.map((up, place) => (up + course.bytes_down[place]) / 1e6),
      digits: 2,
    },
    seconds: { name: "seconds of a round", of: (course) => course.seconds, digits: 2 },
  };

  function show(view, state, refresh) {
    const runs = view.runs.filter(({ course }) => course.rounds.length);
    if (!runs.length) return [el("p", { class: "lead" }, "No round is on record yet.")];
    const measures = Object.entries(MEASURES).filter(([, { of }]) =>
      runs.some(({ course }) => of(course).some((value) => value !== null)),
    );
    const key = measures.some(([name]) => name === state.measure) ? state.measure : measures[0][0];
    const run = runs.find((one) => one.name === state.course) || amity.leading(view, runs);
    const labels = runs.map((one) => one.name);
    return [
      unfinished(view),
      ended(run),
      noisy(run),
      curves(
        view,
        key,
        amity.choice(
          "measure",
          "Show",
          measures.map(([name, { name: words }]) => [name, words]),
          key,
          (name) => refresh({ measure: name }),
        ),
      ),
      perSilo(
        view,
        run,
        state,
        amity.choice(
          "course-run",
          "Method",
          labels.map((name) => [name, name]),
          run.name,
          (name) => refresh({ course: name }),
        ),
      ),
      missing(view, run),
      events(view, run, state),
    ];
  }

  function unfinished(view) {
    const short = view.runs.filter(({ finished, asked, course }) => !finished && course.rounds.length < asked);
    if (!short.length) return null;
    const told = short.map((run) => `${run.name}: ${course(run)} of ${run.asked} rounds`);
    return el("p", { class: "lead" }, `Not finished yet: ${amity.names(told, 5)}.`);
  }

  /** Say how the run has ended, where silos went on alone after its last round. */
  function ended({ name, ending }) {
    return ending ? el("p", { class: "lead", id: "ending" }, `${name}: ${ending.words}`) : null;
  }

  /** Say what the run promises about single examples, under differential privacy. */
  function noisy({ name, privacy }) {
    return privacy ? el("p", { class: "lead", id: "privacy" }, `${name}: ${privacy.words}`) : null;
  }

  const endingsOf = (runs) => [...new Set(runs.flatMap(({ ending }) => (ending ? [ending.round] : [])))];

  const course = (run) => run.course.rounds.length;

  /** Return the line of a method: its mean over seeds at the rounds that all of them have, and a band where there are several. */
  function lineOf(view, method, place, of) {
    const tables = method.runs.map(
      (run) => new Map(view.runs[run].course.rounds.map((round, at) => [round, of(view.runs[run].course)[at] ?? null])),
    );
    const rounds = tables.length
      ? [...tables[0].keys()].filter((round) => tables.every((table) => (table.get(round) ?? null) !== null))
      : [];
    const points = [];
    const band = [];
    for (const round of rounds) {
      const values = tables.map((table) => table.get(round));
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      points.push([round, mean]);
      if (values.length > 1) {
        const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
        band.push([round, mean - deviation, mean + deviation]);
      }
    }
    return { name: method.name, ...amity.pen(place), points, band: band.length ? band : null };
  }

  function curves(view, key, controls) {
    const measure = MEASURES[key];
    const series = view.methods
      .map((method, place) => lineOf(view, method, place, measure.of))
      .filter(({ points }) => points.length);
    const rounds = [...new Set(series.flatMap(({ points }) => points.map(([round]) => round)))].sort((a, b) => a - b);
    const unit = measure.score ? view.score.unit : "";
    const what = measure.score ? `test ${view.score.title}, ${measure.name}` : measure.name;
    const title = `${amity.capital(what)}${unit ? `, ${unit}` : ""}`;
    const digits = measure.score ? amity.scoreDigits(view, 2) : measure.digits;
    const ends = () =>
      series.map(({ name, points }) => `${name} ${amity.number(points[points.length - 1][1], digits)}`).join(", ");
    const several = view.methods.some(({ seeds }) => seeds.length > 1);
    return amity.figure({
      id: "curves",
      title: "Round by round",
      note: `Each silo is measured with its own personal model.${several ? " A band is the standard deviation over seeds." : ""} Point at a round, or use the arrow keys, to read all methods at once.`,
      alt: () =>
        series.length
          ? `Line chart, ${what}, rounds ${rounds[0]} to ${rounds[rounds.length - 1]}. At the end: ${ends()}.`
          : `Nothing to show for ${what}.`,
      draw: (width, frame) =>
        series.length
          ? amity.curves({
              width,
              frame,
              series,
              rounds,
              title,
              unit,
              digits,
              endings: endingsOf(view.runs),
            })
          : amity.picture(width, 40),
      csv: () => [
        ["round", ...series.map(({ name }) => name)],
        ...rounds.map((round) => [
          round,
          ...series.map(({ points }) => (points.find((point) => point[0] === round) || [])[1] ?? null),
        ]),
      ],
      controls: controls ? el("div", { class: "controls" }, controls) : null,
    }).node;
  }

  /** Return what went wrong in each round: who was dropped or refused, and why. */
  function marksOf({ course: { rounds, dropped, refused } }) {
    const marks = {};
    rounds.forEach((round, place) => {
      const gone = Object.entries(dropped[place] || {}).map(([silo, why]) => ({ silo, why, kind: "dropped" }));
      const denied = Object.entries(refused[place] || {}).map(([silo, why]) => ({ silo, why, kind: "refused" }));
      if (gone.length + denied.length) marks[round] = [...gone, ...denied];
    });
    return marks;
  }

  function perSilo(view, run, state, controls) {
    const { rounds, silos, mean } = run.course;
    const filled = (values) =>
      rounds.map((round, place) => [round, values(place) ?? null]).filter(([, value]) => value !== null);
    const lines = view.silos
      .map(({ name }, silo) => ({ name, points: filled((place) => silos[place]?.[silo]) }))
      .filter(({ points }) => points.length);
    if (!lines.length) return null;
    const marks = marksOf(run);
    const unit = view.score.unit;
    const title = `Test ${view.score.title} of each silo${unit ? `, ${unit}` : ""}`;
    const last = rounds[rounds.length - 1];
    return amity.figure({
      id: "silo-lines",
      title: "Every silo's own curve",
      note: "The dark line is the mean. Point at a line, or choose one with the arrow keys up and down.",
      alt: () =>
        `Lines of ${amity.plural(lines.length, "silo")} with ${run.name}, to ${run.ending ? "the ending after round" : "round"} ${run.ending ? last - 1 : last}. ${amity.plural(Object.keys(marks).length, "round")} with dropped or refused silos.`,
      draw: (width, frame) =>
        amity.siloLines({
          width,
          frame,
          lines,
          mean: filled((place) => mean[place]),
          rounds,
          marks,
          endings: endingsOf([run]),
          title,
          unit,
          digits: amity.scoreDigits(view, 2),
          picked: () => state.silo,
          pick: (name) => (state.silo = name),
        }),
      csv: () => [
        ["round", "mean", ...view.silos.map(({ name }) => name)],
        ...rounds.map((round, place) => [
          round,
          mean[place],
          ...view.silos.map((_, silo) => silos[place]?.[silo] ?? null),
        ]),
      ],
      controls: controls ? el("div", { class: "controls" }, controls) : null,
    }).node;
  }

  /** List who was missing, in words; as many as people read. */
  function missing(view, run) {
    const marks = Object.entries(marksOf(run)).flatMap(([round, list]) =>
      list.map((mark) => ({ round: Number(round), ...mark })),
    );
    if (!marks.length) return null;
    const bySilo = new Map();
    for (const { silo, kind, why, round } of marks) {
      const key = JSON.stringify([silo, kind, why]);
      bySilo.set(key, [...(bySilo.get(key) || []), round]);
    }
    const items = [...bySilo].map(([key, rounds]) => {
      const [silo, kind, why] = JSON.parse(key);
      return el(
        "li",
        {},
        el("b", {}, amity.shorten(silo, 40)),
        ` was ${kind} in ${amity.rounds(rounds)}${why ? `: ${why}` : ""}`,
      );
    });
    const more = items.length - 12;
    return el(
      "div",
      { class: "block", id: "missing" },
      el("h3", {}, "Who was missing, and why"),
      el("ul", { class: "plain" }, items.slice(0, 12)),
      more > 0 ? el("p", { class: "note" }, `And ${more} more: the run's rounds.jsonl has all of them.`) : null,
    );
  }

  function events(view, run, state) {
    if (!run.events.length) return null;
    return el(
      "details",
      { id: "events", open: state.open.events },
      el(
        "summary",
        {},
        `${run.events.length === 1 ? "The last event" : `The last ${run.events.length} events`} of ${run.name}`,
      ),
      amity.feed(run.events),
    );
  }

  /** Return events as a list: when, and what in plain words. */
  function feed(list) {
    return el(
      "ol",
      { class: "feed" },
      list.map(({ time, level, words }) =>
        el(
          "li",
          { class: level },
          el("time", { datetime: new Date(time * 1000).toISOString() }, amity.clock(time)),
          el("span", {}, level === "warning" ? "! " : "", words),
        ),
      ),
    );
  }

  amity.feed = feed;
  const print = ({ rounds, mean }) => [rounds.length, rounds[rounds.length - 1], mean[mean.length - 1]];
  const uses = (view) =>
    view.runs.length
      ? [
          view.runs.map((run) => [
            run.name,
            run.seed,
            run.finished,
            print(run.course),
            run.events.length,
            run.events[0],
          ]),
          view.silos.length,
        ]
      : null;
  amity.part({ id: "course", title: "How did it go?", show, uses });
})(window.amity);
