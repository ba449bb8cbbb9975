// Shows what comes from a stream of the node, the newest first: events, or lines of a log.
"use strict";

(() => {
  const place = document.getElementById("feed");
  if (!place || !window.EventSource) return;

  const keep = 500; // rows; those beyond them are dropped
  const sayEvery = 5000; // milliseconds: how often a screen reader hears how many have come
  const body = place.querySelector("tbody");
  const none = document.getElementById("feed-none");
  const state = document.getElementById("feed-state");
  const said = document.getElementById("feed-said");
  const pause = document.getElementById("pause");

  // Everything that comes from the stream is text, never HTML.
  const cell = (text, tag = "td") => {
    const el = document.createElement(tag);
    if (text !== undefined && text !== null && text !== "") {
      el.textContent = text;
      el.dir = "auto";
    }
    return el;
  };
  const badge = (text, kind) => {
    const el = document.createElement("td");
    const span = document.createElement("span");
    span.className = `badge ${kind}`;
    span.textContent = text;
    el.append(span);
    return el;
  };
  const clock = (ms) => {
    const el = document.createElement("td");
    const time = document.createElement("time");
    const at = new Date(ms);
    time.dateTime = at.toISOString();
    time.textContent = at.toISOString().slice(0, 19).replace("T", " ") + "Z";
    el.append(time);
    return el;
  };
  const words = (kind) => kind.replaceAll("_", " ");
  const levels = { error: "failed", warn: "running", info: "done", debug: "none" };
  const rows = {
    events: (e) => {
      if (e.kind === "missed") return [cell(""), cell("missed", "th"), cell(""), cell(`${e.count} events were not kept long enough`), cell(""), cell(e.node)];
      const what = [e.cause, e.detail, e.count ? `× ${e.count}` : ""].filter(Boolean).join(", ");
      return [clock(e.at_ms), cell(words(e.kind), "th"), cell(e.vhost), cell(e.name), cell(what), cell(e.node)];
    },
    log: (l) => {
      const text = document.createElement("td");
      const attributes = document.createElement("code");
      attributes.textContent = l.attributes;
      attributes.className = "dim";
      text.append(l.message, " ", attributes);
      return [clock(l.at_ms), badge(l.level, levels[l.level] || "none"), text];
    },
  };
  const cells = rows[place.dataset.shows];

  let paused = false;
  let waiting = []; // what has come while paused, the oldest first
  let unsaid = 0;
  const count = (n) => `${n} ${place.dataset.unit}${n === 1 ? "" : "s"}`;
  const showState = (text) => { state.textContent = text; };
  let from = ""; // the node whose log it is
  const running = () => showState(paused ? `Paused; ${count(waiting.length)}${waiting.length === keep ? " or more" : ""} wait.` : `Live${from}.`);

  const show = (items) => {
    const top = body.parentElement.parentElement; // the reader's place stays, unless it is the top
    const before = top.scrollHeight;
    for (const x of items) {
      const row = document.createElement("tr");
      const all = cells(x);
      for (const c of all) if (c.tagName === "TH") c.scope = "row";
      row.append(...all);
      body.prepend(row);
    }
    while (body.rows.length > keep) body.lastElementChild.remove();
    if (top.scrollTop > 0) top.scrollTop += top.scrollHeight - before;
    none.hidden = body.rows.length > 0;
  };

  // Rows that come at once, such as history, are shown at once.
  let batch = [];
  const flush = () => {
    const items = batch.sort((a, b) => a.at_ms - b.at_ms).slice(-keep); // nodes send what they have each on its own
    batch = [];
    if (paused) {
      waiting = waiting.concat(items).slice(-keep);
      running();
      return;
    }
    unsaid += items.length;
    show(items);
  };
  const add = (x) => {
    if (batch.push(x) === 1) setTimeout(flush, 100);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) {
      show(waiting);
      waiting = [];
    }
    running();
  });
  setInterval(() => {
    if (unsaid > 0 && !paused) said.textContent = `${count(unsaid)} more`;
    unsaid = 0;
  }, sayEvery);

  // Browsers do not show why a stream is refused, so the reason is asked for.
  const why = async () => {
    const stop = new AbortController();
    try {
      const r = await fetch(place.dataset.feed, { signal: stop.signal });
      if (r.ok) return "The stream has ended; open the page again.";
      if (r.status === 401) return "Your login has ended; open the page again.";
      return (await r.json()).reason;
    } catch {
      return "The node cannot be reached; open the page again.";
    } finally {
      stop.abort();
    }
  };

  const source = new EventSource(place.dataset.feed);
  let ended = false;
  const end = (text) => {
    ended = true;
    source.close();
    showState(text);
  };
  source.addEventListener("begin", (e) => {
    const { node } = JSON.parse(e.data);
    if (node) from = `: node ${node}`;
    running();
  });
  source.onmessage = (e) => add(JSON.parse(e.data));
  source.addEventListener("fault", (e) => end(JSON.parse(e.data).reason));
  source.onerror = async () => {
    if (ended) return;
    if (source.readyState === EventSource.CLOSED) end(await why());
    else showState("The node does not answer; trying again.");
  };
  addEventListener("pagehide", () => source.close());
})();
