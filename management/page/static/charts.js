// Draws the overview's charts, figures and nodes from the live feed.
"use strict";

(() => {
  const place = document.getElementById("charts");
  if (!place || !window.uPlot || !window.EventSource) return;

  const keep = 600; // samples: the ten minutes that the feed begins with, at one a second
  const mega = 1024 * 1024;
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const at = (o, path) => path.split(".").reduce((x, k) => (x === null || x === undefined ? undefined : x[k]), o);
  const worst = (sample, field) => {
    const known = sample.nodes.map((n) => n[field]).filter((x) => typeof x === "number");
    return known.length ? Math.max(...known) : null;
  };
  const line = (label, stroke, of) => ({ label, stroke, of });

  // What each chart draws. Charts of nodes get a line for each of them.
  const ofNodes = (field, scale) => (samples) =>
    [...new Set(samples.flatMap((s) => s.nodes.map((n) => n.name)))].sort().map((name, i) =>
      line(name, `--c${(i % 5) + 1}`, (s) => {
        const node = s.nodes.find((n) => n.name === name);
        return node && typeof node[field] === "number" ? node[field] / scale : null;
      }));
  const charts = {
    rates: () => [
      line("published", "--c1", (s) => s.rates.publish), line("confirmed", "--c5", (s) => s.rates.confirm), line("delivered", "--c3", (s) => s.rates.deliver),
      line("acked", "--c2", (s) => s.rates.ack), line("redelivered", "--c4", (s) => s.rates.redeliver),
    ],
    queued: () => [
      line("ready", "--c1", (s) => s.totals.ready), line("unacked", "--c2", (s) => s.totals.unacked),
      line("delayed", "--c3", (s) => s.totals.delayed), line("dead letters", "--c4", (s) => s.totals.dead_letters),
    ],
    latency: () => [line("confirm", "--c1", (s) => worst(s, "confirm_p99_ms")), line("fsync", "--c2", (s) => worst(s, "fsync_p99_ms"))],
    cpu: ofNodes("cpu", 1),
    memory: ofNodes("memory_bytes", mega),
  };

  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

  let samples = [];
  const drawn = new Map(); // element → chart and its lines

  const build = (el) => {
    const lines = charts[el.dataset.chart](samples);
    const axis = () => ({ stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } });
    const plot = new uPlot({
      width: el.clientWidth, height: 180, cursor: { sync: { key: "overview" } }, scales: { y: { range: (u, min, max) => [0, Math.max(max * 1.1, 1)] } },
      axes: [{ ...axis(), space: 70, values: (u, at) => at.map(clock) }, { ...axis(), size: 60 }],
      series: [{ label: "time", value: (u, v) => (v === null ? "–" : clock(v)) }, ...lines.map((l) => ({ label: l.label, stroke: color(l.stroke), width: 1.5, points: { show: false } }))],
    }, rows(lines), el);
    drawn.set(el, { plot, lines });
    showNewest(plot);
  };
  // The legend has the newest figures, unless the pointer is on others.
  const showNewest = (plot) => {
    if (!(plot.cursor.left >= 0)) plot.setLegend({ idx: samples.length - 1 });
  };
  const rows = (lines) => [samples.map((s) => s.at / 1000), ...lines.map((l) => samples.map((s) => { const v = l.of(s); return v === undefined ? null : v; }))];

  const draw = () => {
    for (const el of place.querySelectorAll("[data-chart]")) {
      const old = drawn.get(el);
      const names = charts[el.dataset.chart](samples).map((l) => l.label).join();
      if (old && old.lines.map((l) => l.label).join() === names) {
        old.plot.setData(rows(old.lines));
        showNewest(old.plot);
        continue;
      }
      if (old) old.plot.destroy();
      build(el);
    }
  };
  const rebuild = () => {
    for (const [el, old] of drawn) {
      old.plot.destroy();
      drawn.delete(el);
    }
    if (samples.length) draw();
  };

  const thousands = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  const figure = (path, v) => {
    if (typeof v !== "number") return "–";
    if (!path.startsWith("rates.")) return thousands(v);
    return (v >= 1000 ? thousands(v) : v >= 100 || v === Math.trunc(v) ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2)) + "/s";
  };
  const bytes = (n) => {
    if (typeof n !== "number") return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let i = 0;
    for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
    return `${n >= 100 || n === Math.trunc(n) ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)} ${units[i]}`;
  };

  // The nodes, in the words of the server. One that has joined is drawn as a copy of another.
  const map = document.getElementById("map");
  const stateOf = (n) => {
    if (n.refused) return "refused";
    if (!n.answers) return "does not answer";
    if (n.draining) return "drained";
    return n.start_phase && n.start_phase !== "started" ? "starting" : "runs";
  };
  const drawNode = (el, n) => {
    const set = (of, text) => { el.querySelector(`[data-of="${of}"]`).textContent = text; };
    if (el.dataset.node !== n.name) {
      el.dataset.node = n.name;
      set("name", n.name);
      el.querySelector("a").href = `/ui/node?${new URLSearchParams({ name: n.name })}`;
      el.querySelector("meter").setAttribute("aria-label", `Queues that ${n.name} leads`);
    }
    el.className = `node ${n.answers && !n.refused ? "up" : "down"}`;
    set("state", stateOf(n));
    set("leads", thousands(n.leads));
    set("members", thousands(n.members));
    set("version", n.version || "–");
    set("disk", bytes(n.disk_free_bytes));
    const meter = el.querySelector("meter");
    meter.max = Math.max(n.members, 1);
    meter.value = n.leads;
    meter.textContent = n.leads;
  };
  const drawNodes = (nodes) => {
    const drawn = new Map([...map.children].map((el) => [el.dataset.node, el]));
    for (const n of nodes) {
      if (!drawn.has(n.name)) map.append(map.firstElementChild.cloneNode(true));
      drawNode(drawn.get(n.name) || map.lastElementChild, n);
      drawn.delete(n.name);
    }
    for (const el of drawn.values()) el.remove();
  };

  const alarms = document.getElementById("alarms");
  const show = (s) => {
    for (const el of document.querySelectorAll("[data-field]")) el.textContent = figure(el.dataset.field, at(s, el.dataset.field));
    drawNodes(s.nodes);
    const said = [...s.alarms, ...s.silent.map((n) => `Node ${n} does not answer.`)];
    if (alarms.dataset.said === said.join("\n")) return;
    alarms.dataset.said = said.join("\n");
    alarms.replaceChildren(...said.map((text) => {
      const p = document.createElement("p");
      p.className = "warning";
      p.textContent = text;
      return p;
    }));
  };

  // A page that nobody sees has no stream: browsers allow a site few connections, and a viewer costs each node a little.
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(place.dataset.feed);
    source.addEventListener("history", (e) => {
      samples = JSON.parse(e.data).slice(-keep);
      if (samples.length) draw();
    });
    source.onmessage = (e) => {
      const s = JSON.parse(e.data);
      samples.push(s);
      if (samples.length > keep) samples.shift();
      show(s);
      draw();
    };
  };
  const close = () => {
    if (source) source.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  open();
  addEventListener("resize", () => {
    for (const [el, { plot }] of drawn) plot.setSize({ width: el.clientWidth, height: 180 });
  });
  document.addEventListener("themed", rebuild);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  addEventListener("pagehide", close);
})();
