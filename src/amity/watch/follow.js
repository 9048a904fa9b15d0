// Follows the server: what is live comes by itself, the whole view is fetched when there is a newer one.
"use strict";
((amity) => {
  const SILENT = 30000; // milliseconds without a word after which the connection counts as gone
  const AGAIN = 2000; // milliseconds before another try
  let source = null;
  let heard = 0;
  let wanted = -1; // number of the newest view
  let shown = null; // { number, view } as fetched last
  let live = null;
  let fetching = false;
  let over = false;

  const line = document.createElement("p");
  line.id = "connection";
  line.className = "note";
  line.setAttribute("role", "status");
  document.getElementById("page").before(line);

  function say(state, words) {
    if (document.body.dataset.connection === state) return;
    document.body.dataset.connection = state;
    line.textContent = words;
    line.hidden = !words;
  }

  /** Draw what is known: the newest live part, with the newest view that has been fetched. */
  function draw() {
    if (!shown || !live) return;
    let placed = live; // `live` itself stays as it came: its places are those of the view that is on its way
    if (shown.number !== wanted) {
      // Places in another view may be other runs: those of the fetched one are found by name.
      const places = new Map(shown.view.live.runs.map((run) => [run.name, run.run]));
      placed = { ...live, runs: live.runs.map((run) => ({ ...run, run: places.get(run.name) ?? -1 })) };
    }
    amity.render({ ...shown.view, live: placed });
    document.body.dataset.view = String(shown.number);
  }

  async function fetchView() {
    if (fetching || (shown && shown.number === wanted)) return;
    fetching = true;
    try {
      const answer = await fetch("/view", { cache: "no-store" });
      if (answer.ok) shown = await answer.json();
      draw();
    } catch {
      // The connection's own line says so.
    } finally {
      fetching = false;
    }
    // A server that has just made a view, at some cost, gives that one again: ask a little later.
    if (shown && shown.number < wanted) setTimeout(fetchView, AGAIN);
  }

  function connect() {
    if (source) source.close();
    heard = Date.now();
    source = new EventSource("/live");
    source.onmessage = (message) => {
      heard = Date.now();
      over = false;
      const news = JSON.parse(message.data);
      live = news.live;
      if (shown && news.number < shown.number) shown = null; // another server, which counts anew
      wanted = news.number;
      say("live", "");
      draw();
      fetchView();
    };
    source.addEventListener("over", () => {
      over = true;
      say("over", "The server of this page has ended: this is how things stood. The page comes back by itself if it is served again.");
    });
    source.onerror = () => {
      if (!over) say("lost", "The connection is lost: this is how it stood. It is tried again all the time.");
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN); // refused: browsers give up then
    };
  }

  setInterval(() => {
    if (Date.now() - heard > SILENT) connect();
  }, AGAIN);
  say("waiting", "Connecting\u2026");
  connect();
})(window.amity);
