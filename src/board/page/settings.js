// Settings of the chosen runs: what differs, all of them, and how they go with the result.
'use strict';
T.showSettings = async (view) => {
  const runs = T.chosenRuns(), all = (await T.ask('settings', {runs: T.runList()})) || {};
  const with_ = runs.filter((r) => all[r.id]), keys = [...new Set(with_.flatMap((r) => Object.keys(all[r.id])))].sort();
  const differ = keys.filter((k) => new Set(with_.map((r) => all[r.id][k])).size > 1);
  if (T.viewNow !== view.dataset.view) return;
  if (!with_.length) { view.replaceChildren(T.el('p', {class: 'empty'}, 'The chosen runs have no settings (params.yaml).')); return; }
  const box = T.el('input', {type: 'search', placeholder: 'filter settings  f', id: 'filter', 'aria-label': 'filter settings', value: T.settingsFilter || ''});
  const every = T.el('input', {type: 'checkbox', id: 'every', checked: T.settingsEvery ?? with_.length < 2});
  const table = T.el('div', {class: 'scroll'});
  const fill = () => {
    T.settingsFilter = box.value;
    T.settingsEvery = every.checked;
    const shown = (every.checked ? keys : differ).filter((k) => k.toLowerCase().includes(box.value.toLowerCase()));
    const head = T.el('tr', {}, T.el('th', {}, 'setting'), ...with_.map((r) => T.el('th', {}, T.el('span', {class: 'swatch', style: `border-color:${T.colour(r.id)}`}), r.name)));
    const rows = shown.map((k) => T.el('tr', {class: with_.length > 1 && differ.includes(k) && every.checked ? 'differs' : ''}, T.el('td', {class: 'long'}, k), ...with_.map((r) => T.el('td', {class: 'long'}, all[r.id][k] ?? '–'))));
    table.replaceChildren(T.el('table', {class: 'plain', id: 'settings-table'}, T.el('thead', {}, head), T.el('tbody', {}, ...rows)), shown.length ? '' : T.el('p', {class: 'empty'}, differ.length || every.checked ? 'No setting is found.' : 'These runs have the same settings.'));
  };
  box.addEventListener('input', fill);
  every.addEventListener('change', fill);
  fill();
  const cards = [T.el('section', {class: 'card'}, T.el('div', {class: 'bar'}, box, T.el('label', {}, every, `all ${keys.length} settings`), T.el('span', {class: 'dim'}, with_.length > 1 ? `${differ.length} differ` : '')), table)];
  const axes = T.parallelAxes(with_, all, differ);
  if (with_.length > 1 && axes.length > 1) cards.unshift(T.el('section', {class: 'card', style: 'margin-bottom:12px'}, T.el('div', {class: 'head'}, T.el('h2', {}, 'settings that differ, and the result')), T.parallel(with_, axes)));
  view.replaceChildren(...cards);
};

// --- parallel coordinates --------------------------------------------------------------------------

// An axis: its title and the value of each run; texts are placed in order.
T.parallelAxes = (runs, all, differ) => {
  // Those that nearly all runs have, numbers first: others would be lines without points.
  const told = (k) => runs.map((r) => all[r.id][k]).filter((v) => v !== undefined);
  const good = differ.filter((k) => new Set(told(k)).size > 1 && told(k).length >= runs.length / 2);
  const rank = (k) => (told(k).every((v) => Number.isFinite(Number(v))) ? 0 : 1) + (told(k).length < runs.length ? 2 : 0);
  const axes = good.sort((a, b) => rank(a) - rank(b)).slice(0, 7).map((k) => ({title: k, short: k.split('.').slice(-1)[0], values: runs.map((r) => all[r.id][k])}));
  const best = runs.filter((r) => r.best).map((r) => r.best.tag), tag = best[0];
  if (tag) axes.push({title: 'best ' + tag, short: 'best ' + tag, values: runs.map((r) => r.best && r.best.tag === tag ? String(r.best.value) : undefined)});
  for (const a of axes) {
    const numbers = a.values.filter((v) => v !== undefined).map(Number);
    a.numeric = numbers.every(Number.isFinite);
    if (a.numeric) {
      const low = Math.min(...numbers), high = Math.max(...numbers), log = low > 0 && high / low > 30;
      const f = log ? Math.log : (v) => v;
      a.place = (v) => (f(Number(v)) - f(low)) / (f(high) - f(low) || 1);
      a.marks = [[low, 0], [high, 1]].map(([v, p]) => [T.number(v), p]);
    } else {
      const names = [...new Set(a.values.filter((v) => v !== undefined))].sort();
      a.place = (v) => names.length < 2 ? 0.5 : names.indexOf(v) / (names.length - 1);
      a.marks = names.slice(0, 12).map((v) => [v.slice(0, 18), a.place(v)]);
    }
  }
  return axes;
};

T.parallel = (runs, axes) => {
  const width = Math.max(560, axes.length * 150), height = 264, top = 34, bottom = height - 18;
  const svg = T.svg('svg', {viewBox: `0 0 ${width} ${height}`, width: '100%', style: `min-width:${axes.length * 90}px`, role: 'img', 'aria-label': 'parallel coordinates of settings and the best metric', id: 'parallel'});
  const x = (i) => 60 + i * (width - 140) / (axes.length - 1), y = (p) => bottom - p * (bottom - top);
  const text = (t, px, py, anchor, size) => { const e = T.svg('text', {x: px, y: py, 'text-anchor': anchor, 'font-size': size, fill: T.css('--text'), stroke: T.css('--card'), 'stroke-width': '3', 'paint-order': 'stroke'}); e.textContent = t; svg.append(e); return e; };
  axes.forEach((a, i) => {
    svg.append(T.svg('line', {x1: x(i), x2: x(i), y1: top, y2: bottom, stroke: T.css('--line'), 'stroke-width': '2'}));
    text(a.short.slice(0, 24), x(i), 14, i === 0 ? 'start' : 'middle', 11).append(T.svg('title', {}, a.title));
  });
  runs.forEach((r, k) => {
    const points = axes.map((a, i) => a.values[k] === undefined ? null : `${x(i).toFixed(1)},${y(a.place(a.values[k])).toFixed(1)}`).filter(Boolean);
    const line = T.svg('polyline', {points: points.join(' '), fill: 'none', stroke: T.colour(r.id), 'stroke-width': '2.2', opacity: '0.85'}, T.svg('title', {}, r.name));
    svg.append(line);
  });
  // The ends stand above and below their axis, where no line comes.
  axes.forEach((a, i) => {
    for (const [t, p] of a.marks) {
      if (p === 0 || p === 1) text(t, x(i), p ? top - 4 : bottom + 12, 'middle', 10);
      else text(t, x(i) + 6, y(p) + 4, 'start', 10);
    }
  });
  return T.el('div', {class: 'scroll'}, svg);
};
