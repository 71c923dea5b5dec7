// What the page knows: runs, which of them are chosen, how it is looked at; and how it hears of news.
'use strict';
T.runs = new Map(); // by id
T.version = 0;
T.chosen = new Set();
T.touched = false; // somebody has chosen; until then new runs are shown by themselves
T.look = {tab: 'curves', axis: 'step', smooth: 0, logx: false, logy: false, outliers: true, filter: '', search: '', sort: 'recent'};
T.MOST_AT_FIRST = 8;

// The look is in the address, so that it can be kept and handed on; runs by their names.
T.readAddress = () => {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(T.look)) {
    if (!given.has(key)) continue;
    const was = T.look[key], text = given.get(key);
    T.look[key] = typeof was === 'boolean' ? text === '1' : typeof was === 'number' ? Number(text) || 0 : text;
  }
  T.wanted = given.has('runs') ? new Set(given.getAll('runs')) : null;
};

T.writeAddress = () => {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries(T.look))
    if (value !== T.defaults[key]) out.set(key, typeof value === 'boolean' ? (value ? '1' : '0') : value);
  if (T.touched) for (const id of T.chosen) out.append('runs', T.runs.get(id).name);
  history.replaceState(null, '', '#' + out);
};
T.defaults = {...T.look};

T.recent = () => [...T.runs.values()].sort((a, b) => (b.now || 0) - (a.now || 0) || a.id - b.id);

T.chooseAtFirst = () => {
  if (T.touched) return;
  if (T.wanted) {
    for (const r of T.runs.values()) if (T.wanted.has(r.name)) T.chosen.add(r.id);
    T.touched = T.chosen.size > 0;
    return;
  }
  for (const r of T.recent()) {
    if (T.chosen.size >= T.MOST_AT_FIRST) break;
    T.chosen.add(r.id);
  }
};

T.choose = (ids) => {
  T.chosen = new Set(ids);
  T.touched = true;
  T.writeAddress();
  T.show();
};

T.chosenRuns = () => [...T.chosen].sort((a, b) => a - b).map((id) => T.runs.get(id)).filter(Boolean);
T.runList = () => T.chosenRuns().map((r) => r.id).join(',');

// Asks for what is new. True when something of what is shown has changed.
T.refresh = async () => {
  const news = await T.ask('runs', {since: T.version});
  let mine = T.version === 0;
  for (const r of news.runs) {
    if (r.gone) { T.runs.delete(r.id); T.chosen.delete(r.id); }
    else T.runs.set(r.id, r);
    mine = mine || T.chosen.has(r.id);
  }
  const before = T.chosen.size;
  T.news = news;
  T.version = news.version;
  T.chooseAtFirst();
  return mine || T.chosen.size !== before;
};

// The server says that there is something new; how much of it is asked for, at most once a second.
T.listen = (changed) => {
  if (T.report) return;
  let due = null;
  const source = new EventSource('events');
  const soon = () => {
    if (due) return;
    due = setTimeout(async () => {
      due = null;
      if (document.hidden) return;
      try { if (await T.refresh()) changed(true); else changed(false); } catch { /* it comes again */ }
    }, T.news && !T.news.settled ? 300 : 1000);
  };
  source.onmessage = soon;
  source.onopen = () => { T.connected = true; soon(); };
  source.onerror = () => { T.connected = false; changed(false); };
  document.addEventListener('visibilitychange', () => { if (!document.hidden) soon(); });
};
