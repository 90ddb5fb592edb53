// The views that are tables: lines, kernels, traces, memory.
const legend = (names) => h('div', { class: 'legend' }, ...names.map((n) => h('span', {}, h('i', { style: `background:var(--${n})` }), n)));

function stackedBar(times, most) {
  return h('div', { class: 'bar', style: `width:${Math.max(0.5, 100 * d3.sum(times) / most)}%` },
    ...times.map((t, i) => t > 0 ? h('i', { style: `flex:${t} 0 0;background:var(--${ACCOUNTS[i]})`, title: `${ACCOUNTS[i]} ${time(t)}` }) : null));
}

const kindName = (kind) => ({ alone: 'op by op', eager: 'PyTorch' })[kind] ?? kind;

let chosenFile = null;
function linesView(view) {
  const byFile = d3.nest().key((r) => place(text(r.line)).file).entries([...lineRows.values()].filter((r) => text(r.line)))
    .map((f) => ({ file: f.key, total: d3.sum(f.values, (r) => r.total), rows: f.values })).sort((a, b) => b.total - a.total);
  const unknown = lineRows.get(0)?.total ?? 0;
  chosenFile ??= byFile[0]?.file;
  const select = h('select', { 'aria-label': 'File', onchange: () => { chosenFile = select.value; show(); } },
    ...byFile.map((f) => h('option', { value: f.file, selected: f.file === chosenFile }, `${shorten(f.file)} (${time(f.total)})`)));
  const holder = h('div', { class: 'source fill' });
  view.append(h('div', { class: 'row' }, select, legend(ACCOUNTS), h('span', { class: 'faint' }, unknown > 0 ? `${time(unknown)} without a known line` : '')), holder);
  function show() {
    const file = byFile.find((f) => f.file === chosenFile);
    if (!file) { holder.replaceChildren('No line was recorded.'); return; }
    const byNumber = new Map(file.rows.map((r) => [place(text(r.line)).number, r]));
    const most = d3.max(file.rows, (r) => r.total) || 1;
    const advised = new Set(data.advice.map((a) => a.line));
    const source = data.sources[chosenFile];
    const all = source ? source.lines ??= source.text.split('\n') : [];
    const numbers = all.length ? d3.range(source.first, source.first + all.length) : [...byNumber.keys()].sort((a, b) => a - b);
    const body = h('tbody');
    for (const number of numbers) {
      const row = byNumber.get(number);
      body.append(h('tr', row ? { class: `hot${advised.has(row.line) ? ' advised' : ''}`, 'data-line': row.line, ...pressed(() => { choose(row.line); showLineDetail(row.line); }) } : {},
        h('td', { class: 'time faint' }, row ? time(row.total) : ''), h('td', { class: 'bars' }, row ? stackedBar(row.times, most) : ''),
        h('td', { class: 'number code' }, String(number)), h('td', { class: 'code' }, all[number - (source?.first ?? 0)] ?? '')));
    }
    holder.replaceChildren(h('table', {}, body));
    const hottest = d3.scan(file.rows, (a, b) => b.total - a.total);
    holder.querySelector(`[data-line="${file.rows[hottest].line}"]`)?.scrollIntoView({ block: 'center' });
  }
  const choose = (line) => {
    holder.querySelectorAll('.chosen').forEach((r) => r.classList.remove('chosen'));
    const row = holder.querySelector(`[data-line="${line}"]`);
    row?.classList.add('chosen');
    row?.scrollIntoView({ block: 'center' });
  };
  linesView.choose = choose;
  show();
}
function showLine(number) {
  const { file } = place(text(number));
  chosenFile = file || chosenFile;
  openTab('lines');
  linesView.choose(number);
  showLineDetail(number);
}

