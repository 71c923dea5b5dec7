// One run: how it is doing, its checkpoints, weights, mistakes, the time of its step, its log.
'use strict';
T.fact = (name, value) => T.el('div', {}, T.el('b', {}, value), T.el('span', {}, name));

T.card = (title, ...children) => T.el('section', {class: 'card', style: 'margin-bottom:12px'}, T.el('h3', {}, title), ...children);

// A file of the run that is not what it should be takes nothing else with it.
T.guarded = (file, f) => {
  try { return f(); } catch { return T.card(file, T.el('p', {class: 'dim', style: 'margin:0'}, `${file} is not what the page expects, and is not shown.`)); }
};

T.showRun = async (view) => {
  const run = T.chosenRuns()[0];
  if (!run) { view.replaceChildren(T.el('p', {class: 'empty'}, 'Choose a run on the left.')); return; }
  const ask = (what) => T.ask(what, {run: run.id}).catch(() => null);
  const [files, weights, reports] = await Promise.all([ask('files'), ask('weights'), ask('reports')]);
  if (T.viewNow !== view.dataset.view) return;
  const others = T.chosenRuns().length - 1;
  let log = view.dataset.run === String(run.id) ? view.querySelector('#log-card') : null;
  if (log) log.reload(); // what is searched for stays
  else log = T.logCard(run, files || []);
  view.dataset.run = String(run.id);
  const cards = [T.runFacts(run, others), T.checkpointCard(files || []), T.guarded('confusion.json', () => T.confusionCard(run, reports || {})),
    T.guarded('mistakes.json', () => T.worstCard(reports || {})), T.guarded('trace.json', () => T.timeCard(run, reports || {})), T.weightCard(weights || {}), log];
  view.replaceChildren(...cards.filter(Boolean));
};

T.runFacts = (r, others) => {
  const eta = T.eta(r), facts = [
    T.fact('state', T.el('span', {class: 'state ' + r.state, style: 'font-size:inherit;color:inherit'}, r.state)),
    T.fact(r.state === 'running' ? 'running' : 'last heard of', T.since(r)),
    T.fact('step', r.steps ? `${r.step} / ${r.steps}` : String(r.step)),
    r.best ? T.fact(`best ${r.best.tag}, step ${r.best.step}`, T.number(r.best.value)) : null,
    r.best ? T.fact('last', T.number(r.best.last)) : null,
    r.speed ? T.fact('steps/s', T.number(r.speed)) : null,
    r.speed && r.batch ? T.fact('examples/s', T.number(r.speed * r.batch)) : null,
    eta !== null ? T.fact('left', T.duration(eta)) : null,
    r.began ? T.fact('began', T.clock(r.began)) : null,
    r.experiment ? T.fact('experiment', r.experiment) : null,
  ];
  return T.card(r.name, T.el('div', {class: 'facts'}, ...facts.filter(Boolean)),
    r.message ? T.el('pre', {style: 'margin-top:8px;color:var(--bad)'}, r.message) : '',
    r.damaged ? T.el('p', {}, `${r.damaged} is damaged; what follows the damage is not shown.`) : '',
    others > 0 ? T.el('p', {class: 'dim', style: 'margin:8px 0 0'}, `${others} more chosen: this view shows the first one.`) : '');
};

T.checkpointCard = (files) => {
  const found = files.filter((f) => f.kind === 'checkpoint');
  if (!found.length) return null;
  const total = found.reduce((sum, f) => sum + f.size, 0);
  return T.card(`checkpoints: ${found.length}, ${T.bytes(total)}`, T.el('table', {class: 'plain', id: 'checkpoints'}, T.el('thead', {}, T.el('tr', {}, ...['file', 'step', 'size', 'written', ''].map((t) => T.el('th', {}, t)))),
    T.el('tbody', {}, ...found.map((f) => T.el('tr', {}, T.el('td', {class: 'long'}, f.name), T.el('td', {}, f.step === undefined ? '' : String(f.step)), T.el('td', {}, T.bytes(f.size)), T.el('td', {}, T.clock(f.time)), T.el('td', {}, f.best ? 'best' : 'kept'))))));
};

// --- mistakes --------------------------------------------------------------------------------------

T.parsed = (text) => { try { return text ? JSON.parse(text) : null; } catch { return null; } };

