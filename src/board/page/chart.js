// A chart of lines on a canvas: zoom, pan, values under the cursor, files to take away.
//
//   const chart = new T.Chart(div, {onzoom: (range) => ...});
//   chart.set(curves, {axis: 'step', logx, logy, outliers});
//
// A curve is {label, colour, dash, x: [...], y: [...], faint: {x, y}}; y may hold NaN.
'use strict';
T.Chart = class {
  constructor(box, calls = {}) {
    this.box = box;
    this.calls = calls;
    this.curves = [];
    this.options = {};
    this.range = null; // [from, to] on the axis, when zoomed
    this.cursor = null;
    this.canvas = T.el('canvas', {tabindex: '0', role: 'img'});
    box.append(this.canvas);
    new ResizeObserver(() => this.draw()).observe(box);
    this.listen();
  }

  set(curves, options) {
    this.curves = curves;
    this.options = options;
    this.draw();
  }

  // --- scales ---------------------------------------------------------------------------------

  // The least and the largest of all that is finite (and positive, where the scale is a logarithm).
  bounds() {
    const {logx, logy, outliers} = this.options;
    let x0 = Infinity, x1 = -Infinity;
    const ys = [];
    for (const c of this.curves)
      for (let i = 0; i < c.x.length; i++) {
        const x = c.x[i], y = c.y[i];
        if (!Number.isFinite(x) || (logx && x <= 0)) continue;
        if (this.range && (x < this.range[0] || x > this.range[1])) continue;
        if (x < x0) x0 = x;
        if (x > x1) x1 = x;
        if (Number.isFinite(y) && !(logy && y <= 0)) ys.push(y);
      }
    if (this.range) [x0, x1] = this.range;
    if (!(x0 <= x1)) [x0, x1] = logx ? [1, 10] : [0, 1];
    ys.sort((a, b) => a - b);
    let y0 = ys[0], y1 = ys[ys.length - 1];
    // What is far from nearly all others would make a line of the rest.
    if (!outliers && ys.length > 20) {
      y0 = ys[Math.floor(ys.length * 0.02)];
      y1 = ys[Math.ceil(ys.length * 0.98) - 1];
    }
    if (y0 === undefined) [y0, y1] = logy ? [0.1, 1] : [0, 1];
    if (x0 === x1) [x0, x1] = logx ? [x0 / 2, x1 * 2] : [x0 - 0.5, x1 + 0.5];
    if (y0 === y1) [y0, y1] = logy ? [y0 / 2, y1 * 2] : [y0 - (Math.abs(y0) * 0.05 || 0.5), y1 + (Math.abs(y1) * 0.05 || 0.5)];
    else if (!logy) { const pad = (y1 - y0) * 0.05; y0 -= pad; y1 += pad; }
    return {x0, x1, y0, y1};
  }

  scales(width, height) {
    const b = this.bounds(), {logx, logy} = this.options;
    const s = {...b, left: 46, right: width - 20, top: 8, bottom: height - 22};
    const lx = logx ? Math.log : (v) => v, ly = logy ? Math.log : (v) => v;
    const ex = logx ? Math.exp : (v) => v;
    const kx = (s.right - s.left) / (lx(b.x1) - lx(b.x0)), ky = (s.bottom - s.top) / (ly(b.y1) - ly(b.y0));
    s.x = (v) => s.left + (lx(v) - lx(b.x0)) * kx;
    s.y = (v) => s.bottom - (ly(v) - ly(b.y0)) * ky;
    s.back = (px) => ex(lx(b.x0) + (px - s.left) / kx);
    return s;
  }

  static ticks(from, to, count, log) {
    const out = [];
    if (log) {
      const first = Math.floor(Math.log10(from)), last = Math.ceil(Math.log10(to));
      const few = last - first > count;
      for (let e = first; e <= last; e++)
        for (const m of few ? [1] : last - first > 2 ? [1, 3] : [1, 2, 5]) {
          const v = m * 10 ** e;
          if (v >= from && v <= to && (!few || (e - first) % Math.ceil((last - first) / count) === 0)) out.push(v);
        }
      return out;
    }
    const rough = (to - from) / count, unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * unit >= rough) * unit;
    for (let v = Math.ceil(from / step) * step; v <= to + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    return out;
  }

  xText(v) {
    if (this.options.axis === 'time') {
      const t = new Date(v * 1000), two = (n) => String(n).padStart(2, '0');
      const day = this.last && this.last.x1 - this.last.x0 > 172800;
      return day ? `${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}h` : `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
    }
    if (this.options.axis === 'relative') return T.duration(v);
    return T.short(v);
  }

  // --- drawing --------------------------------------------------------------------------------

  // The same strokes go to a canvas and to SVG: `to` has line, path, text, clip.
  paint(to, width, height) {
    const s = this.last = this.scales(width, height), {logx, logy} = this.options;
    for (const v of T.Chart.ticks(s.x0, s.x1, Math.max(2, width / 110), logx)) {
      to.line(s.x(v), s.top, s.x(v), s.bottom);
      to.text(this.xText(v), s.x(v), s.bottom + 14, 'center');
    }
    for (const v of T.Chart.ticks(s.y0, s.y1, Math.max(2, height / 45), logy)) {
      to.line(s.left, s.y(v), s.right, s.y(v));
      to.text(T.short(v), s.left - 5, s.y(v) + 4, 'right');
    }
    to.clip(s);
    for (const c of this.curves) if (c.faint) to.path(this.points(c.faint, s), c.colour, 1, [], 0.28);
    for (const c of this.curves) to.path(this.points(c, s), c.colour, c.strong ? 2.6 : 1.7, T.dashes[c.dash] || [], 1);
    return s;
  }

  points(c, s) {
    const {logx, logy} = this.options, out = [];
    for (let i = 0; i < c.x.length; i++) {
      const good = Number.isFinite(c.y[i]) && Number.isFinite(c.x[i]) && !(logy && c.y[i] <= 0) && !(logx && c.x[i] <= 0);
      out.push(good ? [s.x(c.x[i]), s.y(c.y[i])] : null); // a gap
    }
    return out;
  }

  draw() {
    const width = this.box.clientWidth, height = this.box.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!width || !height) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const g = this.canvas.getContext('2d');
    g.scale(ratio, ratio);
    g.font = '11px system-ui, "DejaVu Sans", sans-serif';
    const dim = T.css('--dim'), grid = T.css('--grid');
    const s = this.paint({
      line: (x0, y0, x1, y1) => { g.strokeStyle = grid; g.lineWidth = 1; g.beginPath(); g.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5); g.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5); g.stroke(); },
      text: (text, x, y, align) => { g.fillStyle = dim; g.textAlign = align; g.fillText(text, x, y); },
      clip: (b) => { g.save(); g.beginPath(); g.rect(b.left - 1, b.top - 1, b.right - b.left + 2, b.bottom - b.top + 2); g.clip(); },
      path: (points, colour, thick, dash, alpha) => this.stroke(g, points, colour, thick, dash, alpha),
    }, width, height);
    if (this.cursor !== null) this.drawCursor(g, s);
    if (this.drag) { g.fillStyle = T.css('--accent') + '33'; g.fillRect(Math.min(this.drag.from, this.drag.to), s.top, Math.abs(this.drag.to - this.drag.from), s.bottom - s.top); }
    g.restore();
  }

  stroke(g, points, colour, thick, dash, alpha) {
    let down = false, alone = null;
    g.strokeStyle = g.fillStyle = colour;
    g.globalAlpha = alpha;
    g.lineWidth = thick;
    g.lineJoin = 'round';
    g.setLineDash(dash);
    g.beginPath();
    for (let i = 0; i <= points.length; i++) {
      const p = points[i];
      if (p && down) { g.lineTo(p[0], p[1]); alone = null; }
      else if (p) { g.moveTo(p[0], p[1]); alone = p; }
      else if (alone) { g.moveTo(alone[0] + 3, alone[1]); g.arc(alone[0], alone[1], 3, 0, 7); alone = null; }
      down = !!p;
    }
    g.stroke();
    g.setLineDash([]);
    g.globalAlpha = 1;
  }

  // The point of a curve that is nearest to a place on the axis.
  static nearest(c, x) {
    let low = 0, high = c.x.length - 1;
    while (low < high) { const mid = (low + high) >> 1; if (c.x[mid] < x) low = mid + 1; else high = mid; }
    if (low > 0 && Math.abs(c.x[low - 1] - x) <= Math.abs(c.x[low] - x)) low--;
    return low;
  }

  drawCursor(g, s) {
    const px = s.x(this.cursor);
    g.strokeStyle = T.css('--dim');
    g.lineWidth = 1;
    g.setLineDash([3, 3]);
    g.beginPath(); g.moveTo(px, s.top); g.lineTo(px, s.bottom); g.stroke();
    g.setLineDash([]);
    for (const c of this.curves) {
      if (!c.x.length) continue;
      const i = T.Chart.nearest(c, this.cursor);
      if (!Number.isFinite(c.y[i])) continue;
      g.fillStyle = c.colour;
      g.beginPath(); g.arc(s.x(c.x[i]), s.y(c.y[i]), 3.5, 0, 7); g.fill();
    }
  }

  // --- hands ----------------------------------------------------------------------------------

  point(x) {
    this.cursor = x;
    this.draw();
    if (this.calls.onpoint) this.calls.onpoint(x);
  }

  zoom(range) {
    const all = range && !(range[0] < range[1]);
    this.range = all ? null : range;
    this.draw();
    if (this.calls.onzoom) this.calls.onzoom(this.range);
  }

  // By a factor around a place, or along the axis by a share of what is seen.
  scale(factor, at) {
    const s = this.last;
    const x = at === undefined ? (s.x0 + s.x1) / 2 : at;
    this.zoom([x - (x - s.x0) * factor, x + (s.x1 - x) * factor]);
  }

  pan(share) {
    const s = this.last, by = (s.x1 - s.x0) * share;
    this.zoom([s.x0 + by, s.x1 + by]);
  }

  listen() {
    const c = this.canvas, place = (e) => e.clientX - c.getBoundingClientRect().left;
    c.addEventListener('pointerdown', (e) => {
      if (e.button !== 0 || e.pointerType === 'touch') return;
      this.drag = {from: place(e), to: place(e), pan: e.shiftKey, s: this.last};
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener('pointermove', (e) => {
      const px = place(e), s = this.last;
      if (!s) return;
      if (this.drag && this.drag.pan) {
        const d = this.drag, by = d.s.back(d.from) - d.s.back(px);
        this.range = [d.s.x0 + by, d.s.x1 + by];
      } else if (this.drag) this.drag.to = px;
      this.point(px >= s.left && px <= s.right ? s.back(px) : null);
    });
    c.addEventListener('pointerup', () => {
      const d = this.drag;
      this.drag = null;
      if (!d) return;
      if (d.pan) this.zoom(this.range);
      else if (Math.abs(d.to - d.from) > 6) this.zoom([this.last.back(Math.min(d.from, d.to)), this.last.back(Math.max(d.from, d.to))]);
      else this.draw();
    });
    c.addEventListener('pointerleave', () => this.point(null));
    c.addEventListener('dblclick', () => this.zoom(null));
    c.addEventListener('wheel', (e) => {
      if (!e.ctrlKey && !e.metaKey) return; // the page scrolls as ever
      e.preventDefault();
      this.scale(e.deltaY > 0 ? 1.25 : 0.8, this.last.back(place(e)));
    }, {passive: false});
    c.addEventListener('keydown', (e) => this.key(e));
    c.addEventListener('blur', () => this.point(null));
  }

  key(e) {
    const s = this.last, way = e.key === 'ArrowLeft' ? -1 : 1;
    if (!s) return;
    if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
      if (e.shiftKey) this.pan(way * 0.2);
      else {
        const at = this.cursor === null ? (way > 0 ? s.left : s.right) : s.x(this.cursor);
        this.point(s.back(Math.min(s.right, Math.max(s.left, at + way * Math.max(2, (s.right - s.left) / 60)))));
      }
    } else if (e.key === '+' || e.key === '=') this.scale(0.6, this.cursor ?? undefined);
    else if (e.key === '-') this.scale(1 / 0.6, this.cursor ?? undefined);
    else if (e.key === '0' || e.key === 'Escape') this.zoom(null);
    else return;
    e.preventDefault();
  }

  // --- to take away ---------------------------------------------------------------------------

  toSvg(title) {
    const width = 720, height = 380, out = [];
    const text = (t) => String(t).replace(/[&<>"]/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[c]));
    const range = this.last;
    this.paint({
      line: (x0, y0, x1, y1) => out.push(`<line x1="${x0.toFixed(1)}" y1="${y0.toFixed(1)}" x2="${x1.toFixed(1)}" y2="${y1.toFixed(1)}" stroke="#e2e5ea"/>`),
      text: (t, x, y, align) => out.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${align === 'right' ? 'end' : 'middle'}">${text(t)}</text>`),
      clip: (s) => out.push(`<clipPath id="c"><rect x="${s.left}" y="${s.top}" width="${s.right - s.left}" height="${s.bottom - s.top}"/></clipPath>`),
      path: (points, colour, thick, dash, alpha) => {
        let d = '', down = false;
        for (const p of points) { if (p) d += `${down ? 'L' : 'M'}${p[0].toFixed(1)} ${p[1].toFixed(1)}`; down = !!p; }
        if (d) out.push(`<path clip-path="url(#c)" fill="none" stroke="${colour}" stroke-width="${thick}" stroke-dasharray="${dash.join(' ')}" opacity="${alpha}" d="${d}"/>`);
      },
    }, width, height - 40);
    this.last = range;
    const names = this.curves.slice(0, 8).map((c, i) => `<text x="${50 + (i % 4) * 168}" y="${height - 22 + Math.floor(i / 4) * 15}" fill="${c.colour}">${text(c.label.slice(0, 26))}</text>`);
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -20 ${width} ${height + 20}" font-family="sans-serif" font-size="11" fill="#555"><rect y="-20" width="${width}" height="${height + 20}" fill="#fff"/><text x="46" y="-4" font-size="13" fill="#111">${text(title)}</text>${out.join('')}${names.join('')}</svg>\n`;
  }

  toPng() { return this.canvas.toDataURL('image/png'); }

  toCsv() {
    const quote = (t) => /[",\n]/.test(t) ? '"' + t.replace(/"/g, '""') + '"' : t;
    const rows = ['curve,' + (this.options.axis || 'step') + ',value'];
    for (const c of this.curves) {
      const from = c.faint || c;
      for (let i = 0; i < from.x.length; i++) rows.push(`${quote(c.label)},${from.x[i]},${from.y[i]}`);
    }
    return rows.join('\n') + '\n';
  }
};
