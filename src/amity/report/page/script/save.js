// Pictures and numbers as files, made here in the browser.
"use strict";
((amity) => {
  const LOOKS = [
    "fill",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linejoin",
    "opacity",
    "fill-opacity",
    "stroke-opacity",
    "font-family",
    "font-size",
    "font-weight",
    "font-style",
    "text-anchor",
    "dominant-baseline",
    "image-rendering",
    "visibility",
  ];
  const MARGIN = 16;
  const SHARP = 2; // pixels of the file for each of the screen

  function save(blob, name) {
    const address = URL.createObjectURL(blob);
    const link = amity.el("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    amity.say(`saved ${name}`);
  }

  function saveText(text, name, type) {
    save(new Blob([text], { type: `${type};charset=utf-8` }), name);
  }

  /** Return a copy that needs no style sheet: an SVG that is drawn as an image has none. */
  function standalone(picture) {
    const copy = picture.cloneNode(true);
    const [from, to] = [picture.querySelectorAll("*"), copy.querySelectorAll("*")];
    from.forEach((element, place) => {
      const style = getComputedStyle(element);
      for (const look of LOOKS) to[place].setAttribute(look, style.getPropertyValue(look));
    });
    for (const element of copy.querySelectorAll(".pointer")) element.remove();
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return copy;
  }

  /** Save a picture with its title on the page's paper. */
  async function savePng(box, name, title) {
    const picture = box.querySelector("svg");
    const [width, height] = [Number(picture.getAttribute("width")), Number(picture.getAttribute("height"))];
    const image = new Image();
    const text = new XMLSerializer().serializeToString(standalone(picture));
    const loaded = new Promise((done, fail) => {
      image.onload = done;
      image.onerror = () => fail(new Error(`cannot draw ${name}`));
    });
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await loaded;
    const canvas = document.createElement("canvas");
    const top = MARGIN + 26;
    canvas.width = (width + 2 * MARGIN) * SHARP;
    canvas.height = (height + top + MARGIN) * SHARP;
    const pen = canvas.getContext("2d");
    pen.scale(SHARP, SHARP);
    pen.fillStyle = amity.ink("paper");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = amity.ink("ink");
    pen.font = `600 15px ${getComputedStyle(document.body).fontFamily}`;
    pen.fillText(title, MARGIN, MARGIN + 14);
    pen.drawImage(image, MARGIN, top, width, height);
    canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png");
  }

  Object.assign(amity, { saveText, savePng });
})(window.amity);