T.confusionCard = (run, reports) => {
  const c = T.parsed(reports['confusion.json']);
  if (!c || !Array.isArray(c.counts)) return reports['mistakes.json'] ? null : T.card('mistakes', T.el('p', {class: 'dim', style: 'margin:0'}, 'To see what is taken for what, and the worst examples: ', T.el('code', {}, `tilth eval --model_dir=${run.name} --page`)));
  const rows = c.counts, names = c.classes, sums = rows.map((r) => r.reduce((a, b) => a + b, 0));
  const mistakes = rows.flatMap((r, i) => r.map((n, k) => [n, i, k])).filter(([n, i, k]) => i !== k && n > 0).sort((a, b) => b[0] - a[0]);
  const shown = names.length <= 40 ? T.el('div', {class: 'scroll'}, T.el('table', {class: 'confusion', id: 'confusion'}, T.el('tr', {}, T.el('th', {}, 'is \\ taken for'), ...names.map((n) => T.el('th', {}, n))),
    ...rows.map((r, i) => T.el('tr', {}, T.el('th', {}, names[i]), ...r.map((n, k) => {
      const share = sums[i] ? n / sums[i] : 0, mark = i === k ? 'var(--good)' : 'var(--bad)';
      return T.el('td', {title: `${n} of ${sums[i]} '${names[i]}' as '${names[k]}'`, style: `background:color-mix(in srgb, ${mark} ${(Math.sqrt(share) * 55).toFixed(0)}%, transparent)`}, n ? String(n) : '');
    }))))) : '';
  const right = rows.reduce((sum, r, i) => sum + r[i], 0), all = sums.reduce((a, b) => a + b, 0);
  return T.card(`mistakes of the last evaluation: ${all - right} of ${all}`, shown, T.el('ol', {id: 'mistakes'}, ...mistakes.slice(0, 10).map(([n, i, k]) => T.el('li', {}, `${n} of ‘${names[i]}’ taken for ‘${names[k]}’`))));
};

// The examples that were answered worst: pictures, texts or rows.
T.worstCard = (reports) => {
  const m = T.parsed(reports['mistakes.json']);
  if (!m || !Array.isArray(m.examples)) return null;
  const one = (e) => {
    const picture = typeof e.image === 'string' && /^data:image\/png;base64,[\w+/=]+$/.test(e.image);
    const said = 'probability' in e ? `‘${e.label}’ taken for ‘${e.answer}’, ${T.number(e.probability)}` : `${T.number(e.label)} predicted as ${T.number(e.answer)}`;
    const row = e.row && typeof e.row === 'object' ? T.el('dl', {}, ...Object.entries(e.row).flatMap(([k, v]) => [T.el('dt', {}, k), T.el('dd', {}, String(v))])) : null;
    return T.el('figure', {class: picture ? 'example' : 'example wide'}, picture ? T.el('img', {src: e.image, alt: said}) : '', e.text ? T.el('blockquote', {}, String(e.text)) : '', row,
      T.el('figcaption', {}, said, T.el('span', {class: 'dim long'}, String(e.name || `example ${e.index}`))));
  };
  const title = m.wrong === undefined ? `worst of ${m.seen} predictions, step ${m.step}` : `worst mistakes: ${m.wrong} of ${m.seen} are wrong, step ${m.step}`;
  return T.card(title, m.examples.length ? T.el('div', {class: 'examples', id: 'examples'}, ...m.examples.map(one)) : T.el('p', {class: 'dim', style: 'margin:0'}, 'There is none.'));
};

// --- the time of a step ------------------------------------------------------------------------------

