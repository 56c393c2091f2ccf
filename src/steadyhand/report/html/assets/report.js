"use strict";
(() => {
  const root = document.documentElement;
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Charts. Colours are custom properties, so that a change of theme needs no redrawing.
  const TIERS = ["target", "acceptable", "critical"];
  const TIER_FILL = {
    target: "var(--ok-solid)", acceptable: "var(--warn-solid)", critical: "var(--hot-solid)", exceeded: "var(--bad-solid)",
  };
  const FILL = { holds: "var(--ok-solid)", not_yet: "var(--wait)", broken: "var(--bad-solid)" };
  const ms = (value) => `${value >= 10 ? Math.ceil(value) : Math.ceil(value * 10) / 10} ms`;

  const fixed = (extra) => ({ className: "plot", style: { background: "transparent", color: "var(--ink)" }, ...extra });
  const words = (items, options) => Plot.text(items, { x: "x", y: "y", text: "text", ...options });

  function until(data) {
    // The time axis ends past the first bound that the answer met, or past the answer when that bound is far away.
    const kept = data.bounds.find((bound) => bound >= data.end);
    return kept !== undefined && data.end / kept >= 0.15 ? kept * 1.06 : data.end * (kept === undefined ? 1.08 : 1.5);
  }

  // Names of the bounds: to the left of their lines, on another row where they would overlap, or all in one line.
  function named(bounds, last, scale, wide) {
    const inside = bounds.filter((each) => each.at <= last);
    const beyond = bounds.filter((each) => each.at > last);
    const list = (some) => `${some.map((each) => `${each.name} ${each.at}`).join(" · ")} ms`;
    if (!wide) return bounds.length ? [{ x: 0, row: 0, text: list(bounds), textAnchor: "start" }] : [];
    const labels = inside.map((each) => ({ x: each.at, text: list([each]), textAnchor: "end" }));
    if (beyond.length) labels.push({ x: last, text: `${list(beyond)} →`, textAnchor: "end" });
    const taken = [];
    for (const each of labels) {
      const from = scale(each.x) - 6.6 * each.text.length - 8;
      each.row = [0, 1, 2].find((index) => (taken[index] ?? 0) <= from) ?? 3;
      taken[each.row] = scale(each.x);
    }
    return labels;
  }

  // The segments of every lane; the first one is the answer as a whole.
  function segments(data, first) {
    const bars = [];
    const known = data.safe !== null || data.lanes.some((lane) => lane.segments.length);
    if (!known) bars.push({ lane: 0, from: first, to: data.end, fill: "var(--accent)" });
    else if (data.safe === null) bars.push({ lane: 0, from: first, to: data.end, fill: FILL.broken });
    else {
      if (data.safe > first) bars.push({ lane: 0, from: first, to: data.safe, fill: FILL.not_yet });
      bars.push({ lane: 0, from: data.safe, to: Math.max(data.end, data.safe), fill: FILL.holds });
    }
    data.lanes.forEach((lane, index) => {
      for (const [from, to, state] of lane.segments) bars.push({ lane: index + 1, from, to, fill: FILL[state] });
      if (!lane.segments.length) bars.push({ lane: index + 1, from: first, to: data.end, fill: "none", stroke: lane.ok ? FILL.holds : FILL.broken });
    });
    return { bars, known };
  }

  function strip(data, width, label) {
    const wide = width >= 640;
    const left = wide ? 216 : 14, right = 20;
    const last = until(data);
    const scale = (at) => left + (at / last) * (width - left - right);
    const bounds = data.bounds.map((at, index) => ({ at, name: TIERS[index] }));
    const inside = bounds.filter((each) => each.at <= last);
    const labels = named(bounds, last, scale, wide);
    const head = 22 + 16 * Math.max(0, ...labels.map((each) => each.row));
    const gap = wide ? 38 : 46, lift = wide ? 6 : 24, thick = wide ? 26 : 18;
    const lanes = data.lanes.length + 1;
    const height = lanes * gap + 6;
    const top = (lane) => lane * gap + lift;
    const middle = (lane) => top(lane) + thick / 2;
    const first = data.chunks.length ? data.chunks[0][0] : data.first ?? data.end;
    const { bars, known } = segments(data, first);
    const shown = bars.map((bar) => ({ ...bar, to: Math.max(bar.to, bar.from + last / 250), y1: top(bar.lane), y2: top(bar.lane) + thick }));
    // On a narrow page the names are above the lanes, so zones and bounds leave room for them.
    const stretches = wide ? [[0, height]] : Array.from({ length: lanes }, (_, lane) => [top(lane) - 3, top(lane) + thick + 3]);
    const edges = [0, ...data.bounds, Infinity].map((at) => Math.min(at, last));
    const zones = data.bounds.length ? stretches.flatMap(([y1, y2]) => edges.slice(0, -1).map((x1, zone) => ({ x1, x2: edges[zone + 1], y1, y2, fill: `var(--zone-${zone})` }))).filter((zone) => zone.x2 > zone.x1) : [];
    const lines = stretches.flatMap(([y1, y2]) => inside.map((each) => ({ ...each, y1, y2 })));
    const names = [{ name: "The answer", text: data.cut ? `cut off at ${ms(data.end)}` : `complete at ${ms(data.end)}` }, ...data.lanes];
    const titles = names.map((each, lane) => ({ x: wide ? 0 : last, x0: 0, y: wide ? middle(lane) : top(lane), name: each.name, text: each.text }));
    const ends = data.lanes.map((lane, index) => ({ x: data.end, y: middle(index + 1), text: lane.ok ? "✓" : "✗", fill: lane.ok ? "var(--ok)" : "var(--bad)" }));
    const waits = wide && scale(Math.min(first, ...data.bounds)) - scale(0) > 150;
    const flag = data.safe !== null && scale(data.safe) + 190 > width ? "end" : "start";
    const verdict = data.safe !== null ? { x: data.safe, y: height + 16, text: `safe for good at ${ms(data.safe)}`, fill: "var(--ok)" }
      : { x: 0, y: height + 16, text: "never safe for good", fill: "var(--bad)" };
    const marks = [
      Plot.rect(zones, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: "fill" }),
      Plot.ruleX(lines, { x: "at", y1: "y1", y2: "y2", stroke: (each) => TIER_FILL[each.name], strokeDasharray: "4 3", strokeWidth: 1.5 }),
      ...labels.map((each) => words([{ ...each, y: 0 }], { textAnchor: each.textAnchor, dx: each.textAnchor === "end" ? 2 : 0, dy: -10 - 16 * each.row, fontSize: 11.5, fill: "var(--muted)" })),
      Plot.ruleX([0], { y1: 0, y2: height, stroke: "var(--muted)" }),
      Plot.rect([{ from: 0, to: first }], { x1: "from", x2: "to", y1: middle(0) - 1, y2: middle(0) + 1, fill: "var(--wait)" }),
      words(waits ? [{ x: 0, y: middle(0), text: "waiting for the first word" }] : [], { textAnchor: "start", dx: 6, dy: -8, fontSize: 11, fontStyle: "italic", fill: "var(--muted)" }),
      Plot.rect(shown, { x1: "from", x2: "to", y1: "y1", y2: "y2", fill: "fill", stroke: (bar) => bar.stroke ?? "none", strokeDasharray: "3 3", rx: 3 }),
      data.chunks.length > 1 ? Plot.ruleX(data.chunks, { x: (chunk) => chunk[0], y1: top(0) + 5, y2: top(0) + thick - 5, stroke: "var(--surface)", strokeOpacity: 0.8 }) : null,
      words(ends, { textAnchor: "start", dx: 7, fontSize: 15, fontWeight: 700, fill: "fill" }),
      data.safe !== null ? Plot.ruleX([data.safe], { y1: 0, y2: height + 8, stroke: "var(--ok)", strokeWidth: 2.5 }) : null,
      words(known ? [verdict] : [], { textAnchor: flag, dx: flag === "start" ? -1 : 1, dy: 2, fontSize: 13, fontWeight: 700, fill: "fill" }),
      Plot.text(titles, wide
        ? { x: "x0", y: "y", text: "name", textAnchor: "end", dx: -14, dy: -7, fontSize: 13, fontWeight: 600, fill: "var(--ink)", lineWidth: 15, textOverflow: "ellipsis" }
        : { x: "x0", y: "y", text: "name", textAnchor: "start", dy: -11, fontSize: 12, fontWeight: 600, fill: "var(--ink)", lineWidth: 12, textOverflow: "ellipsis" }),
      words(titles, { textAnchor: "end", dx: wide ? -14 : 0, dy: wide ? 8 : -11, fontSize: 11.5, fill: "var(--muted)", lineWidth: wide ? 17 : 14, textOverflow: "ellipsis" }),
      Plot.axisX({ anchor: "bottom", ticks: wide ? 8 : 4, tickSize: 4, label: null, tickFormat: (at) => `${at} ms`, color: "var(--muted)", fontSize: 11 }),
    ];
    const foot = known ? 24 : 4;
    return Plot.plot(fixed({
      width, height: head + height + foot + 28, marginTop: head, marginBottom: 28, marginLeft: left, marginRight: right, ariaLabel: label,
      x: { domain: [0, last] }, y: { domain: [0, height + foot], axis: null, range: [head, head + height + foot] }, marks: marks.filter(Boolean),
    }));
  }

  function latency(rows, width, label) {
    const wide = width >= 640;
    const left = wide ? 250 : 4, right = wide ? 150 : 4;
    const gap = wide ? 30 : 42;
    const lift = wide ? 5 : 20;
    const thick = 18;
    const share = (row, at) => at / row.bounds[2];
    const most = Math.max(1, ...rows.flatMap((row) => row.points.map((point) => share(row, point[0]))));
    const last = Math.min(Math.max(most * 1.06, 1.2), 2.5);
    const height = rows.length * gap + 4;
    const bands = [], ticks = [], points = [];
    rows.forEach((row, index) => {
      const edges = [0, ...row.bounds.map((bound) => share(row, bound)), last];
      edges.slice(0, -1).forEach((from, zone) => bands.push({ x1: from, x2: edges[zone + 1], y1: index * gap + lift, y2: index * gap + lift + thick, fill: `var(--zone-${zone})` }));
      row.bounds.forEach((bound, tier) => ticks.push({ x: share(row, bound), y1: index * gap + lift, y2: index * gap + lift + thick, stroke: TIER_FILL[TIERS[tier]] }));
      row.points.forEach(([at, tier], number) => points.push({
        x: Math.min(share(row, at), last), y: index * gap + lift + thick / 2 + (row.points.length > 1 ? (((number * 7) % 11) - 5) * 1.1 : 0),
        fill: TIER_FILL[tier], over: share(row, at) > last, title: `${row.name}\n${ms(at)}, ${tier}`,
      }));
    });
    const names = rows.map((row, index) => ({ x: 0, y: index * gap + (wide ? lift + thick / 2 : 10), text: row.name }));
    const budgets = rows.map((row, index) => ({ x: last, y: index * gap + (wide ? lift + thick / 2 : 10), text: `${row.bounds.join(" / ")} ms` }));
    return Plot.plot(fixed({
      width, height: height + 48, marginTop: 8, marginBottom: 36, marginLeft: left, marginRight: right, ariaLabel: label,
      x: { domain: [0, last] }, y: { domain: [0, height], range: [8, 8 + height], axis: null },
      marks: [
        Plot.rect(bands, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: "fill" }),
        Plot.ruleX(ticks, { x: "x", y1: "y1", y2: "y2", stroke: "stroke", strokeWidth: 2 }),
        Plot.dot(points.filter((point) => !point.over), { x: "x", y: "y", r: 4.5, fill: "fill", fillOpacity: 0.9, stroke: "var(--surface)", strokeWidth: 1, title: "title" }),
        words(points.filter((point) => point.over).map((point) => ({ ...point, text: "▶" })), { fill: "fill", fontSize: 12, textAnchor: "end", title: "title" }),
        words(names, wide ? { textAnchor: "end", dx: -12, fontSize: 12.5, fill: "var(--ink)", lineWidth: 18, textOverflow: "ellipsis" } : { textAnchor: "start", fontSize: 12, fill: "var(--ink)", lineWidth: 18, textOverflow: "ellipsis" }),
        words(budgets, wide ? { textAnchor: "start", dx: 10, fontSize: 11.5, fill: "var(--muted)" } : { textAnchor: "end", fontSize: 11, fill: "var(--muted)" }),
        Plot.axisX({ anchor: "bottom", ticks: wide ? 6 : 4, tickFormat: (at) => `${Math.round(at * 100)}%`, label: "of the critical time", labelAnchor: "right", labelArrow: "none", color: "var(--muted)", fontSize: 11 }),
      ],
    }));
  }

  const DRAW = { strip, latency };
  function draw(figure) {
    const canvas = figure.querySelector(".canvas");
    const width = Math.floor(canvas.clientWidth);
    if (!width || Number(figure.dataset.width) === width) return;
    const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const label = figure.querySelector("figcaption").textContent.trim();
    canvas.replaceChildren(DRAW[figure.dataset.chart](data, width, label));
    canvas.firstElementChild.setAttribute("role", "img");
    $$("g[aria-label]", canvas).forEach((each) => each.removeAttribute("aria-label")); // the picture has one name
    figure.dataset.width = width;
    if (figure.dataset.chart === "strip" && !figure.querySelector(".save")) offer(figure);
  }
  const drawAll = () => $$("[data-chart]").forEach(draw);

  // A picture for slides: the chart with its headline, in the colours of the moment.
  function offer(figure) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "save";
    button.textContent = "Save picture";
    button.addEventListener("click", () => save(figure));
    figure.querySelector("figcaption").after(button);
  }
  function save(figure) {
    const original = figure.querySelector(".canvas svg");
    const copy = original.cloneNode(true);
    const from = [original, ...$$("*", original)], to = [copy, ...$$("*", copy)];
    from.forEach((node, index) => {
      const style = getComputedStyle(node);
      for (const name of ["fill", "stroke", "color", "font-size", "font-weight", "font-family"]) to[index].style.setProperty(name, style.getPropertyValue(name));
    });
    const width = original.clientWidth, height = original.clientHeight + 64;
    const page = getComputedStyle(figure);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width: width + 48, height, viewBox: `0 0 ${width + 48} ${height}` })) svg.setAttribute(name, value);
    const back = document.createElementNS(svg.namespaceURI, "rect");
    for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill: page.backgroundColor })) back.setAttribute(name, value);
    const title = document.createElementNS(svg.namespaceURI, "text");
    const caption = getComputedStyle(figure.querySelector("figcaption"));
    for (const [name, value] of Object.entries({ x: 24, y: 32, fill: caption.color, "font-size": 18, "font-weight": 700, "font-family": caption.fontFamily })) title.setAttribute(name, value);
    title.textContent = figure.querySelector("figcaption").textContent.trim();
    copy.setAttribute("x", 24);
    copy.setAttribute("y", 48);
    svg.append(back, title, copy);
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * (width + 48);
      canvas.height = 2 * height;
      const context = canvas.getContext("2d");
      context.scale(2, 2);
      context.drawImage(image, 0, 0);
      const link = document.createElement("a");
      link.download = `safety-strip-${figure.closest("[id]")?.id ?? "trial"}.png`;
      link.href = canvas.toDataURL("image/png");
      link.click();
    });
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  }

  // Links lead to a trial that is folded away: open it.
  function reveal() {
    let target = null;
    try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    drawAll();
    target.scrollIntoView();
    (target.tagName === "DETAILS" ? target.querySelector("summary") : target).focus({ preventScroll: true });
  }

  const toggle = document.querySelector("[data-theme-toggle]");
  if (toggle) {
    const preferred = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);
    const name = () => { toggle.textContent = dark() ? "Light" : "Dark"; toggle.setAttribute("aria-label", `Use the ${dark() ? "light" : "dark"} theme`); };
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("steadyhand-theme", root.dataset.theme); } catch { /* a file may not store anything */ }
      name();
    });
    try { const kept = localStorage.getItem("steadyhand-theme"); if (kept) root.dataset.theme = kept; } catch { /* likewise */ }
    preferred.addEventListener("change", name);
    name();
  }

  let closed = [];
  function unfold() {
    closed = $$("details:not([open])");
    closed.forEach((each) => { each.open = true; });
    drawAll();
  }
  addEventListener("beforeprint", unfold);
  addEventListener("afterprint", () => closed.splice(0).forEach((each) => { each.open = false; }));
  addEventListener("hashchange", reveal);
  document.addEventListener("toggle", (event) => $$("[data-chart]", event.target).forEach(draw), true);
  addEventListener("resize", () => requestAnimationFrame(drawAll));
  $$("[data-grow]").forEach((each) => { each.style.flexGrow = each.dataset.grow; });
  drawAll();
  if (location.hash === "#print") unfold(); else reveal();
})();
