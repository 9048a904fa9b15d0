// Elements. Every text goes in as a text node: nothing that a user named is ever read as markup.
"use strict";
window.amity = window.amity || {};
((amity) => {
  const SVG = "http://www.w3.org/2000/svg";

  /** Set attributes; `on` holds listeners, false and null leave an attribute away. */
  function dress(element, attributes) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") {
        for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
      } else if (value === true) {
        element.setAttribute(name, "");
      } else if (value !== false && value !== null && value !== undefined) {
        element.setAttribute(name, value);
      }
    }
  }

  function fill(element, children) {
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      element.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return element;
  }

  /** Return an HTML element with attributes and children; strings among these become text. */
  function el(tag, attributes, ...children) {
    const element = document.createElement(tag);
    dress(element, attributes);
    return fill(element, children);
  }

  /** Return an SVG element; numbers are rounded, which keeps pictures small. */
  function svg(tag, attributes, ...children) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") continue;
      if (value === false || value === null || value === undefined) continue;
      element.setAttribute(name, typeof value === "number" ? Math.round(value * 100) / 100 : value);
    }
    for (const [event, listener] of Object.entries((attributes || {}).on || {})) {
      element.addEventListener(event, listener);
    }
    return fill(element, children);
  }

  /** Say something to screen readers. */
  function say(text) {
    const place = document.getElementById("said");
    if (place && place.textContent !== text) place.textContent = text;
  }

  /** Return a labelled choice; with a single option there is nothing to choose, and nothing comes back. */
  function choice(id, label, options, chosen, choose) {
    if (options.length < 2) return null;
    const select = el("select", { id, on: { change: () => choose(select.value) } });
    for (const [value, text] of options) select.append(el("option", { value, selected: value === chosen }, text));
    return el("label", { class: "choice", for: id }, el("span", {}, label), select);
  }

  /** Return a row of buttons of which one is pressed. */
  function toggle(id, label, options, chosen, choose) {
    const row = el("div", { class: "toggle", role: "group", "aria-label": label });
    for (const [value, text] of options) {
      const pressed = String(value === chosen);
      const press = () => choose(value);
      row.append(
        el("button", { type: "button", id: `${id}-${value}`, "aria-pressed": pressed, on: { click: press } }, text),
      );
    }
    return row;
  }

  /** Return a button that copies a text, and says so. */
  function copyButton(id, text) {
    const button = el("button", { type: "button", id, class: "tool", on: { click: copy } }, "Copy");
    async function copy() {
      let done = true;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        done = copiedBySelection(text);
      }
      button.textContent = done ? "Copied" : "Select and copy it by hand";
      say(button.textContent);
      setTimeout(() => (button.textContent = "Copy"), 2000);
    }
    return button;
  }

  /** Pages from disk may have no clipboard: a selection can be copied there all the same. */
  function copiedBySelection(text) {
    const area = el("textarea", { class: "unseen", readonly: true, "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }

  Object.assign(amity, { el, svg, say, choice, toggle, copyButton });
})(window.amity);
