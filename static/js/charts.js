// Draws the charts of a page again with Plotly, from the figure definition that stands beside each
// SVG: hover, zoom, and a click on an hour that opens the annotation form. Without this script, or
// when it fails, the SVG stays. Nothing is asked of any other site.
"use strict";

(() => {
  const here = document.currentScript;
  const blocks = [...document.querySelectorAll("script[data-chart]")];
  if (!blocks.length || !here) return;

  const narrow = matchMedia("(max-width: 760px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  let loading = null;

  // The style sheets Plotly would write into the page are in css/plotly.css instead (the policy
  // of the site allows no inline styles); elements of these names tell it so.
  const plotly = () => {
    loading ??= new Promise((done, failed) => {
      for (const id of ["plotly.js-style-global", "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53"]) {
        const mark = document.createElement("meta");
        mark.id = id;
        mark.className = "no-inline-styles";
        document.head.append(mark);
      }
      const script = document.createElement("script");
      script.src = here.dataset.plotly;
      script.onload = () => done(window.Plotly);
      script.onerror = failed;
      document.head.append(script);
    });
    return loading;
  };

  const toned = (trace) => {
    const tone = trace.meta?.tone;
    if (trace.type === "bar") {
      const tones = Array.isArray(tone) ? tone.map(colour) : colour(tone);
      return { ...trace, marker: { color: tones }, textfont: { color: colour("ink"), size: 11 }, cliponaxis: false };
    }
    const line = { ...trace.line, color: colour(tone) };
    return { ...trace, line, fillcolor: trace.stackgroup ? colour(tone) : undefined };
  };

  const laidOut = (layout) => {
    const axis = { gridcolor: colour("line"), linecolor: colour("line-strong"), zerolinecolor: colour("line-strong"), tickcolor: colour("line-strong"), automargin: true };
    return {
      ...layout,
      autosize: true,
      height: layout.height ?? 240,
      margin: { l: 8, r: 12, t: 28, b: 28 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "Inter, sans-serif", size: 11, color: colour("ink") },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line-strong"), font: { color: colour("ink") } },
      hovermode: layout.xaxis?.type === "date" ? "x unified" : "closest",
      dragmode: coarse.matches ? false : "zoom",
      legend: { orientation: "h", x: 0, y: 1.16 },
      xaxis: { ...axis, showgrid: false, ...layout.xaxis },
      yaxis: { ...axis, fixedrange: true, ...layout.yaxis },
      shapes: (layout.shapes ?? []).map((s) => ({ ...s, line: { ...s.line, color: colour("quiet") } })),
    };
  };

  const annotate = (figure, event) => {
    const point = event.points?.[0];
    const start = Date.parse(point?.data.meta?.start ?? "");
    if (!figure.note || Number.isNaN(start)) return;
    const at = new Date(start + point.pointNumber * 3600000).toISOString().replace(".000Z", "Z");
    location.assign(`${figure.note}&at=${at}#h-new`);
  };

  const draw = async (block) => {
    const svg = document.getElementById(block.dataset.chart);
    const figure = JSON.parse(block.textContent);
    const Plotly = await plotly();
    const place = document.createElement("div");
    place.className = "live";
    place.setAttribute("aria-hidden", "true"); // the SVG keeps telling screen readers
    svg.before(place);
    const paint = () => Plotly.react(place, figure.data.map(toned), laidOut(figure.layout), { displayModeBar: false, responsive: true, doubleClick: "reset" });
    try {
      await paint();
    } catch (problem) {
      place.remove();
      throw problem;
    }
    svg.classList.add("replaced");
    place.on("plotly_click", (event) => annotate(figure, event));
    dark.addEventListener("change", paint);
  };

  // On a phone the SVG, which scrolls, is easier to read than a chart drawn for 300 pixels.
  if (narrow.matches) return;
  document.documentElement.classList.add("scripted");
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      seen.unobserve(entry.target);
      const block = blocks.find((one) => one.dataset.chart === entry.target.id);
      (window.requestIdleCallback ?? setTimeout)(() => draw(block).catch(() => {}));
    }
  }, { rootMargin: "200px" });
  for (const block of blocks) {
    const svg = document.getElementById(block.dataset.chart);
    if (svg) seen.observe(svg);
  }
})();
