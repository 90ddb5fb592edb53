// The panel at the right: a line, a step with its code, or a node.
const detail = document.getElementById('detail');

function openDetail(title, ...children) {
  const before = document.activeElement;
  detail.replaceChildren(
    h('button', { class: 'close plain', onclick: () => closeDetail(before), 'aria-label': 'Close details' }, 'Close'),
    h('h2', { tabindex: -1 }, title), ...children.filter((c) => c != null));
  detail.hidden = false;
  detail.scrollTop = 0;
}
function closeDetail(focus) {
  detail.hidden = true;
  focus?.focus?.();
}

const lineLink = (number, words) => h('a', { href: '#', class: 'code', onclick: (e) => { e.preventDefault(); showLine(number); } }, words ?? shorten(text(number)));
function lineWithSource(number) {
  return h('div', {}, lineLink(number), h('span', { class: 'faint' }, ` ${scopeOf(number)} `), h('code', {}, sourceOf(text(number)).trim()));
}

// The code of a loop nest: one button for each form.
function codeOf(nest) {
  const forms = [['nest', 'Loop nest'], ['ll', 'LLVM IR'], ['s', 'Assembly'], ['ptx', 'PTX']].filter(([key]) => nest[key]);
  const pre = h('pre', { tabindex: 0, id: 'code' });
  const buttons = forms.map(([key, name]) => h('button', { class: 'plain', 'data-form': key, onclick: () => show(key) }, name));
  const show = (key) => {
    pre.textContent = nest[key];
    // Constants come before an assembly's code.
    const begin = key === 's' ? nest[key].search(/^[A-Za-z_]\w*:/m) : 0;
    pre.scrollTop = begin > 0 ? pre.scrollHeight * nest[key].slice(0, begin).split('\n').length / nest[key].split('\n').length : 0;
    buttons.forEach((b) => b.setAttribute('aria-pressed', b.dataset.form === key));
  };
  show(forms[0][0]);
  return h('div', {}, h('div', { class: 'row', role: 'group', 'aria-label': 'Code' }, ...buttons), pre);
}

function showStep(step) {
  const e = step.executable;
  const facts = [
    ['Kind', { kernel: 'kernel of Lazuli', library: 'library call', external: 'external call: PyTorch\'s own kernel', eager: 'PyTorch\'s own kernel', joined: 'in the launch of the step before', alone: 'PyTorch\'s kernel, without a plan' }[step.kind]],
    ['Time', step.count ? `${time(step.total)} in ${step.count} runs, ${time(step.least)} to ${time(step.most)} each` : 'in the launch of a step before'],
    ...(step.onDevice ? [['Time on the GPU', step.onDevice.count ? `${time(deviceMeanOf(step))}, mean of ${step.onDevice.count} launches that were measured` : 'not measured']] : []),
    ['Memory', traffic(step.bytes, deviceMeanOf(step))],
  ];
  openDetail(step.name, table([['', ''], ['', '']], facts.map((cells) => ({ cells }))),
    h('h3', {}, `Python lines`), ...linesOf(step).map(lineWithSource),
    h('h3', {}, step.nodes.length > 1 ? `${step.nodes.length} operations, fused` : 'Operation'),
    table([['op', 'code'], ['result', 'code'], ['line', 'code']], step.nodes.map((n) => ({
      cells: [text(e.nodes.op[n]), text(e.nodes.type[n]), lineLink(e.nodes.line[n])], item: n,
    }))),
    step.nest >= 0 ? h('h3', {}, 'Code') : null, step.nest >= 0 ? codeOf(data.nests[step.nest]) : null);
}

function showNode(e, node) {
  const step = e.stepOf.get(node);
  if (step) {
    showStep(step);
    detail.querySelector('h2').textContent = `${text(e.nodes.op[node])} ${text(e.nodes.type[node])}`;
    detail.querySelector('h2').after(lineWithSource(e.nodes.line[node]));
    return;
  }
  openDetail(`${text(e.nodes.op[node])} ${text(e.nodes.type[node])}`, lineWithSource(e.nodes.line[node]),
    h('p', { class: 'faint' }, 'It needs no step of its own: an input, a number, or a view that other steps read through.'));
}

function showLineDetail(number) {
  const row = lineRows.get(number);
  const here = steps.filter((s) => linesOf(s).includes(number)).sort((a, b) => b.total - a.total);
  const events = [...data.syncs, ...data.externals, ...data.others].filter((e) => e.line === number);
  openDetail(shorten(text(number)), h('p', {}, h('span', { class: 'faint' }, scopeOf(number))), h('pre', {}, sourceOf(text(number)).trim()),
    ...data.advice.filter((a) => a.line === number).map((a) => h('p', {}, a.text)),
    row ? table([['time', ''], ['', 'n']], [...ACCOUNTS.map((a, i) => ({ cells: [a, time(row.times[i])] })), { cells: ['operations recorded', String(row.ops)] }]) : null,
    events.length ? h('h3', {}, 'What happened here') : null,
    events.length ? table([['kind'], ['what'], ['count', 'n'], ['time', 'n']], events.map((e) => ({ cells: [e.kind, e.what, String(e.count), time(e.us)] }))) : null,
    here.length ? h('h3', {}, 'Kernels and calls with operations of this line') : null,
    here.length ? table([['name', 'code'], ['operations', 'n'], ['time', 'n']], here.slice(0, 60).map((s) => ({ cells: [s.name, String(s.nodes.length), time(s.total)], item: s })), showStep) : null);
}
