// Pictures, histograms and texts of the chosen runs.
'use strict';
T.imageUrl = (args) => {
  if (T.report) return T.report.images[[args.run, args.part, args.tag, args.step, args.index].join(' ')];
  return 'api/image?' + new URLSearchParams(args);
};

T.showMedia = async (view, kind, fill) => {
  const tags = ((await T.ask('tags', {runs: T.runList()})) || []).filter((t) => t.kind === kind);
  const cards = [];
  for (const t of tags)
    for (const run of T.chosenRuns()) {
      const parts = await T.ask('media', {run: run.id, tag: t.tag}).catch(() => null);
      for (const p of parts || []) {
        if (!p.items.length) continue;
        const body = T.el('div');
        cards.push(T.el('section', {class: 'card', 'data-tag': t.tag}, T.el('div', {class: 'head'}, T.el('h2', {}, t.tag)), T.el('p', {class: 'dim', style: 'margin:0 0 6px'}, T.curveLabel(run, p.part) + (p.count > p.items.length ? `, ${p.items.length} of ${p.count} steps` : '')), body));
        fill(body, p, run, t.tag);
      }
    }
  if (T.viewNow !== view.dataset.view) return;
  view.replaceChildren(T.el('div', {class: 'grid'}, ...cards), cards.length ? '' : T.el('p', {class: 'empty'}, `The chosen runs have no ${kind}.`));
};

// --- pictures: a slider goes through the steps ----------------------------------------------------

// Small pictures are shown larger, by a whole factor.
T.shownWidth = (item) => {
  const w = Number(item.width) || 96, h = Number(item.height) || 96;
  return w * Math.max(1, Math.min(8, Math.ceil(128 / Math.min(w, h))));
};

T.steps = new Map(); // where each slider stands, by run and tag
T.showImages = (view) => T.showMedia(view, 'images', (body, p, run, tag) => {
  const key = run.id + ' ' + p.part + ' ' + tag, last = p.items.length - 1, kept = T.steps.get(key);
  let at = kept === undefined || kept > last ? last : kept;
  const pictures = T.el('div', {class: 'pictures'}), said = T.el('output', {});
  const draw = () => {
    const item = p.items[at];
    said.value = `step ${item.step}`;
    pictures.replaceChildren(...Array.from({length: Math.min(item.count || 0, 24)}, (_, i) => T.el('figure', {}, T.el('img', {src: T.imageUrl({run: run.id, part: p.part, tag, step: item.step, index: i}), alt: `${tag}, step ${item.step}, ${i + 1} of ${item.count}`, width: T.shownWidth(item)}))));
  };
  body.append(T.el('div', {class: 'bar'}, T.el('input', {type: 'range', min: '0', max: String(last), value: String(at), 'aria-label': 'step', oninput: (e) => { at = Number(e.target.value); T.steps.set(key, at === last ? undefined : at); draw(); }}), said), pictures);
  draw();
});

// --- histograms over steps, as ridges -------------------------------------------------------------

// Buckets of all steps on one grid, so that they can be laid behind each other.
T.spread = (rows, low, high, n) => {
  const out = new Array(n).fill(0), width = (high - low) / n || 1;
  for (const [left, right, count] of rows) {
    const from = Math.max(0, Math.floor((left - low) / width)), to = Math.min(n - 1, Math.floor((right - low) / width));
    if (right <= left) { out[Math.min(n - 1, Math.max(0, from))] += count; continue; }
    for (let i = from; i <= to; i++) {
      const a = Math.max(left, low + i * width), b = Math.min(right, low + (i + 1) * width);
      if (b > a) out[i] += count * (b - a) / (right - left);
    }
  }
  return out;
};

// The value below which a share of all lies.
T.quantile = (rows, share) => {
  const total = rows.reduce((sum, r) => sum + r[2], 0);
  let seen = 0;
  for (const [left, right, count] of rows) {
    if (count > 0 && seen + count >= share * total) return left + (right - left) * Math.min(1, Math.max(0, (share * total - seen) / count));
    seen += count;
  }
  return rows.length ? rows[rows.length - 1][1] : NaN;
};

