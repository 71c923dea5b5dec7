// What everything else uses: elements, numbers as text, colours, questions to the server.
'use strict';
const T = {};

// el('td', {class: 'right', onclick: f}, 'text', child, ...): texts are texts, never HTML.
T.el = (name, props, ...children) => {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (key === 'style') e.style.cssText = value;
    else if (key in e && key !== 'list' && typeof value !== 'string') e[key] = value;
    else e.setAttribute(key, value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
};

T.svg = (name, props, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(props || {})) e.setAttribute(key, value);
  e.append(...children);
  return e;
};

// --- numbers -------------------------------------------------------------------------------------

// Four digits, as people read them.
T.number = (x) => {
  if (x === null || x === undefined) return '–';
  if (typeof x === 'string') return x; // NaN, Infinity
  if (!Number.isFinite(x)) return String(x);
  if (x === 0) return '0';
  if (Number.isInteger(x) && Math.abs(x) < 1e7) return String(x);
  const size = Math.abs(x);
  if (size >= 1e5 || size < 1e-3) return x.toExponential(3).replace('e+', 'e');
  return size >= 1e4 ? String(Math.round(x)) : x.toPrecision(4);
};

T.short = (x) => { // for axes
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 1e4) {
    for (const [unit, name] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
      if (size >= unit) return String(+(x / unit).toPrecision(4)) + name;
  }
  return size < 1e-3 ? x.toExponential(1).replace('.0e', 'e') : String(+x.toPrecision(4));
};

T.bytes = (x) => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (x >= 1024 && i < 4) { x /= 1024; i++; }
  return (i ? x.toPrecision(3) : String(x)) + ' ' + units[i];
};

T.duration = (s) => {
  if (s === null || s === undefined || !Number.isFinite(s)) return '–';
  if (s < 10) return s.toFixed(1) + ' s';
  if (s < 120) return Math.round(s) + ' s';
  const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (h < 1) return `${m} min ${Math.round(s) % 60} s`;
  return d < 2 ? `${h} h ${m % 60} min` : `${d} d ${h % 24} h`;
};

T.clock = (s) => {
  const t = new Date(s * 1000), two = (x) => String(x).padStart(2, '0');
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
};

// --- colours: told apart also by those who see fewer ----------------------------------------------

const light = ['#0072b2', '#d55e00', '#008a65', '#b84f8d', '#b07a00', '#3a8fc4', '#6a4c9c', '#5c5c5c'];
const dark = ['#56b4e9', '#ff8c42', '#2ed1a2', '#ec9fcb', '#f0c14b', '#9ad6ff', '#b79cf0', '#c4c4c4'];
T.isDark = () => document.documentElement.dataset.theme === 'dark';
T.colour = (id) => (T.isDark() ? dark : light)[id % light.length];
T.css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Parts of a run are told apart by how the line is drawn.
T.dashes = {solid: [], dashed: [6, 4], dotted: [2, 3]};
T.dash = (part) => part === '' || part === 'train' || part === 'system' ? 'solid' : /^(val|eval)/.test(part) ? 'dashed' : 'dotted';

// --- questions -------------------------------------------------------------------------------------

// A report carries its answers with it, by path and the arguments that tell them apart.
T.report = document.getElementById('report') ? JSON.parse(document.getElementById('report').textContent) : null;
T.keys = {curves: ['system', 'tag'], media: ['run', 'tag'], files: ['run'], weights: ['run'], reports: ['run']};

// Tags of several runs, each once.
T.unite = (tags) => [...new Map(tags.map((t) => [`${t.kind} ${!!t.system} ${t.tag}`, t])).values()];

T.ask = async (what, args = {}) => {
  if (T.report) {
    const found = T.report[what];
    if (what === 'tags') return T.unite(String(args.runs).split(',').flatMap((id) => found[id] || []));
    if (!T.keys[what]) return found;
    return found ? found[T.keys[what].map((k) => String(args[k] ?? '')).join(' ')] : undefined;
  }
  const answer = await fetch('api/' + what + '?' + new URLSearchParams(args)).catch(() => { throw new Error('the server does not answer'); });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
};

T.save = (name, type, content) => {
  const url = content.startsWith('data:') ? content : URL.createObjectURL(new Blob([content], {type}));
  T.el('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
};
