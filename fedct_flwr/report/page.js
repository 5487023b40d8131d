"use strict";
(() => {
  const root = document.documentElement;
  const darkens = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  let plots = JSON.parse(document.getElementById("plots").textContent);

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

  if (!("live" in document.body.dataset)) return;

  const main = document.getElementById("main");
  const status = document.getElementById("status");
  let last = "";
  let ended = false;
  let failures = 0;

  // New text around the old figures: they keep their zoom, details stay open, and the focus stays where it was.
  const update = (news) => {
    const open = new Set([...main.querySelectorAll("details[open]")].map((item) => item.id));
    // A table, by what stands around it.
    const place = (box) => `${box.closest("details, section")?.id} ${box.getAttribute("aria-label")}`;
    const boxes = () => new Map([...main.querySelectorAll(".scroll")].map((box) => [place(box), box]));
    const scrolled = new Map([...boxes()].map(([at, box]) => [at, [box.scrollLeft, box.scrollTop]]));
    const active = document.activeElement;
    const focusedBox = main.contains(active) && active.matches(".scroll") ? place(active) : "";
    const focused = main.contains(active) ? active.closest("details")?.id : "";
    const fresh = document.createElement("template");
    fresh.innerHTML = news.main;
    for (const place of fresh.content.querySelectorAll("[data-plot]")) {
      const old = main.querySelector(`[data-plot="${CSS.escape(place.dataset.plot)}"]`);
      if (!old) continue;
      old.setAttribute("aria-label", place.getAttribute("aria-label"));
      old.style.height = place.style.height;
      place.replaceWith(old);
    }
    for (const item of fresh.content.querySelectorAll("details")) item.open = open.has(item.id);
    main.replaceChildren(fresh.content);
    const renewed = boxes();
    for (const [at, [left, top]] of scrolled) renewed.get(at)?.scrollTo({ left, top, behavior: "instant" });
    if (renewed.has(focusedBox)) renewed.get(focusedBox).focus({ preventScroll: true });
    else if (focused) document.getElementById(focused)?.querySelector("summary")?.focus({ preventScroll: true });
    const contents = document.createElement("template");
    const links = document.getElementById("contents");
    for (const section of main.querySelectorAll("section")) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `#${section.id}`;
      link.textContent = section.querySelector("h2").textContent;
      item.append(link);
      contents.content.append(item);
    }
    // Who stands on a link stays there, unless there are other sections.
    const text = (list) => [...list.querySelectorAll("a")].map((link) => link.textContent).join();
    if (text(links) !== text(contents.content)) {
      const at = links.contains(document.activeElement) ? document.activeElement.hash : "";
      links.replaceChildren(contents.content);
      [...links.querySelectorAll("a")].find((link) => link.hash === at)?.focus({ preventScroll: true });
    }
    status.className = `status ${news.status}`;
    status.textContent = news.words;
    document.querySelector("h1").textContent = news.title;
    document.querySelector(".subtitle").textContent = news.subtitle;
    document.title = news.title;
    ended = news.status === "completed" || news.status === "failed";
    plots = news.plots;
    return draw();
  };

  const ask = async () => {
    try {
      const answer = await fetch("data", { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      if (text !== last) await update(JSON.parse(text));
      last = text;
      failures = 0;
    } catch {
      failures += 1;
      if (ended && failures > 1) {
        status.textContent += "; this page is no longer updated";
        return;
      }
      if (failures === 3) status.textContent = "fedct does not answer: this is what was known last";
    }
    setTimeout(ask, Math.min(1000 * 2 ** failures, 15000));
  };
  ask();
})();