T.ridges = (items, colour) => {
  const all = items.flatMap((i) => i.rows), low = Math.min(...all.map((r) => r[0])), high = Math.max(...all.map((r) => r[1]));
  const n = 48, width = 420, height = 230, shown = items.length > 24 ? items.filter((_, i) => i % Math.ceil(items.length / 24) === 0 || i === items.length - 1) : items;
  const spread = shown.map((i) => T.spread(i.rows, low, high, n)), most = Math.max(...spread.flat()) || 1;
  const svg = T.svg('svg', {viewBox: `0 0 ${width} ${height}`, width: '100%', role: 'img', 'aria-label': `histograms from ${T.number(low)} to ${T.number(high)}`});
  const gap = Math.min(22, 150 / shown.length);
  spread.forEach((counts, k) => {
    const base = height - 22 - (shown.length - 1 - k) * gap; // the newest in front
    const points = counts.map((c, i) => `${(10 + i * 360 / (n - 1)).toFixed(1)},${(base - c / most * 46).toFixed(1)}`);
    svg.append(T.svg('polygon', {points: `10,${base} ${points.join(' ')} 370,${base}`, fill: T.css('--card'), stroke: colour, 'stroke-width': '1', 'fill-opacity': '0.86'}));
    if (k === 0 || k === shown.length - 1 || k === shown.length >> 1) { const t = T.svg('text', {x: '376', y: String(base), 'font-size': '10', fill: T.css('--dim')}); t.textContent = shown[k].step; svg.append(t); }
  });
  for (const [x, v, anchor] of [[10, low, 'start'], [190, (low + high) / 2, 'middle'], [370, high, 'end']]) {
    const t = T.svg('text', {x, y: height - 6, 'font-size': '10', 'text-anchor': anchor, fill: T.css('--dim')});
    t.textContent = T.number(v);
    svg.append(t);
  }
  return svg;
};

// Bands that hold 100, 80 and 50 of a hundred values, and the median.
T.bands = (items, colour) => {
  const width = 420, height = 150, shares = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1];
  const rows = items.map((i) => shares.map((s) => T.quantile(i.rows, s))), all = rows.flat().filter(Number.isFinite);
  const low = Math.min(...all), high = Math.max(...all), span = high - low || 1, s0 = items[0].step, s1 = items[items.length - 1].step;
  const x = (i) => 10 + (items[i].step - s0) / (s1 - s0 || 1) * 360, y = (v) => height - 12 - (v - low) / span * (height - 24);
  const svg = T.svg('svg', {viewBox: `0 0 ${width} ${height}`, width: '100%', role: 'img', 'aria-label': 'distribution over steps'});
  for (const [a, b, alpha] of [[0, 6, 0.14], [1, 5, 0.22], [2, 4, 0.32]]) {
    const up = rows.map((r, i) => `${x(i).toFixed(1)},${y(r[b]).toFixed(1)}`), down = rows.map((r, i) => `${x(i).toFixed(1)},${y(r[a]).toFixed(1)}`).reverse();
    svg.append(T.svg('polygon', {points: [...up, ...down].join(' '), fill: colour, 'fill-opacity': alpha}));
  }
  svg.append(T.svg('polyline', {points: rows.map((r, i) => `${x(i).toFixed(1)},${y(r[3]).toFixed(1)}`).join(' '), fill: 'none', stroke: colour, 'stroke-width': '1.5'}));
  for (const v of [low, high]) { const t = T.svg('text', {x: '376', y: y(v) + 3, 'font-size': '10', fill: T.css('--dim')}); t.textContent = T.number(v); svg.append(t); }
  return svg;
};

T.showHistograms = (view) => T.showMedia(view, 'histograms', (body, p, run) => {
  const items = p.items.filter((i) => i.rows && i.rows.length);
  if (!items.length) return;
  const last = items[items.length - 1], q = (s) => T.number(T.quantile(last.rows, s));
  body.append(T.ridges(items, T.colour(run.id)), T.bands(items, T.colour(run.id)),
    T.el('p', {class: 'dim', style: 'margin:4px 0 0'}, `step ${last.step}: from ${q(0)} to ${q(1)}, median ${q(0.5)}, half between ${q(0.25)} and ${q(0.75)}`));
});

T.showTexts = (view) => T.showMedia(view, 'texts', (body, p) => {
  for (const item of [...p.items].reverse())
    body.append(T.el('h3', {style: 'margin-top:8px'}, `step ${item.step}`), ...(item.texts || []).map((t) => T.el('pre', {}, t)));
});
