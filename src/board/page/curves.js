// The view of curves: a card for each tag, with the chosen runs in it.
'use strict';
T.cards = new Map(); // by tag

// An average that forgets, as the server computes it; for reports, which have none.
T.smooth = (ys, weight) => {
  let sum = 0, scale = 0;
  return ys.map((y) => {
    if (!Number.isFinite(y)) return y;
    sum = sum * weight + (1 - weight) * y;
    scale = scale * weight + (1 - weight);
    return sum / scale;
  });
};

T.onAxis = (curve, points, axis) => {
  if (axis === 'step') return points[0];
  return axis === 'time' ? points[1].map((t) => curve.start + t) : points[1];
};

T.curveLabel = (run, part) => run.name + (part && part !== 'system' ? ' · ' + part : '');

// From an answer to what a chart draws.
T.toCurves = (answer) => {
  const {axis, smooth} = T.look, out = [];
  for (const c of answer ? answer.curves : []) {
    const run = T.runs.get(c.run);
    if (!run || !T.chosen.has(c.run)) continue;
    const y = c.points[2].map(Number), x = T.onAxis(c, c.points, axis);
    const curve = {id: c.run, label: T.curveLabel(run, c.part), colour: T.colour(c.run), dash: T.dash(c.part), steps: c.points[0], x, y, last: c.last, low: c.low, high: c.high, count: c.count};
    if (smooth > 0) {
      curve.faint = {x, y};
      if (c.smooth) { curve.x = T.onAxis(c, c.smooth, axis); curve.y = c.smooth[2].map(Number); curve.steps = c.smooth[0]; }
      else curve.y = T.smooth(y, smooth);
    }
    out.push(curve);
  }
  return out;
};

T.CurveCard = class {
  constructor(tag, system) {
    this.tag = tag;
    this.system = system;
    this.box = T.el('div', {class: 'chart'});
    this.legend = T.el('div', {class: 'legends'});
    const button = (text, title, f) => T.el('button', {class: 'icon', title, 'aria-label': `${tag}: ${title}`, onclick: f}, text);
    this.node = T.el('section', {class: 'card', 'data-tag': tag},
      T.el('div', {class: 'head'}, T.el('h2', {}, tag),
        button('SVG', 'as SVG', () => T.save(this.file('svg'), 'image/svg+xml', this.chart.toSvg(tag))),
        button('PNG', 'as PNG', () => T.save(this.file('png'), 'image/png', this.chart.toPng())),
        button('CSV', 'as CSV', () => this.saveCsv()),
        button('⤢', 'larger or smaller', () => { this.node.classList.toggle('wide'); this.load(); })),
      this.box, this.legend);
    this.chart = new T.Chart(this.box, {onpoint: (x) => this.tell(x), onzoom: () => this.load()});
    new IntersectionObserver((seen) => {
      this.visible = seen[0].isIntersecting;
      if (this.visible && this.stale) this.load();
    }, {rootMargin: '200px'}).observe(this.node);
    this.stale = true;
  }

  file(end) { return this.tag.replace(/[^\w.-]+/g, '_') + '.' + end; }

  question(points) {
    const {axis, smooth, logx} = T.look, q = {tag: this.tag, runs: T.runList(), points, axis};
    if (this.system) q.system = 1;
    if (smooth > 0) q.smooth = smooth;
    if (logx) q.log = 1;
    if (this.chart.range) { q.from = this.chart.range[0] || 1e-9; q.to = this.chart.range[1]; }
    return q;
  }

  async load() {
    if (!this.visible) { this.stale = true; return; }
    this.stale = false;
    const mine = this.asked = (this.asked || 0) + 1;
    const answer = await T.ask('curves', this.question(Math.max(50, this.box.clientWidth - 50))).catch(() => null);
    if (mine !== this.asked || !answer) return; // a later question is on its way
    this.leftOut = answer.left_out;
    this.curves = T.toCurves(answer);
    const {axis, logx, logy, outliers} = T.look;
    this.chart.set(this.curves, {axis, logx, logy, outliers});
    this.chart.canvas.setAttribute('aria-label', `${this.tag}: ${this.curves.length} curves`);
    this.tell(null);
  }

  // The numbers, as text: the last ones, or those under the cursor.
  tell(x) {
    if (!this.curves) return;
    const rows = this.curves.map((c) => {
      const i = x === null ? c.x.length - 1 : T.Chart.nearest(c, x);
      const value = x === null && !c.faint ? c.last : c.y[i];
      return T.el('tr', {}, T.el('td', {}, T.el('span', {class: 'swatch ' + c.dash, style: `border-color:${c.colour}`}), c.label),
        T.el('td', {class: 'now'}, T.number(typeof value === 'number' && Number.isNaN(value) ? 'NaN' : value)), T.el('td', {}, T.number(c.low)), T.el('td', {}, T.number(c.high)), T.el('td', {class: 'dim'}, String(c.steps[i] ?? '')));
    });
    const head = T.el('tr', {}, ...['', x === null ? 'last' : 'value', 'lowest', 'highest', 'step'].map((t) => T.el('th', {}, t)));
    this.legend.replaceChildren(T.el('table', {class: 'legend'}, head, ...rows));
    if (this.leftOut) this.legend.append(T.el('p', {class: 'dim'}, `${this.leftOut} more curves are not drawn: choose fewer runs`));
  }

  async saveCsv() {
    const all = T.report ? null : await T.ask('curves', {...this.question(4096), smooth: 0}).catch(() => null);
    if (all) {
      const full = new T.Chart(T.el('div'));
      full.curves = T.toCurves(all);
      full.options = {axis: T.look.axis};
      T.save(this.file('csv'), 'text/csv', full.toCsv());
    } else T.save(this.file('csv'), 'text/csv', this.chart.toCsv());
  }
};

