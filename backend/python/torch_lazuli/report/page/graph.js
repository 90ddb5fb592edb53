// A trace's graph, folded by module, by Python line or by kernel, laid out by dagre.
const graphState = { trace: -1, part: 0, fold: 'module', open: new Set() };
const TOO_MANY = 1500;  // boxes

function foldsOf(e, fold) {
  const classOf = (line) => { const parts = scopeOf(line).split('.'); return parts.length > 1 ? parts.slice(0, -1).join('.') : parts[0] || shorten(text(line)); };
  // Neighbours in the program's order with the same name are one box: the layers of a model stay apart.
  const names = e.nodes.line.map((line, n) => {
    if (fold === 'none') return null;
    if (fold === 'kernel') { const s = e.stepOf.get(n); return s && s.count ? `${s.index}` : null; }
    return fold === 'line' ? text(line) : classOf(line);
  });
  const keys = new Array(names.length).fill(null), early = earlyNodes(e);
  let last = null, number = 0;
  names.forEach((name, n) => {
    if (name === null || early[n]) return;
    if (fold === 'kernel') { keys[n] = `k${name}`; return; }
    if (name !== last) { last = name; ++number; }
    keys[n] = `${number}:${name}`;
  });
  if (fold === 'none' || fold === 'kernel') return keys;
  // An input, and views of it, belong where they are read first.
  const reader = new Array(names.length).fill(-1);
  for (let n = names.length - 1; n >= 0; --n) for (const m of e.nodes.inputs[n]) reader[m] = n;
  for (let n = names.length - 1; n >= 0; --n) if (early[n] && reader[n] >= 0) keys[n] = keys[reader[n]];
  return keys;
}
// Inputs, numbers, and views of them that need no step.
function earlyNodes(e) {
  const early = [];
  e.nodes.inputs.forEach((from, n) => { early[n] = isLeafNode(e, n) || (!e.stepOf.has(n) && from.every((m) => early[m])); });
  return early;
}
const LEAVES = new Set(['input', 'constant', 'scalar', 'iota', 'uninitialized']);
const isLeafNode = (e, n) => LEAVES.has(text(e.nodes.op[n]));

function boxesOf(e) {
  const keys = foldsOf(e, graphState.fold);
  const boxes = new Map(), boxOf = new Array(keys.length);
  keys.forEach((key, n) => {
    const constant = isLeafNode(e, n) && text(e.nodes.op[n]) !== 'input';
    if (constant) return;  // numbers say little and are many
    const id = key === null || graphState.open.has(key) ? `n${n}` : key;
    if (!boxes.has(id)) boxes.set(id, { id, key, nodes: [] });
    boxes.get(id).nodes.push(n);
    boxOf[n] = id;
  });
  const edges = new Map();
  e.nodes.inputs.forEach((from, n) => {
    for (const m of from) if (boxOf[m] && boxOf[n] && boxOf[m] !== boxOf[n]) edges.set(`${boxOf[m]}>${boxOf[n]}`, [boxOf[m], boxOf[n]]);
  });
  for (const box of boxes.values()) {
    const n = box.nodes[0], group = !box.id.startsWith('n') || box.nodes.length > 1;
    const stepsHere = [...new Set(box.nodes.map((m) => e.stepOf.get(m)).filter((s) => s && s.count))];
    box.us = d3.sum(stepsHere, (s) => meanOf(s) * box.nodes.filter((m) => s.nodes.includes(m)).length / s.nodes.length);
    box.group = group && box.nodes.length > 1;
    const line = e.nodes.line[n];
    box.title = !box.group ? `${text(e.nodes.op[n])} ${text(e.nodes.type[n])}` : graphState.fold === 'kernel' ? e.stepList[+box.id.slice(1)].name : graphState.fold === 'line' ? shorten(text(line)) : box.id.slice(box.id.indexOf(':') + 1);
    const moved = [d3.sum(stepsHere, (s) => s.bytes), d3.sum(stepsHere, deviceMeanOf)];
    box.traffic = stepsHere.length ? traffic(...moved) : '';
    box.small = [box.group ? `${box.nodes.length} operations` : shorten(text(line)), box.us || box.group ? time(box.us) : '',
      share(...moved) && `${share(...moved)} of copying`].filter((x) => x).join(', ');
    box.hay = box.nodes.map((m) => `${text(e.nodes.op[m])} ${text(e.nodes.type[m])} ${text(e.nodes.line[m])} ${scopeOf(e.nodes.line[m])}`).join(' ').toLowerCase();
  }
  return { boxes: [...boxes.values()], edges: [...edges.values()] };
}