// Layers above, their kernels below; the width is the time.
T.timeCard = (run, reports) => {
  const trace = T.parsed(reports['trace.json']), events = trace && Array.isArray(trace.traceEvents) ? trace.traceEvents.filter((e) => e.dur > 0) : [];
  if (!events.length) return T.card('time of a step', T.el('p', {class: 'dim', style: 'margin:0'}, 'To see where it goes: ', T.el('code', {}, `tilth explain --model_dir=${run.name} --trace=${run.name}/trace.json`)));
  const layers = new Map(), total = events.reduce((sum, e) => sum + e.dur, 0);
  for (const e of events) {
    const name = e.cat || '(no layer)', layer = layers.get(name) || {time: 0, kernels: new Map()};
    layer.time += e.dur;
    layer.kernels.set(e.name, (layer.kernels.get(e.name) || 0) + e.dur);
    layers.set(name, layer);
  }
  const flame = T.el('div', {class: 'flame', style: 'height:72px', id: 'flame'});
  const box = (x, w, y, name, time, k) => flame.append(T.el('div', {style: `left:${x * 100}%;width:${w * 100}%;top:${y}px;height:34px;background:color-mix(in srgb, ${dark[k % dark.length]} ${y ? 62 : 92}%, white)`, title: `${name}: ${T.number(time)} us, ${(time / total * 100).toFixed(1)} %`}, w > 0.03 ? name : '', T.el('br'), w > 0.03 ? `${(time / total * 100).toFixed(1)} %` : ''));
  const byTime = [...layers].sort((a, b) => b[1].time - a[1].time);
  let x = 0;
  byTime.forEach(([name, layer], k) => {
    box(x / total, layer.time / total, 0, name, layer.time, k);
    let inner = x;
    for (const [kernel, time] of [...layer.kernels].sort((a, b) => b[1] - a[1])) { box(inner / total, time / total, 36, kernel, time, k); inner += time; }
    x += layer.time;
  });
  return T.card(`time of a step: ${T.number(total / 1000)} ms`, flame, T.el('div', {class: 'scroll'}, T.el('table', {class: 'plain', id: 'step-time'}, ...byTime.slice(0, 8).map(([name, l]) => T.el('tr', {}, T.el('td', {class: 'long'}, name), T.el('td', {class: 'right'}, `${T.number(l.time)} us`), T.el('td', {class: 'right'}, `${(l.time / total * 100).toFixed(1)} %`), T.el('td', {class: 'dim long'}, [...l.kernels].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([n]) => n).join(', '))))))); 
};

// --- weights -----------------------------------------------------------------------------------------

T.weightCard = (answer) => {
  if (!answer.weights || !answer.weights.length) return null;
  const count = (w) => w.dims.reduce((a, b) => a * b, 1), total = answer.weights.reduce((sum, w) => sum + count(w), 0);
  const layers = new Map();
  for (const w of answer.weights) {
    const name = w.name.split('/').slice(0, -1).join('/') || w.name;
    if (!layers.has(name)) layers.set(name, []);
    layers.get(name).push(w);
  }
  const rows = [...layers].slice(0, 2000).map(([name, list]) => T.el('tr', {}, T.el('td', {class: 'long'}, name), T.el('td', {class: 'long'}, list.map((w) => `${w.name.split('/').pop()} [${w.dims.join(', ')}]`).join(', ')), T.el('td', {}, [...new Set(list.map((w) => w.type))].join(', ')), T.el('td', {class: 'right'}, list.reduce((sum, w) => sum + count(w), 0).toLocaleString('en'))));
  return T.card(`model: ${total.toLocaleString('en')} numbers (${answer.checkpoint})`, T.el('div', {class: 'scroll'}, T.el('table', {class: 'plain', id: 'weights'}, T.el('thead', {}, T.el('tr', {}, T.el('th', {}, 'layer'), T.el('th', {}, 'weights'), T.el('th', {}, 'type'), T.el('th', {class: 'right'}, 'numbers'))), T.el('tbody', {}, ...rows))));
};

// --- the log -----------------------------------------------------------------------------------------

T.logCard = (run, files) => {
  const logs = files.filter((f) => f.kind === 'log');
  if (!logs.length || T.report) return null;
  const pick = T.el('select', {'aria-label': 'log file'}, ...logs.map((f) => T.el('option', {}, f.name)));
  const box = T.el('input', {type: 'search', placeholder: 'search the log', 'aria-label': 'search the log'}), out = T.el('pre', {style: 'max-height:420px;overflow:auto', id: 'log'}), said = T.el('span', {class: 'dim'});
  const load = async () => {
    const answer = await T.ask('log', {run: run.id, file: pick.value, search: box.value}).catch((e) => ({found: 0, lines: [e.message]}));
    const below = out.scrollHeight - out.scrollTop - out.clientHeight; // who reads further up stays there
    out.textContent = answer.lines.join('\n');
    said.textContent = `${answer.found} lines` + (answer.tail ? ' in the last 8 MiB' : '');
    if (below < 40) out.scrollTop = out.scrollHeight;
  };
  pick.addEventListener('change', load);
  box.addEventListener('change', load);
  load();
  const card = T.card('log', T.el('div', {class: 'bar'}, pick, box, said), out);
  card.id = 'log-card';
  card.reload = load;
  return card;
};
