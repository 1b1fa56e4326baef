// Keeps a page up to date with what the program tells (`/events`): parts of the report, and plots, which are those of
// report.js. A reader's zoom, choice of series, open tables and selection stay as they are.
"use strict";
{
  const id = name => document.getElementById(name);
  const state = (kind, text) => { id("state").className = "state " + kind; id("state").textContent = text; };
  // By name: what is known of a plot, its chart, whether it is in sight, whether something new waits to be drawn.
  const known = new Map();
  let units = {}, version = null, span = 0;

  const sight = new IntersectionObserver(entries => {
    for (const entry of entries) {
      const one = known.get(entry.target.dataset.name);
      if (!one) continue;
      one.seen = entry.isIntersecting;
      if (one.seen && one.stale) draw(one);
    }
  }, { rootMargin: "200px" });

  const draw = one => {
    one.stale = false;
    one.chart.update(one.plot);
  };

  // ---- parts of the report ----

  const part = (name, text) => {
    for (const place of document.querySelectorAll(`[data-part="${name}"]`)) {
      const selection = getSelection();
      // What a reader has marked to copy stays; it is brought up to date with what comes next.
      if (!selection.isCollapsed && place.contains(selection.anchorNode)) { waiting.set(name, text); continue; }
      waiting.delete(name);
      const open = [...place.querySelectorAll("details")].map(details => details.open);
      const wide = [...place.querySelectorAll(".wide")].map(box => box.scrollLeft);
      // The program has escaped all that others said, and this page's policy lets no script in.
      place.innerHTML = text;
      place.querySelectorAll("details").forEach((details, at) => { details.open = open[at] ?? details.open; });
      place.querySelectorAll(".wide").forEach((box, at) => { box.scrollLeft = wide[at] ?? 0; });
    }
  };
  const waiting = new Map();

  // ---- plots ----

  const parsed = text => {
    const template = document.createElement("template");
    template.innerHTML = text;
    return template.content.firstElementChild;
  };

  // What was left out of a plot, because it is known, is put back.
  const joined = (old, plot) => {
    plot.series.forEach((series, at) => {
      if (series.keep === undefined) return;
      const before = old.series[at];
      for (const axis of ["x", "y"]) series[axis] = before[axis].slice(0, series.keep).concat(series[axis]);
    });
    return plot;
  };

  const framed = (name, frame) => {
    const figure = parsed(frame), one = known.get(name);
    if (one) { // Its words may have changed: the drawing stays.
      one.figure.querySelector("figcaption").replaceWith(figure.querySelector("figcaption"));
      return;
    }
    figure.dataset.name = name;
    known.set(name, { figure, seen: false, stale: true });
  };

  const plotted = (name, plot) => {
    const one = known.get(name);
    if (!one) return;
    one.plot = one.plot ? joined(one.plot, plot) : plot;
    one.stale = true;
  };

  // Puts figures where they belong; those of a phase that is over go.
  const placed = sheets => {
    const place = id("sheets"), there = [...place.children];
    sheets.forEach((sheet, at) => {
      const box = there[at] ?? place.appendChild(html("div", { class: "sheet" }));
      const title = box.querySelector("h3") ?? box.appendChild(html("h3"));
      title.textContent = sheet.title;
      title.hidden = !sheet.title;
      let before = title;
      for (const name of sheet.plots) {
        const one = known.get(name);
        if (!one) continue;
        if (before.nextElementSibling !== one.figure) before.after(one.figure);
        before = one.figure;
        if (!one.chart) {
          one.chart = new Chart(one.figure, one.plot, units);
          one.chart.live = true;
          one.chart.follow(span);
          sight.observe(one.figure);
        }
        if (one.stale && one.seen) draw(one);
      }
      while (before.nextElementSibling) forget(before.nextElementSibling);
    });
    there.slice(sheets.length).forEach(box => { box.querySelectorAll("figure").forEach(forget); box.remove(); });
    id("plots").hidden = !sheets.length;
    document.body.dataset.plots = String(known.size);
  };

  const forget = figure => {
    sight.unobserve(figure);
    if (known.get(figure.dataset.name)?.figure === figure) known.delete(figure.dataset.name);
    figure.remove();
  };

  id("span").addEventListener("change", event => {
    span = Number(event.target.value);
    for (const one of known.values()) if (one.chart) { one.chart.follow(span); one.chart.draw(); }
  });
  addEventListener("beforeprint", () => { for (const one of known.values()) if (one.chart) draw(one); });

  // ---- the feed ----

  const told = message => {
    if (message.from !== undefined && message.from !== version) return false;
    if (message.units) units = message.units;
    version = message.v;
    document.title = message.title;
    id("title").textContent = message.title;
    const now = new Set(message.sheets.flatMap(sheet => sheet.plots));
    for (const [name, one] of known) if (!now.has(name)) forget(one.figure);
    for (const [name, text] of waiting) part(name, text);
    for (const [name, text] of Object.entries(message.parts)) part(name, text);
    for (const [name, text] of Object.entries(message.frames)) framed(name, text);
    for (const [name, plot] of Object.entries(message.plots)) plotted(name, plot);
    placed(message.sheets);
    document.body.dataset.version = String(version);
    return true;
  };

  const clock = (at = Date.now()) => new Date(at).toLocaleTimeString();
  // The program gives a sign of life every 10 s: a connection that went without a word is given up when two of them are missing.
  const PATIENCE = 25000;
  // For so long it is said that the page was disconnected.
  const REMEMBER = 60000;
  let feed = null, heard = 0, lost = null, retry = 0, run = null, back = "", said = 0;

  const again = delay => {
    feed.close();
    clearTimeout(retry);
    retry = setTimeout(listen, delay);
  };

  const missed = () => {
    lost ??= clock(heard);
    state("lost", `disconnected since ${lost}: this is what the program told last. Trying again`);
  };

  const alive = () => { heard = Date.now(); };

  const listen = () => {
    feed = new EventSource("/events");
    version = null; // All of it is told anew: nothing is missing, and nothing doubled.
    alive();
    feed.onopen = alive;
    feed.addEventListener("beat", alive);
    feed.onmessage = event => {
      alive();
      const message = JSON.parse(event.data);
      if (!told(message)) return again(1000); // Something was missed: from the beginning.
      if (lost) {
        const whole = message.run === run ? "nothing of it is missing" : "this is another run than before";
        [back, said, lost] = [`; disconnected from ${lost} to ${clock()}, ${whole}`, Date.now(), null];
      }
      if (Date.now() - said > REMEMBER) back = "";
      run = message.run;
      if (message.ended) {
        feed.close();
        feed = null;
        state("", message.kind === "serve" ? `the server ended at ${clock()}` : `the run ended; this is its result, as of ${clock()}`);
      } else state("live", `live, ${clock()}${back}`);
      document.body.dataset.told = String(Number(document.body.dataset.told ?? 0) + 1);
    };
    feed.onerror = () => {
      missed();
      // A browser that was refused does not ask again by itself.
      if (feed.readyState === EventSource.CLOSED) again(3000);
    };
  };

  setInterval(() => {
    if (!feed || Date.now() - heard < PATIENCE) return;
    missed();
    again(0);
  }, 5000);
  listen();
}
