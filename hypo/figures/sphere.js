for (const figure of document.querySelectorAll('.hypo-sphere:not([data-live])')) {
  figure.dataset.live = '';
  const { axes, labels, names, colours, readings, vectors } =
    JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const bytes = Uint8Array.from(atob(vectors), c => c.charCodeAt(0));
  const stored = new DataView(bytes.buffer);
  const samples = labels.length, size = samples + names.length;
  const part = tag => figure.querySelector(tag);
  const canvas = part('canvas'), button = part('button'), output = part('output');
  const sliders = [...figure.querySelectorAll('input')], frames = readings.length;
  const pen = canvas.getContext('2d');
  const calm = matchMedia('(prefers-reduced-motion: reduce)');
  const SHAPES = [[24, 0], [4, 45], [4, 0], [3, -90], [3, 90], [5, -90], [6, 0], [8, 0], [3, 180], [3, 0]];
  const rad = degrees => degrees * Math.PI / 180;
  let azimuth = 35, elevation = 20, epoch = JSON.parse(figure.dataset.start), held = null, timer = 0;

  // Orthographic view of [x, y, z]: right, up, towards the reader.
  function view([x, y, z]) {
    const a = rad(azimuth), ca = Math.cos(a), sa = Math.sin(a);
    const e = rad(elevation), ce = Math.cos(e), se = Math.sin(e);
    const out = x * ca + y * sa;
    return [y * ca - x * sa, z * ce - out * se, out * ce + z * se];
  }
  function vector(row) {
    const at = 6 * (epoch * size + row);
    return [0, 2, 4].map(offset => stored.getInt16(at + offset, true) / 32767);
  }
  const turns = Array.from({ length: 91 }, (_, i) => rad(4 * i));
  const ring = place => turns.map(t => place(Math.cos(t), Math.sin(t)));
  const rings = [
    ...[-45, 0, 45].map(rad).map(t => ring((c, s) => [c * Math.cos(t), s * Math.cos(t), Math.sin(t)])),
    ...[0, 45, 90, 135].map(rad).map(t => ring((c, s) => [c * Math.cos(t), c * Math.sin(t), s])),
  ];

  function draw() {
    const side = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (!side) return;
    canvas.width = canvas.height = Math.round(side * ratio);
    const radius = side / 2 / 1.09;
    const spot = ([right, up]) => [radius * right, -radius * up];
    const ink = getComputedStyle(figure).color;
    pen.setTransform(ratio, 0, 0, ratio, side * ratio / 2, side * ratio / 2);
    const stroke = (points, width, alpha) => {
      pen.beginPath();
      points.forEach((p, i) => i ? pen.lineTo(...spot(p)) : pen.moveTo(...spot(p)));
      pen.lineWidth = width; pen.globalAlpha = alpha; pen.strokeStyle = ink; pen.stroke();
    };
    const shape = ([x, y], kind, size) => {
      const [corners, turn] = SHAPES[kind];
      pen.beginPath();
      for (let i = 0; i < corners; i++) {
        const t = rad(turn + 360 * i / corners);
        pen.lineTo(x + size * Math.cos(t), y + size * Math.sin(t));
      }
      pen.closePath();
    };
    stroke(ring((c, s) => [c, s]), 1.2, 0.5);
    for (const points of rings) {
      const seen = points.map(view);
      for (let i = 1; i < seen.length; i++) stroke([seen[i - 1], seen[i]], 0.7, seen[i][2] > 0 ? 0.3 : 0.1);
    }
    const level = ([row, at]) => 4 * (at[2] >= 0) + 2 * (row >= samples) + at[2] / 2; // prototypes over their samples
    const marks = Array.from({ length: size }, (_, row) => [row, view(vector(row))]);
    for (const [row, at] of marks.sort((a, b) => level(a) - level(b))) {
      const behind = at[2] < 0, c = row < samples ? labels[row] : row - samples;
      pen.fillStyle = colours[c];
      if (row < samples) {
        pen.globalAlpha = behind ? 0.35 : 0.8;
        shape(spot(at), c, Math.max(2, side / 150));
        pen.fill();
        continue;
      }
      stroke([[0, 0], at], 1.2, behind ? 0.3 : 0.8);
      pen.globalAlpha = behind ? 0.65 : 1;
      shape(spot(at), 0, 11);
      pen.fill();
      pen.lineWidth = 1.5; pen.strokeStyle = ink; pen.stroke();
      pen.fillStyle = '#fff'; pen.font = 'bold 13px sans-serif'; pen.textAlign = 'center'; pen.textBaseline = 'middle';
      pen.fillText(names[c], ...spot(at));
    }
  }
  function turn(by, up) {
    azimuth = (azimuth + by + 360) % 360;
    elevation = Math.max(-90, Math.min(90, elevation + up));
    canvas.dataset.azimuth = azimuth.toFixed(1);
    canvas.dataset.elevation = elevation.toFixed(1);
    draw();
  }
  // The frame of these slider positions, the last axis running fastest; and the positions of a frame.
  const frame = () => sliders.reduce((sum, slider, i) => sum * axes[i][1].length + Number(slider.value), 0);
  function show(next) {
    epoch = next;
    canvas.dataset.epoch = epoch;
    for (let i = sliders.length - 1, rest = next; i >= 0; rest = Math.floor(rest / axes[i--][1].length)) {
      const [name, values] = axes[i], at = rest % values.length;
      sliders[i].value = at;
      sliders[i].setAttribute('aria-valuetext', `${name} ${values[at]}`);
      sliders[i].previousElementSibling.textContent = `${name} ${values[at]}`;
    }
    output.textContent = readings[epoch];
    draw();
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    if (button) button.textContent = calm.matches ? 'Next epoch' : 'Play';
  }
  button?.addEventListener('click', () => {
    if (timer) return stop();
    if (calm.matches) return show((epoch + 1) % frames);
    if (epoch === frames - 1) show(0);
    timer = setInterval(() => epoch < frames - 1 ? show(epoch + 1) : stop(), 160);
    button.textContent = 'Pause';
  });
  for (const slider of sliders) slider.addEventListener('input', () => { stop(); show(frame()); });
  canvas.addEventListener('pointerdown', event => {
    canvas.setPointerCapture(event.pointerId);
    held = [event.clientX, event.clientY];
  });
  canvas.addEventListener('pointermove', event => {
    if (!held) return;
    const degrees = 180 / canvas.clientWidth;
    turn((held[0] - event.clientX) * degrees, (event.clientY - held[1]) * degrees);
    held = [event.clientX, event.clientY];
  });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => { held = null; });
  canvas.addEventListener('keydown', event => {
    const step = { ArrowLeft: [5, 0], ArrowRight: [-5, 0], ArrowUp: [0, -5], ArrowDown: [0, 5] }[event.key];
    if (step) { event.preventDefault(); turn(...step); }
  });
  new ResizeObserver(draw).observe(canvas);
  addEventListener('resize', draw);
  new MutationObserver(draw).observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  calm.addEventListener('change', stop);
  stop();
  show(epoch);
  turn(0, 0);
}
