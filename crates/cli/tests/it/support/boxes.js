// What is wrong with the boxes of a page's elements: a list of sentences, empty where all is well.
(() => {
  const wrong = [], say = (...words) => { if (wrong.length < 12) wrong.push(words.join(" ")); };
  const name = e => `${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}.${e.getAttribute("class") ?? ""} '${e.textContent.trim().slice(0, 30)}'`;
  const box = e => e.getBoundingClientRect(), seen = e => e.checkVisibility() && box(e).width > 0;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)].filter(seen);
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const width = document.documentElement.clientWidth;

  if (document.documentElement.scrollWidth > width) say("the page is", document.documentElement.scrollWidth, "wide, of", width);
  // What is within a drawing is looked at below.
  for (const e of all("body *:not(svg :not(svg))")) {
    // Tables alone may be wider than the page, in a box that shows it.
    if (!e.closest(".wide table") && box(e).right > width + 1) say(name(e), "ends at", box(e).right);
    if (e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible" && !e.matches(".wide, input, select"))
      say(name(e), "scrolls unseen");
  }
  for (const svg of all("svg.plot, svg.timeline")) {
    const frame = box(svg), texts = all("text", svg), boxes = texts.map(box);
    texts.forEach((text, at) => {
      const own = boxes[at];
      if (own.left < frame.left - 1 || own.right > frame.right + 1 || own.top < frame.top - 1 || own.bottom > frame.bottom + 1) say(name(text), "is cut in", name(svg.closest("figure, section")));
      for (let next = at + 1; next < texts.length; next++)
        if (over(own, boxes[next])) say(name(text), "touches", name(texts[next]), "in", svg.closest("figure, section").id);
    });
  }
  for (const svg of all("svg.plot")) {
    const figure = svg.closest("figure"), plot = figure.chart.plot, area = box(svg.querySelector(".area"));
    const drawn = mark => mark.getAttribute("d") !== "" && (box(mark).width > 0 || box(mark).height > 0);
    // A live plot is drawn when it comes into sight.
    if (figure.dataset.name && (box(svg).top > innerHeight || box(svg).bottom < 0)) continue;
    if (![...svg.querySelectorAll(".area path, .area rect, .area circle")].some(drawn)) say(figure.id, "is empty");
    if (plot.x.unit === "name" && svg.querySelector('.series > path.line:not([d=""])')) say(figure.id, "joins names by a line");
    svg.querySelectorAll(".area .series").forEach((series, at) => {
      const most = Math.max(0, ...plot.series[at].y.filter(y => y !== null));
      // Shares of one whole keep its scale.
      if (!(most > 0) || plot.y.atLeast) return;
      const tops = [...series.querySelectorAll("path, rect, circle")].filter(e => e.getAttribute("d") !== "").map(e => box(e).top);
      if (area.bottom - Math.min(...tops) < 0.02 * area.height) say(figure.id, plot.series[at].name, "lies flat");
    });
  }
  // The answer stands in the first view.
  const timeline = document.querySelector("#timeline"), screen = matchMedia("screen").matches;
  for (const e of screen ? all(".verdict, .tiles, #timeline") : []) {
    const end = box(e).bottom + scrollY, part = e === timeline && width < 640 ? box(e).top + scrollY + 130 : end;
    if (part > innerHeight) say(name(e), "ends at", end, "below the first view");
  }
  return wrong;
})()
