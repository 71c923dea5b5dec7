// The runs: the list at the side, and the table with all that is said of them.
'use strict';
T.spark = (best, colour) => {
  const svg = T.svg('svg', {class: 'spark', viewBox: '0 0 74 28', 'aria-hidden': 'true'});
  const values = best ? best.spark.filter((v) => typeof v === 'number') : [];
  if (values.length < 2) return svg;
  const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
  const points = values.map((v, i) => `${(2 + i * 70 / (values.length - 1)).toFixed(1)},${(25 - (v - low) / span * 22).toFixed(1)}`);
  svg.append(T.svg('polyline', {points: points.join(' '), fill: 'none', stroke: colour, 'stroke-width': '1.5', 'stroke-linejoin': 'round'}));
  return svg;
};

T.since = (r) => {
  const now = T.report || !T.news ? r.now : T.news.now;
  if (r.state === 'running') return r.began ? 'for ' + T.duration(now - r.began) : '';
  return r.now ? T.duration(Math.max(0, now - r.now)) + ' ago' : '';
};

T.eta = (r) => r.state === 'running' && r.speed && r.steps > r.step ? (r.steps - r.step) / r.speed : null;

T.orders = {
  recent: (a, b) => (b.now || 0) - (a.now || 0),
  name: (a, b) => a.name.localeCompare(b.name, undefined, {numeric: true}),
  state: (a, b) => a.state.localeCompare(b.state) || (b.now || 0) - (a.now || 0),
  best: (a, b) => {
    if (!a.best || !b.best) return (b.best ? 1 : 0) - (a.best ? 1 : 0);
    if (a.best.tag !== b.best.tag) return a.best.tag.localeCompare(b.best.tag);
    return a.best.lower ? a.best.value - b.best.value : b.best.value - a.best.value;
  },
};

T.found = () => {
  const words = T.look.search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (r) => `${r.name} ${r.state} ${r.experiment || ''}`.toLowerCase();
  return [...T.runs.values()].filter((r) => words.every((w) => text(r).includes(w))).sort((a, b) => T.orders[T.look.sort](a, b) || a.id - b.id);
};

T.bestText = (r) => r.best ? `${r.best.tag} ${T.number(r.best.value)}` : 'no numbers yet';

T.showSide = () => {
  const list = document.getElementById('runs'), found = T.found(), focus = document.activeElement && document.activeElement.dataset.run;
  list.replaceChildren(...found.slice(0, 500).map((r) => {
    const box = T.el('input', {type: 'checkbox', 'data-run': String(r.id), checked: T.chosen.has(r.id), style: `accent-color:${T.colour(r.id)}`, onchange: () => {
      const ids = new Set(T.chosen);
      if (!ids.delete(r.id)) ids.add(r.id);
      T.choose(ids);
    }});
    return T.el('li', {title: r.name, 'data-name': r.name}, T.el('label', {}, box, T.el('span', {class: 'name'}, r.name), T.spark(r.best, T.colour(r.id)),
      T.el('span', {class: 'value'}, T.bestText(r), ' ', T.el('span', {class: 'state ' + r.state}, r.state))));
  }));
  if (focus) list.querySelector(`[data-run="${focus}"]`)?.focus();
  document.getElementById('count').textContent = `${T.chosen.size} of ${T.runs.size} shown` + (found.length < T.runs.size ? `, ${found.length} found` : '');
};

// --- the table ------------------------------------------------------------------------------------

T.showRuns = (view) => {
  const columns = [
    ['run', 'name', (r) => T.el('a', {href: '#', onclick: (e) => { e.preventDefault(); T.choose([r.id]); T.go('run'); }}, r.name)],
    ['state', 'state', (r) => T.el('span', {class: 'state ' + r.state, title: r.message || r.reason || ''}, r.state)],
    ['since', 'recent', (r) => T.since(r)],
    ['best', 'best', (r) => r.best ? `${T.number(r.best.value)}` : '', 'right'],
    ['metric', null, (r) => r.best ? r.best.tag : ''],
    ['at step', null, (r) => r.best ? String(r.best.step) : '', 'right'],
    ['last', null, (r) => r.best ? T.number(r.best.last) : '', 'right'],
    ['step', null, (r) => r.steps ? `${r.step} / ${r.steps}` : String(r.step), 'right'],
    ['examples/s', null, (r) => r.speed && r.batch ? T.number(r.speed * r.batch) : r.speed ? T.number(r.speed) + ' steps/s' : '', 'right'],
    ['left', null, (r) => T.eta(r) === null ? '' : T.duration(T.eta(r)), 'right'],
    ['curve', null, (r) => { const s = T.spark(r.best, T.colour(r.id)); s.setAttribute('width', '74'); s.setAttribute('height', '28'); return s; }],
  ];
  const head = T.el('tr', {}, ...columns.map(([title, order, , align]) => T.el('th', {class: align}, order ? T.el('button', {onclick: () => { T.look.sort = order; document.getElementById('sort').value = order; T.writeAddress(); T.show(); }}, title + (T.look.sort === order ? ' ▾' : '')) : title)));
  const rows = T.found().map((r) => T.el('tr', {'data-run': String(r.id)}, ...columns.map(([, , cell, align]) => T.el('td', {class: align}, cell(r)))));
  view.replaceChildren(T.el('section', {class: 'card'}, T.el('div', {class: 'scroll'}, T.el('table', {class: 'plain', id: 'run-table'}, T.el('thead', {}, head), T.el('tbody', {}, ...rows)))),
    rows.length ? '' : T.el('p', {class: 'empty'}, T.runs.size ? 'No run is found.' : 'There are no runs in these folders yet.'));
};
