for (const figure of document.querySelectorAll('.hypo-map:not([data-live])')) {
  figure.dataset.live = '';
  const { texts, columns, rows } = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const card = figure.querySelector('.card'), picture = card.querySelector('.picture'), words = card.querySelector('p');
  const maps = [...figure.querySelectorAll('.maps svg')].map(svg => ({
    svg,
    mark: svg.querySelector('.mark'),
    points: [...svg.querySelectorAll('use')].map(use => [use.x.baseVal.value, use.y.baseVal.value]),
  }));
  let shown = -1;

  function show(sample, { svg, points }) {
    shown = sample;
    figure.dataset.sample = sample;
    card.hidden = sample < 0;
    for (const { mark, points } of maps) {
      mark.style.display = sample < 0 ? 'none' : 'inline';
      if (sample >= 0) ['cx', 'cy'].forEach((name, i) => mark.setAttribute(name, points[sample][i]));
    }
    if (sample < 0) return;
    words.textContent = texts[sample];
    if (picture) {
      const along = [[sample % columns, columns], [Math.floor(sample / columns), rows]];
      picture.style.backgroundPosition = along.map(([at, of]) => `${of > 1 ? 100 * at / (of - 1) : 0}%`).join(' ');
    }
    const box = figure.getBoundingClientRect();
    const at = new DOMPoint(...points[sample]).matrixTransform(svg.getScreenCTM());
    const right = at.x - box.left + 14, left = at.x - box.left - 14 - card.offsetWidth;
    card.style.left = `${Math.max(0, right + card.offsetWidth < box.width ? right : left)}px`;
    card.style.top = `${at.y - box.top + 14}px`;
  }
  // The sample nearest to [x, y] among those that `allowed` lets through, no further than `reach`.
  function nearest(points, x, y, reach, allowed = () => true) {
    let best = -1, least = reach * reach;
    points.forEach(([a, b], i) => {
      const distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < least && allowed(a - x, b - y)) [best, least] = [i, distance];
    });
    return best;
  }
  for (const map of maps) {
    const point = event => {
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.svg.getScreenCTM().inverse());
      show(nearest(map.points, x, y, event.pointerType === 'mouse' ? 10 : 22), map);
    };
    map.svg.addEventListener('pointermove', point);
    map.svg.addEventListener('pointerdown', point);
    map.svg.addEventListener('pointerleave', event => { if (event.pointerType === 'mouse') show(-1, map); });
    map.svg.addEventListener('blur', () => show(-1, map));
    map.svg.addEventListener('keydown', event => {
      const to = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (event.key === 'Escape') return show(-1, map);
      if (!to) return;
      event.preventDefault();
      const [x, y] = shown < 0 ? [200, 200] : map.points[shown];
      const ahead = (a, b) => a * to[0] + b * to[1] > 0.7 * Math.hypot(a, b);
      const next = nearest(map.points, x, y, 1e4, shown < 0 ? undefined : ahead);
      if (next >= 0) show(next, map);
    });
  }
}
