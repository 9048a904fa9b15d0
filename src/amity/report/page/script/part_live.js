// What is going on right now: every run that is watched, every silo's state, a feed in plain words, the last log lines.
"use strict";
((amity) => {
  const { el } = amity;
  const HEALTH = { green: "well", orange: "late", red: "silent", none: "" };
  const PHASES = {
    waiting: "waiting",
    running: "running",
    ended: "finished",
    stopped: "stopped",
    failed: "failed",
    dead: "interrupted",
  };

  function show(view, state) {
    const { live } = view;
    return [
      el("p", { class: "lead", id: "live-words" }, sentence(live)),
      el(
        "div",
        { class: `runs${live.runs.length > 1 ? " several" : ""}` },
        live.runs.map((run, place) => card(view, run, live.now, place, state)),
      ),
      live.feed.length
        ? el(
            "div",
            { class: "block" },
            el("h3", {}, "As it happens"),
            el(
              "div",
              { class: "feedbox", id: "feed", tabindex: "0", role: "log", "aria-label": "As it happens" },
              amity.feed(live.feed),
            ),
          )
        : null,
    ];
  }

  function sentence(live) {
    if (!live.runs.length) return "Nothing has begun yet.";
    const counts = new Map();
    for (const { phase } of live.runs) counts.set(phase, (counts.get(phase) || 0) + 1);
    const told = [...counts].map(
      ([phase, count]) => `${live.runs.length > 1 ? `${count} ` : ""}${PHASES[phase] || phase}`,
    );
    const left = Math.max(...live.runs.map((run) => (run.phase === "running" ? (run.left ?? -1) : -1)));
    const head =
      live.runs.length > 1
        ? `${live.runs.length} runs: ${told.join(", ")}`
        : `${live.runs[0].name} is ${told[0]}`;
    return `${head}${left >= 0 ? `; about ${amity.duration(left)} left` : ""}. As of ${amity.clock(live.now)}.`;
  }

  function card(view, run, now, place, state) {
    const over = !["running", "waiting"].includes(run.phase);
    const rounds = run.rounds ? `${run.round} of ${run.rounds}` : `${run.round}`; // a silo may not know how many
    const share = run.rounds ? Math.min(1, run.round / run.rounds) : 0;
    const bar = el("progress", {
      max: run.rounds || 1,
      value: run.round,
      "aria-label": `${run.name}: round ${rounds}`,
    });
    const mean = meanOf(view, run);
    const facts = [
      ["Round", rounds],
      [amity.capital(`mean ${view.score.title}`), mean === undefined ? "\u2013" : amity.score(mean, view)],
      over
        ? ["Ended after", run.begun === null ? "\u2013" : amity.duration(Math.max(0, run.written - run.begun))]
        : ["Going for", run.begun === null ? "\u2013" : amity.duration(now - run.begun)],
      ["Time left", run.left === null || run.phase !== "running" ? "\u2013" : amity.duration(run.left)],
    ];
    return el("article", { class: `run ${run.phase}`, id: `live-${place}` }, [
      el(
        "h3",
        {},
        el("span", { title: run.name }, amity.shorten(run.name, 44)),
        " ",
        el("span", { class: "phase" }, PHASES[run.phase] || run.phase),
      ),
      run.words ? el("p", { class: "note" }, run.words) : null,
      bar,
      el("p", { class: "unseen" }, `${amity.number(100 * share, 0)} percent`),
      el(
        "dl",
        { class: "facts" },
        facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
      ),
      run.silos.length ? silos(view, run, now, place) : null,
      log(run, place, state),
    ]);
  }

  /** Return the newest mean score of a run that has one on record. */
  const meanOf = (view, run) => view.runs[run.run]?.course.mean.findLast((value) => value !== null);

  function silos(view, run, now, place) {
    const columns = [
      {
        key: "name",
        title: "Silo",
        text: true,
        cell: ({ name }) => el("span", { title: name }, amity.shorten(name, 22)),
      },
      { key: "state", title: "State", text: true, cell: (silo) => state(silo, now) },
      ...(run.silos.some((silo) => silo.health !== "none" || silo.seen !== null)
        ? [{ key: "health", title: "Last sign", text: true, cell: (silo) => heartbeat(silo, now) }]
        : []), // silos of a simulation live in its own process
      { key: "recent", title: "Last rounds", text: true, cell: (silo) => recent(view, silo) },
    ];
    return amity.table({
      id: `live-silos-${place}`,
      caption: `Silos of ${run.name}`,
      columns,
      parts: [{ rows: run.silos }],
    });
  }

  function state(silo, now) {
    const since = silo.since === null ? "" : amity.duration(now - silo.since);
    const words = [
      [silo.round ? `round ${silo.round}` : "", since].filter(Boolean).join(" \u00b7 "),
      silo.words,
    ].filter(Boolean);
    return [el("span", { class: `state ${silo.state}` }, silo.state), words.map((text) => el("small", {}, text))];
  }

  /** Return how long ago a silo was last heard of: a colour, and always a word beside it. */
  function heartbeat(silo, now) {
    if (silo.health === "none" && silo.seen === null) return el("span", { class: "health none" }, "\u2013");
    const ago = silo.seen === null ? null : el("small", {}, `${amity.duration(now - silo.seen)} ago`);
    return el(
      "span",
      { class: `health ${silo.health}` },
      el("span", { class: "lamp", "aria-hidden": "true" }),
      HEALTH[silo.health],
      ago,
    );
  }

  function recent(view, silo) {
    const known = silo.recent.filter((value) => value !== null);
    if (!known.length) return "\u2013";
    const last = amity.score(known[known.length - 1], view);
    return el(
      "span",
      { class: "recent" },
      amity.spark(
        silo.recent,
        `${amity.capital(view.score.title)} of the last ${known.length} rounds, now ${last}`,
        72,
      ),
      last,
    );
  }

  function log(run, place, state) {
    if (!run.log.length) return null;
    const id = `log-${place}`;
    return el(
      "details",
      { id, open: state.open[id] },
      el("summary", {}, "Last log lines"),
      el("pre", { class: "log", id: `${id}-lines`, tabindex: "0" }, run.log.join("\n")),
    );
  }

  const uses = (view) => (view.live ? [view.live, view.live.runs.map((run) => meanOf(view, run))] : null);
  amity.part({ id: "live", title: "Right now", show, uses });
})(window.amity);