function kernelsView(view) {
  const find = h('input', { type: 'search', placeholder: 'Search operations and lines', 'aria-label': 'Search', 'data-search': '', oninput: () => show() });
  const kind = h('select', { 'aria-label': 'Kind', onchange: () => show() }, ...['all', 'kernel', 'library', 'external', 'eager', 'alone'].map((k) => h('option', { value: k }, kindName(k))));
  const holder = h('div');
  const ordered = [...steps].sort((a, b) => b.total - a.total);
  view.append(h('div', { class: 'row' }, find, kind, h('span', { class: 'faint' }, 'Each row is one launch of a plan: what is in it was fused.')), holder);
  function show() {
    const words = find.value.toLowerCase();
    const rows = ordered.filter((s) => (kind.value === 'all' || s.kind === kind.value) &&
      (!words || s.name.toLowerCase().includes(words) || opsOf(s).some((o) => o.includes(words)) || linesOf(s).some((l) => text(l).toLowerCase().includes(words))));
    const all = d3.sum(rows, (s) => s.total) || 1;
    holder.replaceChildren(table([['kind'], ['operations', 'code'], ['lines', 'code'], ['runs', 'n'], ['time', 'n'], ['share', 'n'], ...(data.device === 'cpu' ? [] : [['on the GPU', 'n']]), ['bytes', 'n'], ['bandwidth', 'n'], ['of copying', 'n']],
      rows.slice(0, 400).map((s) => ({
        item: s, cells: [h('span', {}, h('i', { class: 'dot', style: `background:${colorOf(s)}` }), kindName(s.kind)), s.nodes.length > 1 ? `${s.name} (${s.nodes.length})` : s.name,
          linesOf(s).slice(0, 3).map((l) => shorten(text(l))).join(', '), String(s.count), time(s.total), `${(100 * s.total / all).toFixed(1)} %`, ...(s.onDevice ? [s.onDevice.count ? time(deviceMeanOf(s)) : ''] : []), size(s.bytes),
          bandwidth(s.bytes, deviceMeanOf(s)), share(s.bytes, deviceMeanOf(s))],
      })), showStep));
  }
  show();
}

function eventsView(view) {
  const rows = (list) => list.map((e) => ({ item: e, cells: [e.what, shorten(text(e.line)), sourceOf(text(e.line)).trim(), String(e.count), time(e.us)] }));
  const columns = (what) => [[what], ['line', 'code'], ['source', 'code'], ['count', 'n'], ['time', 'n']];
  const open = (e) => showLine(e.line);
  view.append(h('h2', {}, 'Where traces end'), data.syncs.length ? table(columns('reason'), rows(data.syncs), open) : 'None.',
    h('h2', {}, 'External calls'), data.externals.length ? table(columns('operator'), rows(data.externals), open) : 'None: no operation needed PyTorch\'s own kernel.',
    h('h2', {}, 'Other'), data.others.length ? table([['kind'], ...columns('what')], data.others.map((e) => ({ item: e, cells: [e.kind, ...rows([e])[0].cells] })), open) : 'Nothing.');
}

