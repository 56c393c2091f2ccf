"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const grow = () => $$("[data-grow]").forEach((each) => { each.style.flexGrow = each.dataset.grow; });

  // Parts of a page that the server draws again. The selected line stays selected.
  function put(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const focused = document.activeElement?.getAttribute("href");
    const scrolled = $(".tall")?.scrollTop;
    for (const id of ["live", "list", "scenarios", "labels"]) {
      const now = document.getElementById(id), next = fresh.getElementById(id);
      if (now && next) now.replaceWith(next);
    }
    grow();
    if ($(".tall") && scrolled) $(".tall").scrollTop = scrolled;
    if (focused && document.activeElement === document.body) {
      $$("a[href]").find((each) => each.getAttribute("href") === focused)?.focus({ preventScroll: true });
    }
  }

  // Filtering while typing; the address always says what is shown.
  const filter = $("[data-filter]");
  let asked = 0;
  const query = () => {
    const given = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value !== ""));
    const skip = new URLSearchParams(location.search).get("skip");
    if (skip) given.set("skip", skip);
    return given;
  };
  async function narrow() {
    const given = query();
    given.delete("skip");
    const turn = ++asked;
    history.replaceState(null, "", `/run?${given}`);
    try {
      const response = await fetch(`/run/part?${given}&only=list`);
      const html = await response.text();
      if (turn === asked && response.ok) put(html);
    } catch { /* the server was stopped; the next page says so */ }
  }
  if (filter) {
    filter.addEventListener("input", narrow);
    filter.addEventListener("submit", (event) => {
      event.preventDefault();
      rows()[0]?.focus();
    });
  }

  // A run in progress: polled again a second after each response, while the page is visible.
  async function live() {
    const part = $("#live")?.dataset.live;
    if (!part) return;
    if (!document.hidden) {
      const turn = asked;
      try {
        const response = await fetch(filter ? `${part}?${query()}` : part);
        const html = await response.text();
        if (response.ok && turn === asked) put(html);
      } catch { return; }
    }
    setTimeout(live, 1000);
  }
  setTimeout(live, 1000);

  // Labels. A form that the browser sends by itself names no origin under our referrer policy, so a script sends it.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-label]")) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form));
    body.set("label", event.submitter?.value ?? "");
    body.set("by", $("#labels input[name=by]").value);
    const problem = $("#label-problem");
    try {
      const response = await fetch("/labels", { method: "POST", body });
      const html = await response.text();
      if (response.ok) {
        put(html);
        $("#labels-h").focus();
        return;
      }
      problem.textContent = new DOMParser().parseFromString(html, "text/html").querySelector(".sub")?.textContent ?? html;
    } catch {
      problem.textContent = "The label was not saved: the viewer did not respond. Is it still running?";
    }
    problem.hidden = false;
  });

  // The difference of two runs, scenario by scenario.
  function difference(figure) {
    const canvas = $(".canvas", figure);
    const width = Math.floor(canvas.clientWidth);
    if (!width || Number(figure.dataset.width) === width) return;
    const data = JSON.parse($('script[type="application/json"]', figure).textContent);
    const wide = width >= 640, left = wide ? 230 : 26, gap = wide ? 28 : 42, lift = wide ? 0 : 14;
    const fill = { regression: "var(--bad-solid)", fix: "var(--ok-solid)", flip: "var(--warn-solid)" };
    const middle = (at) => at * gap + gap / 2 + lift / 2;
    const most = Math.max(0.1, ...data.flatMap((each) => [Math.abs(each.low), Math.abs(each.high)]));
    const height = data.length * gap + 4;
    const rows = data.map((each, at) => ({ ...each, y: middle(at), y1: middle(at) - 2, y2: middle(at) + 2, fill: fill[each.kind], x0: -most }));
    const drawn = Plot.plot({
      className: "plot", style: { background: "transparent", color: "var(--ink)" },
      width, height: height + 44, marginTop: 6, marginBottom: 36, marginLeft: left, marginRight: 26, ariaLabel: $("figcaption", figure).textContent.trim(),
      x: { domain: [-most, most] }, y: { domain: [0, height], range: [6, 6 + height], axis: null },
      marks: [
        Plot.ruleX([0], { stroke: "var(--muted)", strokeWidth: 1.5 }),
        Plot.rect(rows, { x1: "low", x2: "high", y1: "y1", y2: "y2", fill: "fill", fillOpacity: 0.45 }),
        Plot.dot(rows, { x: "difference", y: "y", r: 5.5, fill: "fill", stroke: "var(--surface)" }),
        Plot.text(rows, wide
          ? { x: "x0", y: "y", text: "name", textAnchor: "end", dx: -14, fontSize: 12.5, fill: "var(--ink)", lineWidth: 17, textOverflow: "ellipsis" }
          : { x: "x0", y: "y", text: "name", textAnchor: "start", dx: -20, dy: -15, fontSize: 12, fill: "var(--ink)", lineWidth: 24, textOverflow: "ellipsis" }),
        Plot.axisX({ anchor: "bottom", ticks: wide ? 8 : 4, tickFormat: (at) => `${at > 0 ? "+" : ""}${Math.round(at * 100)}`, label: "percentage points of the pass rate", labelAnchor: "right", labelArrow: "none", color: "var(--muted)", fontSize: 11 }),
      ],
    });
    canvas.replaceChildren(drawn);
    drawn.setAttribute("role", "img");
    $$("g[aria-label]", canvas).forEach((each) => each.removeAttribute("aria-label"));
    figure.dataset.width = width;
  }
  const draw = () => $$("[data-difference]").forEach(difference);
  addEventListener("resize", () => requestAnimationFrame(draw));
  draw();

  // Keys
  const rows = () => $$("[data-row]");
  function step(by) {
    const on = $(by > 0 ? "[data-next]" : "[data-previous]");
    if (on) { location.assign(on.href); return; }
    const all = rows();
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }
  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    "/": () => { const text = $("[data-filter] input[type=search]"); text?.focus(); text?.select(); },
    u: () => { const up = $("[data-up]"); if (up) location.assign(up.href); },
    c: () => { const other = $("[data-compare]"); if (other) other.focus(); else location.assign("/compare"); },
    l: () => { $("#labels-h")?.focus(); $("#labels")?.scrollIntoView(); },
    t: () => $("[data-theme-toggle]").click(),
    "?": () => $("#keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("#keys").open) return;
    const field = event.target.closest("input, select, textarea");
    if (field) {
      if (event.key === "Escape") { field.blur(); event.preventDefault(); }
      return;
    }
    const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
    if (act) { event.preventDefault(); act(); }
  });
  $("[data-keys]").addEventListener("click", KEYS["?"]);
})();