// --- the bar above --------------------------------------------------------------------------------

T.curveBar = () => {
  const set = (key, value) => { T.look[key] = value; T.writeAddress(); for (const card of T.cards.values()) { if (key === 'axis' || key === 'logx') card.chart.range = null; card.load(); } };
  const check = (key, text, title) => T.el('label', {title}, T.el('input', {type: 'checkbox', id: 'look-' + key, checked: T.look[key], onchange: (e) => set(key, e.target.checked)}), text);
  const shown = T.el('output', {}, T.look.smooth.toFixed(2));
  return T.el('div', {class: 'bar'},
    T.el('input', {id: 'filter', type: 'search', placeholder: 'filter tags  f', 'aria-label': 'filter tags', value: T.look.filter, oninput: (e) => { T.look.filter = e.target.value; T.writeAddress(); T.filterCards(); }}),
    T.el('label', {}, 'over', T.el('select', {id: 'axis', onchange: (e) => set('axis', e.target.value)},
      ...['step', 'relative', 'time'].map((a) => T.el('option', {value: a, selected: T.look.axis === a}, a === 'relative' ? 'time since start' : a === 'time' ? 'time of day' : a)))),
    T.el('label', {}, 'smoothing', T.el('input', {id: 'smooth', type: 'range', min: '0', max: '0.99', step: '0.01', value: String(T.look.smooth), oninput: (e) => { shown.value = Number(e.target.value).toFixed(2); }, onchange: (e) => set('smooth', Number(e.target.value))}), shown),
    check('logy', 'log y', 'logarithmic values'), check('logx', 'log x', 'logarithmic axis'), check('outliers', 'outliers', 'off: the scale leaves out the extreme 2 % at both ends'));
};

T.filterCards = () => {
  let pattern = null;
  try { pattern = new RegExp(T.look.filter, 'i'); } catch { /* half-typed */ }
  for (const card of T.cards.values()) card.node.hidden = pattern ? !pattern.test(card.tag) : false;
};

// A card stays as long as its tag is there: what is zoomed stays zoomed while more comes in.
T.showCurves = async (view, system) => {
  const tags = ((await T.ask('tags', {runs: T.runList()})) || []).filter((t) => t.kind === 'numbers' && !!t.system === system);
  if (T.viewNow !== view.dataset.view) return;
  const key = (t) => (system ? 'system ' : '') + t.tag;
  let grid = view.querySelector('.grid');
  if (!grid) {
    grid = T.el('div', {class: 'grid'});
    T.cards.clear();
    view.replaceChildren(T.curveBar(), grid);
  }
  const wanted = new Set(tags.map(key));
  for (const [k, card] of T.cards) if (!wanted.has(k)) { card.node.remove(); T.cards.delete(k); }
  for (const t of tags) {
    if (!T.cards.has(key(t))) {
      const card = new T.CurveCard(t.tag, system);
      T.cards.set(key(t), card);
      grid.append(card.node);
    }
    T.cards.get(key(t)).load();
  }
  view.querySelector('.empty')?.remove();
  if (!tags.length) view.append(T.el('p', {class: 'empty'}, T.chosen.size ? 'There are no numbers yet.' : 'Choose runs on the left.'));
  T.filterCards();
};
