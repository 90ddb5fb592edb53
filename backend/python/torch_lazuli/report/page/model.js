// The data, and what is asked of it in more than one view.
const packed = document.getElementById('data').textContent.trim();
const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
const data = JSON.parse(await new Response(unpacked).text());

const ACCOUNTS = ['recording', 'autograd', 'planning', 'compiling', 'running', 'waiting'];
const text = (number) => data.texts[number] ?? '';
const executables = new Map(data.executables.map((e) => [e.id, e]));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const time = (us) => us >= 1e6 ? `${(us / 1e6).toFixed(2)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(2)} ms` : `${us.toFixed(us < 10 ? 1 : 0)} µs`;
const size = (n) => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < 4) { n /= 1024; ++i; }
  return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
};
// "model.py:12" of a line with its folder.
const shorten = (line) => line.slice(line.lastIndexOf('/') + 1) || 'no known line';
const place = (line) => { const at = line.lastIndexOf(':'); return { file: line.slice(0, at), number: +line.slice(at + 1) }; };
const sourceOf = (line) => {
  const { file, number } = place(line);
  const source = data.sources[file];
  return source ? (source.lines ??= source.text.split('\n'))[number - source.first] ?? '' : '';
};
const scopeOf = (number) => data.scopes[number] ?? '';

const totals = new Array(ACCOUNTS.length).fill(0);
const lineRows = new Map();  // by line's number
for (const [line, ops, ...times] of data.lines) {
  times.forEach((t, i) => totals[i] += t);
  lineRows.set(line, { line, ops, times, total: d3.sum(times) });
}

// Each step of each executable that ran, as one object.
const steps = [];
for (const e of data.executables) {
  e.stepList = e.steps.kind.map((kind, i) => ({
    executable: e, index: i, kind: data.step_kinds[kind], name: text(e.steps.name[i]), bytes: e.steps.bytes[i],
    nest: e.steps.nest[i], node: e.steps.node[i], nodes: e.steps.nodes[i],
    count: e.count[i], total: e.total[i], least: e.least[i], most: e.most[i],
    onDevice: e.device_count ? { count: e.device_count[i], total: e.device_total[i] } : null,
  }));
  e.stepOf = new Map();  // by node
  for (const s of e.stepList) for (const n of s.nodes) if (!e.stepOf.has(n) || s.count) e.stepOf.set(n, s);
  steps.push(...e.stepList.filter((s) => s.count));
}
const linesOf = (step) => [...new Set(step.nodes.map((n) => step.executable.nodes.line[n]))];
const opsOf = (step) => step.nodes.map((n) => text(step.executable.nodes.op[n]));
const meanOf = (step) => step.count ? step.total / step.count : 0;
// How long a launch takes where it computes: with a GPU the host only enqueues it, and only some launches are measured.
const deviceMeanOf = (step) => !step.onDevice ? meanOf(step) : step.onDevice.count ? step.onDevice.total / step.onDevice.count : 0;
const bandwidth = (bytes, us) => us > 0 && bytes ? `${size(bytes / us * 1e6)}/s` : '';
const share = (bytes, us) => data.bandwidth && us > 0 && bytes ? `${(100 * bytes / us * 1e6 / data.bandwidth).toFixed(0)} %` : '';
// "2.0 MiB read and written, 5.1 GiB/s, 40 % of what copying reaches"
const traffic = (bytes, us) => [`${size(bytes)} read and written`, bandwidth(bytes, us), share(bytes, us) && `${share(bytes, us)} of what copying reaches`].filter((x) => x).join(', ');
const colorOf = (step) => css(step.kind === 'library' ? 'library' : step.kind === 'external' || step.kind === 'eager' ? 'external' : step.kind === 'alone' ? 'waiting' : 'running');

// Elements: h('td', {class: 'n'}, 'text', child...).
function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'style') element.style.cssText = value;
    else if (value !== false && value != null) element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.filter((c) => c != null));
  return element;
}
// Does what a click does on Enter and Space too.
const pressed = (what) => ({
  tabindex: 0, onclick: what,
  onkeydown: (e) => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); what(e); } },
});
function table(columns, rows, onRow) {
  return h('table', {}, h('thead', {}, h('tr', {}, ...columns.map(([name, kind]) => h('th', { class: kind === 'n' ? 'n' : '' }, name)))),
    h('tbody', {}, ...rows.map(({ cells, item }) => h('tr', onRow ? pressed(() => onRow(item)) : {},
      ...cells.map((cell, i) => h('td', { class: columns[i][1] ?? '' }, cell ?? ''))))));
}
const tip = document.getElementById('tip');
function showTip(event, words) {
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
}
