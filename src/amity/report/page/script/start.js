// Draw the view that lies in the page, if there is one: the live page has none, and is sent its views.
"use strict";
(() => {
  const text = document.getElementById("view").textContent.trim();
  if (text) window.amity.render(JSON.parse(text));
})();
