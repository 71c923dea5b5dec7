// Views, keys and news: what holds the page together.
'use strict';
T.views = [
  ['curves', 'Curves', (v) => T.showCurves(v, false)],
  ['runs', 'Runs', (v) => T.showRuns(v)],
  ['run', 'Run', (v) => T.showRun(v)],
  ['settings', 'Settings', (v) => T.showSettings(v)],
  ['images', 'Images', (v) => T.showImages(v)],
  ['histograms', 'Histograms', (v) => T.showHistograms(v)],
  ['texts', 'Texts', (v) => T.showTexts(v)],
  ['system', 'System', (v) => T.showCurves(v, true)],
];

T.show = async () => {
  const found = T.views.find(([name]) => name === T.look.tab) || T.views[0], view = document.getElementById('view');
  T.viewNow = found[0];
  if (view.dataset.view !== found[0]) { view.replaceChildren(); T.cards.clear(); }
  view.dataset.view = found[0];
  for (const b of document.querySelectorAll('#tabs button')) b.setAttribute('aria-selected', String(b.dataset.tab === found[0]));
  T.showSide();
  try { await found[2](view); } catch (e) { view.replaceChildren(T.el('p', {class: 'empty'}, 'This cannot be shown: ' + e.message)); }
  document.body.dataset.shown = String(Number(document.body.dataset.shown || 0) + 1); // for tests: a view is whole
};

T.go = (tab) => {
  T.look.tab = tab;
  T.writeAddress();
  T.show();
};

T.showLive = () => {
  const live = document.getElementById('live'), n = T.news;
  if (T.report) live.textContent = 'report of ' + T.clock(T.report.made);
  else if (T.connected === false) live.textContent = 'not connected';
  else if (n && !n.settled) live.textContent = n.total ? `reading, ${Math.floor(100 * n.read / n.total)} %` : 'reading';
  else live.textContent = [...T.runs.values()].some((r) => r.state === 'running') ? 'live' : 'up to date';
  if (n && n.cut) live.textContent += ', there are more runs than are shown';
};

T.setTheme = (name) => {
  document.documentElement.dataset.theme = name;
  if (T.runs.size) T.show(); // drawings have the colours in them
};

T.help = () => {
  const keys = [['1 … 8', 'views'], ['/', 'search runs'], ['f', 'filter what is shown'], ['a, n', 'all runs, none'], ['d', 'dark or light'], ['← →', 'on a chart: values along the curve'], ['shift ← →', 'on a chart: along the axis'], ['+ − 0', 'on a chart: closer, farther, all'], ['drag', 'closer to what is between'], ['shift drag', 'along the axis'], ['double click', 'all of it again'], ['?', 'this']];
  const box = document.getElementById('help');
  box.replaceChildren(T.el('h2', {style: 'margin-bottom:8px'}, 'Keys'), T.el('dl', {}, ...keys.flatMap(([k, what]) => [T.el('dt', {}, k), T.el('dd', {}, what)])), T.el('form', {method: 'dialog'}, T.el('button', {}, 'close')));
  box.showModal();
};

T.key = (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { if (e.key === 'Escape') e.target.blur(); return; }
  const number = Number(e.key);
  if (number >= 1 && number <= T.views.length) T.go(T.views[number - 1][0]);
  else if (e.key === '/') { document.getElementById('side').classList.add('open'); document.getElementById('search').focus(); }
  else if (e.key === 'f') document.getElementById('filter')?.focus();
  else if (e.key === 'd') T.setTheme(T.isDark() ? 'light' : 'dark');
  else if (e.key === 'a') T.choose(T.found().map((r) => r.id));
  else if (e.key === 'n') T.choose([]);
  else if (e.key === '?') T.help();
  else return;
  e.preventDefault();
};

T.begin = async () => {
  const get = (id) => document.getElementById(id);
  T.setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  T.readAddress();
  get('tabs').append(...T.views.map(([name, title]) => T.el('button', {role: 'tab', 'data-tab': name, onclick: () => T.go(name)}, title)));
  get('search').value = T.look.search;
  get('sort').value = T.look.sort;
  get('search').addEventListener('input', (e) => { T.look.search = e.target.value; T.writeAddress(); T.showSide(); if (T.viewNow === 'runs') T.show(); });
  get('sort').addEventListener('change', (e) => { T.look.sort = e.target.value; T.writeAddress(); T.show(); });
  get('all').addEventListener('click', () => T.choose(T.found().map((r) => r.id)));
  get('none').addEventListener('click', () => T.choose([]));
  get('theme').addEventListener('click', () => T.setTheme(T.isDark() ? 'light' : 'dark'));
  get('keys').addEventListener('click', T.help);
  get('menu').addEventListener('click', () => get('menu').setAttribute('aria-expanded', String(get('side').classList.toggle('open'))));
  get('view').addEventListener('pointerdown', () => get('side').classList.remove('open'));
  document.addEventListener('keydown', T.key);
  await T.refresh().catch(() => {});
  await T.show();
  T.showLive();
  T.listen((mine) => { if (mine) T.show(); else T.showSide(); T.showLive(); });
};
T.begin();