function graphView(view) {
  const usable = data.traces.map((t, i) => ({ t, i, parts: t.executables.filter((x) => executables.has(x)) })).filter((x) => x.parts.length);
  if (!usable.length) { view.append('No trace ran while this was recorded.'); return; }
  // Those that were planned whole tell most.
  if (!usable.some((x) => x.i === graphState.trace)) graphState.trace = usable[d3.scan(usable, (a, b) => (b.t.run_us * (b.parts.length === 1 ? 4 : 1)) - (a.t.run_us * (a.parts.length === 1 ? 4 : 1)))].i;
  const chosen = usable.find((x) => x.i === graphState.trace);
  graphState.part = Math.min(graphState.part, chosen.parts.length - 1);
  const trace = h('select', { 'aria-label': 'Trace', onchange: () => { graphState.trace = +trace.value; graphState.part = 0; graphState.open.clear(); openTab('graph'); } },
    ...usable.map((x) => h('option', { value: x.i, selected: x.i === graphState.trace }, `trace ${x.i}: ${x.t.ops} operations, ${time(x.t.run_us)}`)));
  const part = h('select', { 'aria-label': 'Part', onchange: () => { graphState.part = +part.value; graphState.open.clear(); openTab('graph'); } },
    ...chosen.parts.map((_, i) => h('option', { value: i, selected: i === graphState.part }, `part ${i}`)));
  const fold = h('select', { 'aria-label': 'Fold by', onchange: () => { graphState.fold = fold.value; graphState.open.clear(); draw(true); } },
    ...[['module', 'fold by module'], ['line', 'fold by line'], ['kernel', 'fold by kernel'], ['none', 'every operation']].map(([v, n]) => h('option', { value: v, selected: v === graphState.fold }, n)));
  const find = h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search the graph', 'data-search': '', oninput: () => mark(), onkeydown: (k) => { if (k.key === 'Enter') goToFound(); } });
  const count = h('span', { class: 'faint' });
  view.append(h('div', { class: 'row' }, trace, chosen.parts.length > 1 ? part : null, fold, find,
    h('button', { class: 'plain', onclick: () => fitAll() }, 'Fit'), h('button', { class: 'plain', onclick: () => { graphState.open.clear(); draw(true); } }, 'Fold all'), count,
    h('span', { class: 'faint' }, 'Click opens details, double click (or o) unfolds.')));
  const holder = h('div', { class: 'fill' });
  view.append(holder);
  const svg = d3.select(holder).append('svg').attr('class', 'graph').attr('tabindex', 0).attr('role', 'group').attr('aria-label', 'Graph: arrows move, plus and minus zoom, Tab goes from box to box');
  const all = svg.append('g');
  const zoom = d3.zoom().scaleExtent([0.02, 4]).on('zoom', () => all.attr('transform', d3.event.transform));
  svg.call(zoom).on('dblclick.zoom', null);
  const e = executables.get(chosen.parts[graphState.part]);
  let boxes = [], found = [], at = 0;

  function open(box) {
    const was = detail.hidden;
    show(box);
    if (was) center(box);  // the graph has less room now
  }
  function show(box) {
    all.selectAll('.node').classed('chosen', (b) => b === box);
    if (!box.group) { showNode(e, box.nodes[0]); return; }
    const own = [...new Set(box.nodes.map((n) => e.stepOf.get(n)).filter((s) => s && s.count))].sort((a, b) => b.total - a.total);
    if (graphState.fold === 'kernel' && own.length) { showStep(own[0]); return; }
    openDetail(box.title, h('p', {}, box.small), h('p', {}, box.traffic), h('p', {}, h('button', { class: 'plain', onclick: () => unfold(box) }, 'Unfold')),
      h('h3', {}, 'Lines'), ...[...new Set(box.nodes.map((n) => e.nodes.line[n]))].slice(0, 30).map(lineWithSource),
      h('h3', {}, 'Kernels and calls'), table([['name', 'code'], ['operations', 'n'], ['mean', 'n']], own.slice(0, 80).map((s) => ({ item: s, cells: [s.name, String(s.nodes.length), time(meanOf(s))] })), showStep));
  }
  function unfold(box) { graphState.open.add(box.key); draw(false); }
  function mark() {
    const words = find.value.toLowerCase();
    found = words ? boxes.filter((b) => b.hay.includes(words)) : [];
    all.selectAll('.node').classed('found', (b) => found.includes(b));
    count.textContent = words ? `${found.length} of ${boxes.length} boxes` : `${boxes.length} boxes`;
    at = 0;
  }
  function goToFound() { if (found.length) center(found[at++ % found.length]); }
  function center(box) {
    const { width, height } = holder.getBoundingClientRect();
    svg.call(zoom.transform, d3.zoomIdentity.translate(width / 2, height / 2).scale(Math.max(0.7, d3.zoomTransform(svg.node()).k)).translate(-box.x, -box.y));
  }
  function fitAll() {
    const { width, height } = holder.getBoundingClientRect(), b = all.node().getBBox();
    // A long graph is shown from its top, at a size that can be read.
    const k = Math.min(1.2, Math.max(Math.min(width / (b.width + 40), height / (b.height + 40)), Math.min(0.7, width / (b.width + 40))));
    const y = b.height * k + 40 > height ? 20 - b.y * k : height / 2 - (b.y + b.height / 2) * k;
    svg.call(zoom.transform, d3.zoomIdentity.translate(width / 2 - (b.x + b.width / 2) * k, y).scale(k));
  }
  function draw(fit) {
    const made = boxesOf(e);
    boxes = made.boxes;
    all.selectAll('*').remove();
    if (boxes.length > TOO_MANY) {
      all.append('text').attr('x', 20).attr('y', 30).text(`${boxes.length} boxes are too many to draw: fold them.`);
      svg.call(zoom.transform, d3.zoomIdentity);
      count.textContent = '';
      return;
    }
    const nodes = boxes.map((b) => ({ v: b.id, width: Math.min(260, Math.max(90, 7 * Math.max(b.title.length, b.small.length) + 14)), height: 36, box: b }));
    const edges = made.edges.map(([v, w]) => ({ v, w, minlen: 1, weight: 1, width: 0, height: 0, labeloffset: 10, labelpos: 'r' }));
    dagre.layout(nodes, edges, { nodesep: 16, ranksep: 26, rankdir: 'TB' }, {});
    for (const n of nodes) Object.assign(n.box, { x: n.x, y: n.y, width: n.width });
    const path = d3.line().x((p) => p.x).y((p) => p.y).curve(d3.curveBasis);
    all.selectAll('.edge').data(edges.filter((edge) => edge.points)).enter().append('path').attr('class', 'edge').attr('d', (edge) => path(edge.points));
    const g = all.selectAll('.node').data(boxes).enter().append('g').attr('class', (b) => `node${b.group ? ' group' : ''}`)
      .attr('transform', (b) => `translate(${b.x},${b.y})`).attr('tabindex', 0).attr('role', 'button').attr('aria-label', (b) => `${b.title}, ${b.small}`);
    g.append('rect').attr('x', (b) => -b.width / 2).attr('y', -18).attr('width', (b) => b.width).attr('height', 36).attr('rx', 5);
    const most = d3.max(boxes, (b) => b.us) || 1;
    g.append('rect').attr('x', (b) => -b.width / 2).attr('y', 14).attr('width', (b) => b.width * b.us / most).attr('height', 4).style('fill', 'var(--running)').style('stroke', 'none');
    const cut = (words, b) => words.length * 6.6 > b.width ? `${words.slice(0, Math.floor(b.width / 6.6) - 1)}…` : words;
    g.append('text').attr('text-anchor', 'middle').attr('y', -4).text((b) => cut(b.title, b));
    g.append('text').attr('class', 'small').attr('text-anchor', 'middle').attr('y', 9).text((b) => cut(b.small, b));
    g.append('title').text((b) => [b.title, b.small, b.traffic].filter((x) => x).join('\n'));
    g.on('click', (b) => open(b)).on('dblclick', (b) => b.group && unfold(b)).on('keydown', (b) => {
      if (d3.event.key === 'Enter') open(b);
      if (d3.event.key === 'o' && b.group) unfold(b);
    }).on('focus', (b) => { if (d3.event.target.matches(':focus-visible')) center(b); });
    mark();
    if (fit) fitAll();
  }
  svg.on('keydown', () => {
    const moves = { ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0] }, k = d3.zoomTransform(svg.node()).k;
    if (moves[d3.event.key]) svg.call(zoom.translateBy, ...moves[d3.event.key].map((m) => m / k));
    else if (d3.event.key === '+' || d3.event.key === '=') svg.call(zoom.scaleBy, 1.4);
    else if (d3.event.key === '-') svg.call(zoom.scaleBy, 1 / 1.4);
    else if (d3.event.key === '0') fitAll();
    else return;
    d3.event.preventDefault();
  });
  draw(true);
}
