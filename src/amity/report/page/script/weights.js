// Who learns from whom, out of the view: a matrix of numbers for each round that is on record.
"use strict";
((amity) => {
  const UNDEFINED = 65535; // a silo that was not asked
  const STEPS = 65534;
  const STANDS_OUT = 1.5; // even shares
  const known = new WeakMap(); // a view's weights -> its codes, decoded once

  function codes(weights) {
    if (!known.has(weights)) {
      const text = atob(weights.codes);
      const pairs = new Uint16Array(text.length / 2);
      for (let place = 0; place < pairs.length; place += 1) {
        pairs[place] = text.charCodeAt(2 * place) | (text.charCodeAt(2 * place + 1) << 8);
      }
      known.set(weights, pairs);
    }
    return known.get(weights);
  }

  /** Return the weights of the round at this place as a function of receiver and giver; null where undefined. */
  function matrix(weights, place) {
    const all = codes(weights);
    const size = weights.given.length;
    const start = place * size * size;
    return (receiver, giver) => {
      const code = all[start + receiver * size + giver];
      return code === undefined || code === UNDEFINED
        ? null
        : weights.low + (code * (weights.high - weights.low)) / STEPS;
    };
  }

  /** Return the place of a round in the record; the last one for null, which stands for the latest. */
  function placeOf(weights, round) {
    const place = round === null ? -1 : weights.rounds.indexOf(round);
    return place < 0 ? weights.rounds.length - 1 : place;
  }

  /**
   * Return the ties that stand out, strongest first: a giver other than the receiver itself, well above the even share
   * 1/m that it would have if everybody were listened to alike. Of equal ones the nearest givers are taken: the first
   * silos of the list would look as if everybody listened to them.
   */
  function strongest(weights, place) {
    const size = weights.given.length;
    const most = tiesOf(size);
    const weight = matrix(weights, place);
    const away = ({ receiver, giver }) => (giver - receiver + size) % size;
    const ties = [];
    for (let receiver = 0; receiver < size; receiver += 1) {
      const own = [];
      for (let giver = 0; giver < size; giver += 1) {
        const value = giver === receiver ? null : weight(receiver, giver);
        if (value !== null && value * size >= STANDS_OUT) own.push({ receiver, giver, value });
      }
      ties.push(...own.sort((a, b) => b.value - a.value || away(a) - away(b)).slice(0, most));
    }
    return ties.sort((a, b) => b.value - a.value);
  }

  /** Return how many ties are shown of each silo: of many silos one, or nobody could follow them. */
  function tiesOf(silos) {
    return silos <= 40 ? 3 : 1;
  }

  Object.assign(amity, { matrix, placeOf, strongest, tiesOf });
})(window.amity);
