// The page's frame: summary, advice, tabs, keys.
const TABS = [['lines', 'Lines', linesView], ['timeline', 'Timeline', timelineView], ['kernels', 'Kernels and calls', kernelsView],
  ['graph', 'Graph', graphView], ['traces', 'Traces', tracesView], ['events', 'Syncs and events', eventsView], ['memory', 'Memory', memoryView]];
const view = document.getElementById('view'), tabs = document.getElementById('tabs');
let opened = null;

function openTab(name) {
  opened = name;
  view.replaceChildren();
  view.dataset.view = name;
  for (const b of tabs.children) {
    b.setAttribute('aria-selected', b.dataset.tab === name);
    b.tabIndex = b.dataset.tab === name ? 0 : -1;
  }
  TABS.find(([n]) => n === name)[2](view);
}

TABS.forEach(([name, title], i) => tabs.append(h('button', {
  role: 'tab', 'data-tab': name, title: `Key ${i + 1}`, onclick: () => { closeDetail(); openTab(name); },
  onkeydown: (e) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by) return;
    const next = TABS[(i + by + TABS.length) % TABS.length][0];
    openTab(next);
    tabs.querySelector(`[data-tab=${next}]`).focus();
  },
}, title)));

document.addEventListener('keydown', (e) => {
  if (e.target.matches('input, select, textarea') || e.ctrlKey || e.altKey || e.metaKey) {
    if (e.key === 'Escape') e.target.blur();
    return;
  }
  if (e.key === 'Escape') closeDetail();
  else if (e.key === '/') { const search = view.querySelector('[data-search]'); if (search) { e.preventDefault(); search.focus(); } }
  else if (TABS[+e.key - 1] && !e.target.closest('canvas')) { closeDetail(); openTab(TABS[+e.key - 1][0]); }
});

document.getElementById('program').textContent = data.program;
const other = Math.max(0, data.seconds * 1e6 - d3.sum(totals));
document.getElementById('summary').append(
  `${time(data.seconds * 1e6)} on ${data.device}: ${ACCOUNTS.map((a, i) => [a, totals[i]]).filter(([, t]) => t > 0).map(([a, t]) => `${a} ${time(t)}`).join(', ')}, Python and everything else ${time(other)}. ` +
  `${d3.sum(data.traces, (t) => t.runs)} runs of ${data.traces.length} traces, torch ${data.torch}.`);
const advice = document.getElementById('advice');
for (const a of data.advice) advice.append(h('li', {}, lineLink(a.line), `: ${a.text} (${a.count} times)`));
if (!data.advice.length) document.getElementById('summary').append(' Nothing to advise.');
openTab('lines');
let waiting = 0;
addEventListener('resize', () => { clearTimeout(waiting); waiting = setTimeout(() => opened === 'timeline' && timelineView.redraw(), 100); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => openTab(opened));
document.documentElement.dataset.ready = 'yes';
