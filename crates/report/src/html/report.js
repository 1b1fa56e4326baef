// Makes the plots of a report interactive: zoom, cursor, series on and off, data as a table. The plots are complete without
// it. Nothing is loaded, nothing is sent, and text from the data only ever becomes text.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const MOST_TICKS = 7, MARKED = 40, DRAWN = 4000, EDGE = 0.012;
const WIDTH = 760, NARROW = 280, RIGHT = 28;

// ---- values and axes, as plot/scale.rs has them --------------------------------------------------------------------

const rank = (most, unit) => {
  let at = 0;
  while (at + 1 < unit.prefixes.length && most >= unit.base ** (at + 1) * 0.99995) at++;
  return at;
};
const trimmed = (value, digits) => {
  if (value === 0 || !Number.isFinite(value)) return "0";
  const behind = Math.min(9, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  const text = value.toFixed(behind);
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
};
const percentile = odds => {
  const digits = Math.max(0, Math.ceil(Math.log10(Math.max(1, odds)) - 2 - 1e-9));
  return (100 * (1 - 1 / Math.max(1, odds))).toFixed(digits) + " %";
};
const DAY = 86400;
const STEPS = [1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 364 * DAY];
const date = (origin, after) => {
  const at = new Date(Math.round(origin + after) * 1000);
  return Number.isNaN(at.getTime()) ? "-" : at.toISOString().slice(0, 19).replace("T", " ");
};
const dates = (origin, s) => {
  const step = STEPS.find(step => step >= (s.high - s.low) / MOST_TICKS) ?? 364 * DAY, all = [];
  const [from, to] = step >= DAY ? [0, 10] : [5, step < 60 ? 19 : 16];
  for (let at = Math.ceil((origin + s.low) / step) * step; at - origin <= s.high && all.length < 50; at += step)
    all.push([at - origin, date(at, 0).slice(from, to)]);
  return all;
};
const show = (axis, units, value) => {
  if (axis.unit === "name") return axis.names[Math.round(value)] ?? "";
  if (axis.unit === "date") return date(axis.origin, value);
  if (axis.unit === "percentile") return percentile(value);
  if (axis.unit === "share") return trimmed(value, 4);
  const unit = units[axis.unit], at = rank(Math.abs(value), unit);
  const number = trimmed(value / unit.base ** at, unit.prefixes.length === 1 ? 4 : 3);
  const words = unit.prefixes[at] + unit.suffix;
  return words ? number + " " + words : number;
};
const scale = (low, high, log) => {
  if (!(low <= high)) [low, high] = [0, 1];
  if (log) {
    if (!(low > 0)) low = 1;
    if (!(high > low)) high = low * 10;
    return { low, high, log, at: v => (v > 0 ? Math.log(v / low) / Math.log(high / low) : null), value: p => low * (high / low) ** p };
  }
  if (!(high > low)) high = low + Math.max(Math.abs(low), 1);
  return { low, high, log, at: v => (v - low) / (high - low), value: p => low + (high - low) * p };
};
const nice = step => {
  if (!(step > 0)) return 1;
  const decade = 10 ** Math.floor(Math.log10(step));
  return decade * ([1, 2, 5].find(m => m * decade >= step * (1 - 1e-9)) ?? 10);
};
const ticks = (axis, units, s) => {
  if (axis.unit === "name") {
    const every = Math.max(1, Math.ceil(axis.names.length / 12));
    return { all: axis.names.map((name, at) => [at, name]).filter((_, at) => at % every === 0), unit: "" };
  }
  if (axis.unit === "date") return { all: dates(axis.origin, s), unit: "" };
  const inside = v => v >= s.low * 0.999 && v <= s.high * 1.001;
  if (axis.unit === "percentile") {
    const all = [1, 2, ...Array.from({ length: 12 }, (_, n) => 10 ** (n + 1))];
    return { all: all.filter(inside).map(v => [v, percentile(v)]), unit: "" };
  }
  const unit = units[axis.unit];
  if (s.log) {
    const base = axis.unit === "bytes" ? 2 : 10;
    const first = Math.floor(Math.log(s.low) / Math.log(base)), last = Math.ceil(Math.log(s.high) / Math.log(base));
    const span = last - first, every = Math.max(1, Math.ceil(span / (MOST_TICKS + 2)));
    const within = base > 2 && span <= 3 ? [1, 2, 5] : [1];
    let all = [];
    for (let n = first; n <= last; n++) if (((n % every) + every) % every === 0) for (const m of within) all.push(m * base ** n);
    all = all.filter(inside);
    if (all.length < 2) { // zoomed in so far that no power is seen
      const step = nice((s.high - s.low) / 4);
      all = [];
      const from = Math.ceil(s.low / step) * step;
      for (let n = 0; n < 20 && from + n * step <= s.high; n++) all.push(from + n * step);
    }
    const long = axis.unit === "bps" ? unit.suffix : ""; // Beside an axis there is no room for so long a unit.
    return { all: all.map(v => [v, show(axis, units, v).replace(long, "").trim()]), unit: long };
  }
  const at = rank(Math.max(Math.abs(s.high), Math.abs(s.low)), unit), factor = unit.base ** at;
  const step = nice((s.high - s.low) / factor / MOST_TICKS) * factor;
  const digits = Math.max(0, -Math.floor(Math.log10(step / factor)));
  const all = [];
  for (let n = Math.ceil(s.low / step - 1e-9); n <= s.high / step + 1e-9 && all.length < 60; n++)
    all.push([n * step, ((n * step) / factor).toFixed(Math.min(digits, 12))]);
  return { all, unit: unit.prefixes[at] + unit.suffix };
};

// ---- drawing ---------------------------------------------------------------------------------------------------------

const make = (name, attributes = {}, text) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const html = (name, attributes = {}, text) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const two = v => String(Math.round(Math.min(1e5, Math.max(-1e5, v)) * 100) / 100);
const textWidth = text => 6.6 * [...text].length;
// Which of some texts, each around a place, are written, and where: none beyond `end`, none over another.
const apart = (texts, end) => {
  let free = -Infinity;
  return texts.map(([at, text]) => {
    const half = textWidth(text) / 2, place = Math.min(at, end - half);
    if (place - half < free) return null;
    free = place + half + 6;
    return place;
  });
};
const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

class Chart {
  constructor(figure, plot, units) {
    Object.assign(this, { figure, plot, units });
    this.svg = figure.querySelector("svg.plot");
    this.axes = this.svg.querySelector(".axes");
    this.area = this.svg.querySelector(".area");
    const size = name => parseFloat(this.area.getAttribute(name));
    [this.left, this.top, this.wide, this.high] = ["x", "y", "width", "height"].map(size);
    this.width = this.wide + this.left + RIGHT;
    this.on = plot.series.map(() => true);
    this.zoom = null;
    this.place = null;
    this.over = make("g", { transform: `translate(${this.left} ${this.top})` });
    this.svg.append(this.over);
    this.range();
    this.tools();
    this.legend();
    this.pointer();
    this.keys();
    this.table();
    figure.chart = this;
    figure.dataset.ready = "1";
    new ResizeObserver(() => this.fit()).observe(figure);
  }

  // Draws in the width that there is, so that texts keep their size.
  fit(pixels = this.figure.clientWidth) {
    const width = Math.min(WIDTH, Math.max(NARROW, Math.floor(pixels)));
    if (!pixels || width === this.width) return;
    this.width = width;
    this.wide = width - this.left - RIGHT;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.svg.viewBox.baseVal.height}`);
    for (const part of [this.area, this.svg.querySelector(".frame")]) part.setAttribute("width", this.wide);
    this.draw();
  }

  // New data for the same plot: a live page calls this.
  update(plot) {
    const names = p => p.series.map(s => s.name).join("\n");
    const same = names(plot) === names(this.plot) && this.values.length === plot.series.length;
    this.plot = plot;
    plot.series.forEach((_, at) => (this.on[at] ??= true));
    if (!same) this.legend();
    this.draw();
    if (this.details.open) this.fill();
  }

  // Shows the last so many seconds, whatever comes, unless a reader zooms; 0 shows all.
  follow(seconds) { this.last = this.plot.x.unit === "second" ? seconds : 0; }

  shown() { return this.plot.series.filter((_, at) => this.on[at]); }

  // The scale of all of it.
  whole() {
    const { x } = this.plot;
    if (x.unit === "name") return scale(-0.5, x.names.length - 0.5, false);
    let [low, high] = x.atLeast ?? [Infinity, -Infinity];
    for (const s of this.plot.series) for (const v of s.x) if (!x.log || v > 0) { low = Math.min(low, v); high = Math.max(high, v); }
    if (x.unit === "second") { if (low === high) high *= 2; low = Math.min(low, 0); }
    else if (low === high && !x.log) { low -= Math.abs(low) / 2; high += Math.abs(high) / 2; }
    const bare = scale(low, high, x.log);
    return scale(bare.value(-EDGE), bare.value(1 + EDGE), x.log);
  }

  // The scales of what is shown now.
  range() {
    const { x, y } = this.plot, all = this.whole(), from = all.high - (this.last || Infinity);
    const part = this.zoom ?? (from > all.low ? [from, all.high] : null);
    this.x = part ? scale(part[0], part[1], x.log) : all;
    let [low, high] = y.atLeast ?? [Infinity, -Infinity];
    const see = v => { if (v !== null && Number.isFinite(v) && (!y.log || v > 0)) { low = Math.min(low, v); high = Math.max(high, v); } };
    for (const s of this.shown()) s.x.forEach((v, at) => {
      const end = s.style === "steps" ? s.x[at + 1] ?? v : v;
      if (part && (end < this.x.low || v > this.x.high)) return;
      see(s.y[at]);
      (s.spread[at] ?? []).forEach(see);
    });
    if (y.log) { this.y = scale(low / 1.25, high * 1.25, true); return; }
    low = Math.min(low, 0);
    const room = (high - low) * 0.05, held = y.atLeast && high <= y.atLeast[1];
    this.y = scale(low < 0 ? low - room : low, held ? high : high + room, false);
  }

  px(v) { const at = this.x.at(v); return at === null ? null : at * this.wide; }
  py(v) { const at = v === null ? null : this.y.log && v === 0 ? 0 : this.y.at(v); return at === null ? null : (1 - at) * this.high; }

  draw() {
    this.range();
    this.drawAxes();
    this.area.replaceChildren(...this.plot.series.flatMap((s, at) => (this.on[at] ? [this.drawSeries(s, at)] : [])));
    this.cursor();
  }

  drawAxes() {
    const { plot, units, wide, high } = this, parts = [];
    if (plot.shade) {
      const [from, to] = plot.shade.map(v => Math.min(wide, Math.max(0, this.px(v) ?? 0)));
      parts.push(make("rect", { class: "shade", x: two(from), y: 0, width: two(Math.max(0, to - from)), height: high }));
    }
    const across = ticks(plot.x, units, this.x), up = ticks(plot.y, units, this.y);
    const most = Math.max(6, Math.floor(wide / 7 / Math.max(1, across.all.length)));
    let grid = "";
    const below = make("g", { "text-anchor": "middle", transform: `translate(0 ${high + 19})` });
    const beside = make("g", { "text-anchor": "end", transform: "translate(-6 4)" });
    const seen = across.all.map(([v, text]) => [this.px(v), plot.x.unit === "name" ? short(text, most) : text]).filter(([x]) => x !== null && x >= -0.5 && x <= wide + 0.5);
    if (plot.x.unit !== "name") for (const [x] of seen) grid += `M${two(x)} 0V${high}`;
    apart(seen, wide + RIGHT).forEach((x, at) => { if (x !== null) below.append(make("text", { x: two(x) }, seen[at][1])); });
    for (const [v, text] of up.all) {
      const y = this.py(v);
      if (y === null || y < -0.5 || y > high + 0.5) continue;
      grid += `M0 ${two(y)}H${wide}`;
      beside.append(make("text", { y: two(y) }, text));
    }
    const room = Math.floor((wide + 2 * RIGHT) / 6.6);
    const label = (axis, unit) => short(`${axis.label}${axis.log ? " (log)" : ""}${unit ? `, ${unit}` : ""}`, room);
    below.append(make("text", { x: two(wide / 2), y: 20 }, label(plot.x, across.unit)));
    parts.push(make("path", { class: "grid", d: grid }), below, beside);
    parts.push(make("text", { x: two(8 - this.left), y: -17 }, label(plot.y, up.unit)));
    const taken = [];
    for (const [v, text] of plot.marks) {
      const x = this.px(v);
      if (x === null || x < 0 || x > wide) continue;
      parts.push(make("path", { class: "mark", d: `M${two(x)} 0V${high}` }));
      const end = x > wide / 2, long = textWidth(text) + 4, from = end ? x - long : x;
      if (taken.some(other => Math.abs(from + long / 2 - other.middle) < (long + other.long) / 2)) continue;
      taken.push({ middle: from + long / 2, long });
      parts.push(make("text", { x: two(end ? x - 4 : x + 4), y: 12, "text-anchor": end ? "end" : "start" }, text));
    }
    this.axes.replaceChildren(...parts);
  }

  drawSeries(s, at) {
    const group = make("g", { class: `series ${this.classes(at)}` });
    s.spread.forEach((spread, n) => {
      const x = spread && this.px(s.x[n]);
      if (!spread || x === null) return;
      const low = this.py(spread[0]) ?? this.high, top = this.py(spread[1]) ?? this.high;
      group.append(make("path", { class: "whisker", d: `M${two(x)} ${two(low)}V${two(top)}M${two(x - 4)} ${two(low)}h8M${two(x - 4)} ${two(top)}h8` }));
    });
    const floor = Math.min(this.high, Math.max(0, this.py(0) ?? this.high));
    if (s.style === "bars") this.bars(s, at, floor, group);
    else if (s.style === "steps") this.steps(s, floor, group);
    else this.points(s, group);
    return group;
  }

  bars(s, at, floor, group) {
    const isBars = q => q.style === "bars", all = this.plot.series.filter(isBars).length;
    const before = this.plot.series.slice(0, at).filter(isBars).length, width = 0.8 / all;
    s.x.forEach((v, n) => {
      const left = v - 0.4 + before * width, y = this.py(s.y[n]);
      if (y === null) return;
      const from = this.px(left), to = this.px(left + width * 0.94);
      group.append(make("rect", { class: "bar", x: two(from), y: two(Math.min(y, floor)), width: two(to - from), height: two(Math.abs(floor - y)) }));
    });
  }

  steps(s, floor, group) {
    let line = "", fill = "";
    for (let n = 0; n + 1 < s.x.length; n++) {
      const from = this.px(s.x[n]), to = this.px(s.x[n + 1]);
      if (from === null || to === null || s.y[n] === null || to < 0 || from > this.wide) continue;
      const y = two(this.py(s.y[n]) ?? this.high);
      line += `M${two(from)} ${two(floor)}V${y}H${two(to)}V${two(floor)}`;
      fill += `M${two(from)} ${two(floor)}V${y}H${two(to)}V${two(floor)}Z`;
    }
    group.append(make("path", { class: "fill", d: fill }), make("path", { class: "line", d: line }));
  }

  points(s, group) {
    // What is outside, but for one neighbour on each side, and what is denser than pixels is left out.
    let places = [];
    s.x.forEach((v, n) => { if (v >= this.x.low && v <= this.x.high) places.push(n); });
    if (places.length) places = [places[0] - 1, ...places, places.at(-1) + 1].filter(n => n >= 0 && n < s.x.length);
    const few = places.length <= MARKED;
    if (places.length > DRAWN) {
      const stretch = Math.ceil(places.length / (DRAWN / 2)), kept = [];
      for (let n = 0; n < places.length; n += stretch) {
        const part = places.slice(n, n + stretch).filter(k => s.y[k] !== null);
        if (!part.length) { kept.push(places[n]); continue; }
        let low = part[0], top = part[0];
        for (const k of part) { if (s.y[k] < s.y[low]) low = k; if (s.y[k] > s.y[top]) top = k; }
        kept.push(...new Set([Math.min(low, top), Math.max(low, top)]));
      }
      places = kept;
    }
    let path = "", down = false;
    const dots = [];
    for (const n of places) {
      const x = this.px(s.x[n]), y = this.py(s.y[n]);
      if (x === null || y === null) { down = false; continue; }
      path += `${down ? "L" : "M"}${two(x)} ${two(y)}`;
      down = true;
      if (few || s.style === "points") dots.push(make("circle", { class: "dot", cx: two(x), cy: two(y), r: few ? 3 : 1.4 }));
    }
    if (s.style !== "points") group.append(make("path", { class: "line", d: path }));
    group.append(...dots);
  }

  classes(at) {
    const dashed = this.plot.series[at].style === "dashed" ? " dashed" : "";
    return `s${at % 8}${at >= 8 ? " again" : ""}${dashed}`;
  }

  // ---- what a reader can do ----

  tools() {
    const bar = html("div", { class: "tools" });
    this.reset = html("button", { type: "button", hidden: "" }, "Show all");
    this.reset.addEventListener("click", () => this.show(null));
    this.said = html("span", { class: "at", "aria-live": "polite" }, "");
    bar.append(this.reset, this.said);
    this.figure.querySelector(".legend").before(bar);
    this.svg.setAttribute("tabindex", "0");
    this.svg.removeAttribute("role");
    this.svg.setAttribute("role", "application");
    this.svg.setAttribute("aria-roledescription", "plot");
  }

  legend() {
    const list = this.figure.querySelector(".legend");
    this.values = [];
    list.replaceChildren(...this.plot.series.map((s, at) => {
      const item = html("li"), key = html("button", { type: "button", class: "key", "aria-pressed": String(this.on[at]) });
      const sample = make("svg", { width: 24, height: 10, class: this.classes(at), "aria-hidden": "true" });
      sample.append(s.style === "points" ? make("circle", { class: "dot", cx: 12, cy: 5, r: 3 }) : make("path", { class: "line", d: "M0 5H24" }));
      const value = html("span", { class: "value" });
      this.values.push(value);
      key.append(sample, html("span", {}, s.name), value);
      key.addEventListener("click", () => {
        this.on[at] = !this.on[at];
        key.setAttribute("aria-pressed", String(this.on[at]));
        this.draw();
      });
      key.addEventListener("dblclick", () => {
        // This one alone, or all again.
        const alone = this.on.every((on, n) => on === (n === at));
        this.on = this.on.map((_, n) => alone || n === at);
        list.querySelectorAll(".key").forEach((k, n) => k.setAttribute("aria-pressed", String(this.on[n])));
        this.draw();
      });
      item.append(key);
      return item;
    }));
  }

  show(zoom) {
    this.zoom = zoom;
    this.reset.hidden = !zoom;
    this.draw();
  }

  zoomBy(factor) {
    if (this.plot.x.unit === "name") return;
    const all = this.whole(), full = [all.low, all.high], s = this.x;
    const middle = this.place === null ? 0.5 : Math.min(1, Math.max(0, s.at(this.place) ?? 0.5));
    const low = Math.max(full[0], s.value(middle - middle * factor)), high = Math.min(full[1], s.value(middle + (1 - middle) * factor));
    this.show(low <= full[0] && high >= full[1] ? null : [low, high]);
  }

  within(event) {
    const box = this.svg.getBoundingClientRect(), view = this.svg.viewBox.baseVal;
    return Math.min(1, Math.max(0, ((event.clientX - box.left) / box.width * view.width - this.left) / this.wide));
  }

  pointer() {
    let from = null;
    const band = make("rect", { class: "band", y: 0, height: this.high });
    this.svg.addEventListener("pointerdown", event => {
      if (event.button !== 0 || this.plot.x.unit === "name") return;
      from = this.within(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", event => {
      const at = this.within(event);
      this.place = this.x.value(at);
      this.cursor();
      if (from !== null && Math.abs(at - from) > 0.01) {
        band.setAttribute("x", two(Math.min(from, at) * this.wide));
        band.setAttribute("width", two(Math.abs(at - from) * this.wide));
        this.over.append(band);
      }
    });
    const end = event => {
      const at = this.within(event), start = from;
      from = null;
      band.remove();
      if (start !== null && event.type === "pointerup" && Math.abs(at - start) > 0.01) {
        this.show([Math.min(start, at), Math.max(start, at)].map(p => this.x.value(p)));
      }
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", end);
    this.svg.addEventListener("pointerleave", () => { if (from === null) { this.place = null; this.cursor(); } });
    this.svg.addEventListener("dblclick", () => this.show(null));
  }

  keys() {
    this.svg.addEventListener("keydown", event => {
      const places = this.places();
      const move = by => {
        let at = this.place === null ? (by > 0 ? -1 : places.length) : places.findLastIndex(v => v <= this.place + Math.abs(this.place) * 1e-12);
        at = Math.min(places.length - 1, Math.max(0, at + by));
        if (places.length) this.place = places[at];
        this.cursor(true);
      };
      const deed = {
        ArrowLeft: () => move(-1), ArrowRight: () => move(1),
        Home: () => { this.place = places[0] ?? null; this.cursor(true); },
        End: () => { this.place = places.at(-1) ?? null; this.cursor(true); },
        "+": () => this.zoomBy(0.5), "=": () => this.zoomBy(0.5), "-": () => this.zoomBy(2),
        0: () => this.show(null), Escape: () => this.show(null),
      }[event.key];
      if (!deed || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      deed();
    });
    this.svg.addEventListener("blur", () => { this.place = null; this.cursor(); });
  }

  // All places of what is shown, in order.
  places() {
    const all = new Set(this.shown().flatMap(s => s.x.filter((v, at) => s.y[at] !== null && v >= this.x.low && v <= this.x.high)));
    return [...all].sort((a, b) => a - b);
  }

  // The point of a series that belongs to the cursor: of steps the one that holds there, else the nearest.
  nearest(s) {
    if (s.style === "steps") {
      const at = s.x.findLastIndex(v => v <= this.place);
      return at >= 0 && at + 1 < s.x.length ? at : null;
    }
    const far = v => { const a = this.x.at(v), b = this.x.at(this.place); return a === null || b === null ? Infinity : Math.abs(a - b); };
    let best = null;
    s.x.forEach((v, at) => { if (s.y[at] !== null && (best === null || far(v) < far(s.x[best]))) best = at; });
    return best !== null && far(s.x[best]) < 0.1 ? best : null;
  }

  cursor(aloud = false) {
    this.over.querySelectorAll(".cursor, .dot").forEach(old => old.remove());
    if (this.place === null) {
      this.said.textContent = "";
      // Of a run that goes on the latest values are told.
      const latest = s => (s.style === "line" || s.style === "dashed" ? s.y.findLast(v => v !== null) : undefined);
      this.values.forEach((value, at) => {
        const v = this.live && this.on[at] ? latest(this.plot.series[at]) : undefined;
        value.textContent = v === undefined ? "" : show(this.plot.y, this.units, v);
      });
      return;
    }
    const x = this.px(this.place), words = [];
    if (x !== null && x >= 0 && x <= this.wide) this.over.append(make("path", { class: "cursor", d: `M${two(x)} 0V${this.high}` }));
    this.plot.series.forEach((s, at) => {
      const n = this.on[at] ? this.nearest(s) : null;
      const text = n === null || s.y[n] === null ? "" : show(this.plot.y, this.units, s.y[n]);
      this.values[at].textContent = text;
      if (!text) return;
      words.push(`${s.name} ${text}`);
      const dx = this.px(s.x[n]), dy = this.py(s.y[n]);
      if (s.style !== "steps" && s.style !== "bars" && dx !== null && dy !== null)
        this.over.append(make("circle", { class: `dot s${at % 8}`, cx: two(dx), cy: two(dy), r: 4 }));
    });
    const where = `${this.plot.x.label || "at"} ${show(this.plot.x, this.units, this.place)}`;
    this.said.textContent = aloud ? `${where}: ${words.join(", ")}` : where;
  }

  table() {
    this.details = html("details", { class: "table" });
    this.details.append(html("summary", {}, "Data of this plot"));
    this.details.addEventListener("toggle", () => { if (this.details.open) this.fill(); });
    this.figure.append(this.details);
  }

  fill() {
    const wide = html("div", { class: "wide" }), table = html("table"), head = html("tr"), body = html("tbody");
    head.append(html("th", { scope: "col" }, this.plot.x.label));
    this.plot.series.forEach(s => head.append(html("th", { scope: "col" }, s.name)));
    const rows = new Map();
    this.plot.series.forEach((s, at) => s.x.forEach((v, n) => {
      if (!rows.has(v)) rows.set(v, []);
      rows.get(v)[at] = s.y[n];
    }));
    const places = [...rows.keys()].sort((a, b) => a - b);
    for (const place of places.slice(0, 2000)) {
      const row = html("tr");
      row.append(html("th", { scope: "row" }, show(this.plot.x, this.units, place)));
      this.plot.series.forEach((_, at) => {
        const y = rows.get(place)[at];
        row.append(html("td", {}, y === undefined || y === null ? "–" : show(this.plot.y, this.units, y)));
      });
      body.append(row);
    }
    const top = html("thead");
    top.append(head);
    table.append(top, body);
    wide.append(table);
    const more = places.length > 2000 ? [html("p", { class: "soft" }, `and ${places.length - 2000} more rows, in the run's files`)] : [];
    this.details.replaceChildren(this.details.firstChild, wide, ...more);
  }
}

// ---- begin -----------------------------------------------------------------------------------------------------------

{
  const told = document.getElementById("data");
  if (told) {
    const { plots, units } = JSON.parse(told.textContent);
    const charts = [...document.querySelectorAll("figure[data-plot]")].map(figure => new Chart(figure, plots[Number(figure.dataset.plot)], units));
    document.body.dataset.plots = String(charts.length);
  }
  // On paper everything is open; of a long sweep only what the reader has opened, or it would be a hundred sheets.
  const folded = [...document.querySelectorAll("details:not(.table)")];
  const few = document.querySelectorAll("figure[data-plot]").length <= 40;
  const plots = document.getElementById("plots");
  (plots?.querySelector("h2") ?? plots)?.after(html("p", { class: "soft help" },
    "Drag across a plot to zoom in, double click to zoom out; with keys, when a plot has the focus: ← → + − 0. Click a name to hide its series."));
  const fit = width => document.querySelectorAll("figure").forEach(figure => figure.chart?.fit(width));
  addEventListener("beforeprint", () => fit(WIDTH));
  addEventListener("afterprint", () => fit());
  addEventListener("beforeprint", () => folded.forEach(d => (d.open ||= few || !d.querySelector("figure"))));
}
