"use strict";
(() => {
  const root = document.documentElement;
  const darkens = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const plots = JSON.parse(document.getElementById("plots").textContent);

  // Storage may be closed to a page that was opened as a file.
  const stored = (value) => {
    try {
      if (value) localStorage.setItem("fedct-theme", value);
      return localStorage.getItem("fedct-theme");
    } catch {
      return null;
    }
  };

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkens.matches);

  const themed = (layout) => {
    const style = getComputedStyle(root);
    const color = (name) => style.getPropertyValue(name).trim();
    const axes = {};
    for (const name of Object.keys(layout)) {
      if (!/^[xy]axis\d*$/.test(name)) continue;
      const look = { gridcolor: color("--grid"), linecolor: color("--line"), zerolinecolor: color("--grid") };
      const title = { ...layout[name].title, font: { color: color("--soft"), size: 12 }, standoff: 8 };
      axes[name] = { ...look, tickfont: { size: 12 }, ...layout[name], title };
    }
    const annotations = layout.annotations?.map((word) => ({ ...word, font: { ...word.font, color: color("--soft") } }));
    return {
      ...layout,
      ...axes,
      annotations,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: color("--ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      hoverlabel: { bgcolor: color("--panel"), bordercolor: color("--line"), font: { color: color("--ink") } },
    };
  };

  // Where cells are narrow, numbers in them are too small to be read: the data table has them.
  const legible = (traces, place) => {
    for (const trace of traces) {
      if (trace.type === "heatmap" && place.clientWidth / (trace.x.length + 3) < 34) delete trace.texttemplate;
    }
    return traces;
  };

  const draw = () =>
    Promise.all(
      Object.entries(plots).map(([id, plot]) => {
        const place = document.querySelector(`[data-plot="${CSS.escape(id)}"]`);
        const shown = { displayModeBar: false, responsive: true };
        // Plotly writes into what it is given.
        const copy = structuredClone(plot);
        return place && Plotly.react(place, legible(copy.data, place), themed(copy.layout), shown);
      }),
    ).then(() => {
      document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
    });

  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colors" : "Use dark colors");
  };

  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(root.dataset.theme);
    name();
    draw();
  });
  darkens.addEventListener("change", () => {
    name();
    draw();
  });
  if (stored()) root.dataset.theme = stored();
  name();
  draw();
})();