const traceName = (i) => i < 0 ? 'an earlier trace' : `trace ${i}`;
function whyNew(trace) {
  const n = trace.new;
  if (!n) return 'known before the report began';
  if (n.kind === 'first') return 'no earlier trace begins like it';
  return { shape: `an input is ${n.now}, not ${n.before}`, number: `${n.what} is ${n.now}, not ${n.before}`, length: `${n.now}, not ${n.before}: a loop or a list`, operation: `${n.now}, not ${n.before}`, results: 'other results are still needed' }[n.kind];
}
function tracesView(view) {
  view.append(h('p', { class: 'faint' }, 'A trace is what was recorded between two syncs. The first entry that differs from the earlier trace most like it is why it was new.'),
    table([['trace'], ['ends at', 'code'], ['because of'], ['operations', 'n'], ['runs', 'n'], ['running', 'n'], ['made ready', 'n'], ['why it was new']],
      data.traces.map((t, i) => ({ item: i, cells: [traceName(i), shorten(text(t.line)), t.reason, String(t.ops), String(t.runs), time(t.run_us), time(t.compile_us), whyNew(t)] })), showTrace));
}
function showTrace(i) {
  const t = data.traces[i], n = t.new;
  const parts = t.executables.filter((e) => executables.has(e));
  openDetail(`Trace ${i}`, table([[''], ['']], [
    ['Ends at', lineWithSource(t.line)], ['Operations', String(t.ops)], ['Runs', `${t.runs}, ${time(t.run_us)} in all`],
    ['Made ready', `${t.compiles} times, ${time(t.compile_us)}: passes ${t.passes_ms.toFixed(1)} ms, plan ${t.lowering_ms.toFixed(1)} ms, code ${t.codegen_ms.toFixed(1)} ms`],
    ['Executables', parts.length === 1 ? 'one plan' : `${parts.length} parts, in the last run`],
  ].map((cells) => ({ cells }))),
  h('h3', {}, 'Why it was new'), h('p', {}, whyNew(t)),
  n && n.kind !== 'first' ? h('div', {}, h('p', {}, `Entry ${n.entry}, compared with ${traceName(n.trace)}.`), h('p', { class: 'faint' }, 'Now:'), lineWithSource(n.line), h('p', { class: 'faint' }, 'Then:'), lineWithSource(n.line_before)) : null,
  parts.length ? h('p', {}, h('button', { class: 'plain', onclick: () => { graphState.trace = i; graphState.part = 0; openTab('graph'); } }, 'Show its graph')) : null);
}

function memoryView(view) {
  const m = data.memory;
  const arena = d3.max(data.executables, (e) => e.arena) ?? 0;
  view.append(h('p', {}, `Most at the end of a run: ${size(m.peak)}${m.peak_trace >= 0 ? `, of trace ${m.peak_trace}` : ''}. Temporaries of a plan take up to ${size(arena)} more while it runs. Buffers that PyTorch's own kernels made are in the first table, but not in the curve.`));
  const svg = d3.select(view).append('svg').attr('class', 'graph').style('height', '220px').attr('role', 'img').attr('aria-label', 'Memory over time');
  const width = view.clientWidth - 40, height = 220;
  const x = d3.scaleLinear(), y = d3.scaleLinear();
  svg.attr('viewBox', `0 0 ${width + 10} ${height}`);
  x.domain([0, d3.max(m.at) || 1]).range([70, width]); y.domain([0, (d3.max(m.live) || 1) * 1.05]).range([height - 24, 8]);
  svg.append('path').attr('class', 'area').attr('d', d3.area().curve(d3.curveStepAfter).x((_, i) => x(m.at[i])).y0(y(0)).y1((v) => y(v))(m.live));
  svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - 24})`).call(d3.axisBottom(x).ticks(8).tickFormat(time));
  svg.append('g').attr('class', 'axis').attr('transform', 'translate(70,0)').call(d3.axisLeft(y).ticks(5).tickFormat(size));
  view.append(h('h2', {}, 'What holds the peak'), table([['bytes', 'n'], ['made at', 'code'], ['source', 'code']],
    m.holders.slice(0, 60).map(([line, bytes]) => ({ item: line, cells: [size(bytes), text(line) ? shorten(text(line)) : 'copied from the host, or before the report', sourceOf(text(line)).trim()] })), (line) => text(line) && showLine(line)));
  const largest = d3.scan(data.executables, (a, b) => b.arena - a.arena);
  const e = data.executables[largest];
  if (e?.fullest?.node.length) view.append(h('h2', {}, 'What a plan holds where its temporaries are fullest'),
    table([['bytes', 'n'], ['operation', 'code'], ['result', 'code'], ['line', 'code']], e.fullest.node.map((n, i) => ({ item: n, cells: [size(e.fullest.node_bytes[i]), n >= 0 ? text(e.nodes.op[n]) : 'scratch of a call', n >= 0 ? text(e.nodes.type[n]) : '', n >= 0 ? shorten(text(e.nodes.line[n])) : ''] })), (n) => n >= 0 && showNode(e, n)));
}
