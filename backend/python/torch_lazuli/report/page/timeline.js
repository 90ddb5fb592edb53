// Time from left to right: what the host did, and under it the launches of those runs that were kept.
function timelineView(view) {
  const rows = ['syncs', 'making ready', 'runs', 'external calls', 'launches'];
  const bars = [];  // {row, begin, us, color, words, open}
  const e = data.events, kinds = data.event_kinds;
  for (let i = 0; i < e.kind.length; ++i) {
    const kind = kinds[e.kind[i]];
    const row = { sync: 0, compile: 1, run: 2, peek: 0, external: 3, wait: 0 }[kind];
    const trace = e.trace[i];
    const where = e.line[i] ? `\n${shorten(text(e.line[i]))}  ${sourceOf(text(e.line[i])).trim()}` : '';
    const name = { sync: `sync: ${data.reasons[e.reason[i]]}`, compile: 'made ready', run: 'run', peek: 'peek', external: text(trace), wait: 'waiting' }[kind];
    bars.push({
      row, begin: e.begin[i], us: e.us[i], color: { sync: 'recording', compile: 'compiling', run: 'running', peek: 'autograd', external: 'external', wait: 'waiting' }[kind],
      words: `${name}${kind !== 'external' && trace >= 0 ? `, trace ${trace}` : ''}\n${time(e.us[i])} at ${time(e.begin[i])}${where}`,
      open: kind === 'external' || trace < 0 ? () => e.line[i] && showLineDetail(e.line[i]) : () => showTrace(trace),
    });
  }
  const runs = data.traces.flatMap((t) => [...t.kept, t.slowest]);
  const seen = new Set();
  for (const run of runs) {
    if (seen.has(run.begin)) continue;
    seen.add(run.begin);
    for (let i = 0; i * 2 < run.where.length; ++i) {
      const x = executables.get(run.where[2 * i]);
      const step = x?.stepList[run.where[2 * i + 1]];
      if (!step) continue;
      bars.push({ row: 4, begin: run.begin + run.when[2 * i], us: run.when[2 * i + 1], color: null, step,
        words: `${step.name}\n${time(run.when[2 * i + 1])}, ${step.nodes.length} operations\n${linesOf(step).slice(0, 4).map((l) => shorten(text(l))).join(', ')}`, open: () => showStep(step) });
    }
  }
  bars.sort((a, b) => a.begin - b.begin);
  const end = Math.max(data.seconds * 1e6, 1);
  const canvas = h('canvas', { tabindex: 0, 'aria-label': 'Timeline: plus and minus zoom, arrows move, n goes to the next kept run' });
  const kept = [...seen].sort((a, b) => a - b);
  const keptRuns = runs.filter((r) => r.where.length);
  const goTo = (begin, us) => zoomTo(begin - us * 0.02, begin + us * 1.02);
  view.append(h('div', { class: 'row' }, legend(['recording', 'compiling', 'running', 'library', 'external', 'waiting']),
    h('button', { class: 'plain', onclick: () => zoomTo(0, end) }, 'All'),
    h('button', { class: 'plain', onclick: () => { const slow = d3.scan(keptRuns, (a, b) => b.us - a.us); if (keptRuns.length) goTo(keptRuns[slow].begin, keptRuns[slow].us); } }, 'Slowest run'),
    h('button', { class: 'plain', onclick: () => { const last = d3.scan(keptRuns, (a, b) => b.begin - a.begin); if (keptRuns.length) goTo(keptRuns[last].begin, keptRuns[last].us); } }, 'Last run'),
    h('span', { class: 'faint' }, `Wheel zooms, dragging moves. Launches are kept of ${kept.length} runs.`)), canvas);
  const left = 96, top = 26, rowHeight = 40;
  const height = top + rows.length * rowHeight + 8;
  const x0 = d3.scaleLinear().domain([0, end]);
  let x = x0, drawn = [];
  const width = () => canvas.clientWidth;
  function draw() {
    const ratio = devicePixelRatio || 1;
    canvas.width = width() * ratio; canvas.height = height * ratio; canvas.style.height = `${height}px`;
    const c = canvas.getContext('2d');
    c.scale(ratio, ratio);
    c.font = '11px system-ui, "DejaVu Sans", sans-serif';
    c.fillStyle = css('paper'); c.fillRect(0, 0, width(), height);
    const [from, to] = x.domain();
    c.strokeStyle = css('line'); c.fillStyle = css('faint');
    // As many digits as tell neighbours apart.
    const apart = (to - from) / 8, unit = to >= 1e6 ? [1e6, 's'] : to >= 1e3 ? [1e3, 'ms'] : [1, 'µs'];
    const digits = Math.max(0, Math.ceil(-Math.log10(apart / unit[0])) + 1);
    const format = (us) => `${(us / unit[0]).toFixed(Math.min(9, digits))} ${unit[1]}`;
    for (const tick of x.ticks(Math.max(2, width() / 130))) {
      c.beginPath(); c.moveTo(x(tick), 18); c.lineTo(x(tick), height); c.stroke();
      c.fillText(format(Math.max(0, tick)), x(tick) + 3, 12);
    }
    drawn = [];
    const ends = rows.map(() => -1);  // to the pixel
    c.save(); c.beginPath(); c.rect(left, 0, width() - left, height); c.clip();
    for (const bar of bars) {
      if (bar.begin + bar.us < from || bar.begin > to) continue;
      const a = x(bar.begin), b = Math.max(x(bar.begin + bar.us), a + 0.7);
      if (b < ends[bar.row]) continue;  // nothing to see
      ends[bar.row] = Math.floor(b * 2) / 2;
      const y = top + bar.row * rowHeight;
      c.fillStyle = bar.step ? colorOf(bar.step) : css(bar.color);
      c.fillRect(a, y + 4, b - a, rowHeight - 10);
      if (b - a > 6) { c.strokeStyle = css('paper'); c.strokeRect(a, y + 4, b - a, rowHeight - 10); }
      if (b - a > 44) { c.save(); c.beginPath(); c.rect(a, y, b - a - 3, rowHeight); c.clip(); c.fillStyle = '#fff'; c.fillText(bar.words.split('\n')[0], Math.max(a, left) + 4, y + 23); c.restore(); }
      drawn.push({ a, b, y, bar });
    }
    c.restore();
    c.fillStyle = css('ink');
    rows.forEach((name, i) => c.fillText(name, 6, top + i * rowHeight + 23));
  }
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    return px < left ? null : drawn.filter((d) => px >= d.a - 1 && px <= d.b + 1 && py >= d.y && py < d.y + rowHeight).pop()?.bar;
  };
  const zoom = d3.zoom().scaleExtent([1, 1e6]).on('zoom', () => { x = d3.event.transform.rescaleX(x0); draw(); });
  function fit() {
    x0.range([left, width() - 8]); x = x0;
    zoom.extent([[left, 0], [width() - 8, height]]).translateExtent([[left, 0], [width() - 8, height]]);
    d3.select(canvas).call(zoom).on('dblclick.zoom', null);
    draw();
  }
  function zoomTo(a, b) {
    const k = end / (b - a);
    d3.select(canvas).call(zoom.transform, d3.zoomIdentity.translate(left, 0).scale(k).translate(-x0(Math.max(0, a)), 0));
  }
  canvas.addEventListener('mousemove', (event) => { const bar = at(event); showTip(event, bar?.words); canvas.style.cursor = bar ? 'pointer' : 'grab'; });
  canvas.addEventListener('mouseleave', () => showTip(null, ''));
  canvas.addEventListener('click', (event) => at(event)?.open());
  let next = 0;
  canvas.addEventListener('keydown', (event) => {
    const s = d3.select(canvas);
    if (event.key === '+' || event.key === '=') s.call(zoom.scaleBy, 1.6);
    else if (event.key === '-') s.call(zoom.scaleBy, 1 / 1.6);
    else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') s.call(zoom.translateBy, (event.key === 'ArrowLeft' ? 1 : -1) * 80 / d3.zoomTransform(canvas).k, 0);
    else if (event.key === '0') zoomTo(0, end);
    else if (event.key === 'n' && keptRuns.length) { const run = keptRuns[next++ % keptRuns.length]; goTo(run.begin, run.us); }
    else if (event.key === 'Enter') drawn.filter((d) => d.b > left && d.bar.row === 4)[0]?.bar.open();
    else return;
    event.preventDefault();
  });
  fit();
  timelineView.redraw = fit;
}
