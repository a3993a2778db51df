// Arrow keys in tables, and live rows; the pages work without. Texts come harmless
// from the server and are set as text; nothing here makes markup of them.
"use strict";

// Up, Down, Home and End go from row to row of a table.
document.addEventListener("keydown", (e) => {
  const row = e.target.closest("tbody tr");
  if (!row || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
  const links = [...row.parentElement.rows].map((r) => r.querySelector("th a")).filter((a) => a);
  const at = links.indexOf(row.querySelector("th a"));
  const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: links.length - 1 }[e.key];
  if (to === undefined || !links[to]) return;
  e.preventDefault();
  links[to].focus();
});

(() => {
  const status = document.getElementById("live");
  const body = document.querySelector("#rows tbody");
  if (!status || !body || !window.EventSource) return;

  const kept = 200; // rows on the page
  let signed = Number(document.getElementById("signed").textContent);
  let fault = document.querySelector(".standing.bad") !== null;

  const cell = (tag, text, cls) => {
    const el = document.createElement(tag);
    if (cls) el.className = cls;
    el.textContent = text;
    return el;
  };
  const link = (tag, text, href) => {
    const el = document.createElement(tag);
    const a = document.createElement("a");
    a.href = href;
    a.textContent = text;
    el.append(a);
    return el;
  };
  const paint = (badge) => {
    const ok = Number(badge.dataset.seq) <= signed;
    badge.className = "badge " + (fault ? "bad" : ok ? "good" : "warn");
    badge.textContent = fault ? "in doubt" : ok ? "signed" : "not yet signed";
  };
  const badgeOf = (seq) => {
    const td = document.createElement("td");
    const badge = document.createElement("span");
    badge.dataset.seq = seq;
    paint(badge);
    td.append(badge);
    return td;
  };
  const row = (r) => {
    const tr = document.createElement("tr");
    tr.className = r.foreign ? "foreign fresh" : "fresh";
    const seq = link("th", String(r.seq), "/events/" + Number(r.seq));
    seq.scope = "row";
    const episode = r.to ? link("td", r.episode.slice(0, 40), r.to) : cell("td", "");
    episode.className = "nowrap";
    tr.append(seq, badgeOf(r.seq), cell("td", r.type, "nowrap"), cell("td", r.foreign ? "not by the logger" : r.principal, "nowrap"),
      cell("td", r.namespace, "nowrap"), cell("td", r.at, "nowrap"), episode, cell("td", r.data, "data"));
    return tr;
  };

  // Where another connection goes on: behind what came last, so that nothing comes twice.
  const address = new URL(status.dataset.live, location.href);
  const reached = (e) => {
    if (e.lastEventId) address.searchParams.set("after", e.lastEventId);
  };
  const show = (e) => {
    reached(e);
    const none = body.querySelector("tr.none");
    if (none) none.remove();
    for (const r of JSON.parse(e.data)) body.prepend(row(r));
    while (body.rows.length > kept) body.lastElementChild.remove();
  };
  const passed = (e) => {
    reached(e);
    status.textContent = "Live: " + Number(JSON.parse(e.data)) + " records passed by too fast to show; load the page again for them.";
  };
  const state = (e) => {
    reached(e);
    const s = JSON.parse(e.data);
    signed = Number(s.signed);
    fault = s.fault;
    document.getElementById("head").textContent = Number(s.head);
    document.getElementById("signed").textContent = signed;
    document.getElementById("beyond").textContent = Math.max(0, Number(s.head) - signed);
    document.querySelector(".standing").classList.toggle("bad", fault);
    document.querySelectorAll("#rows .badge[data-seq]").forEach(paint);
  };

  // A browser opens few connections to one host: a tab that nobody sees gives its own
  // back, and goes on where it was.
  let source = null;
  const open = () => {
    source = new EventSource(address);
    source.onopen = () => { status.textContent = "Live: new records appear by themselves."; };
    source.onerror = () => { status.textContent = "Live rows are interrupted; trying again."; };
    source.addEventListener("rows", show);
    source.addEventListener("passed", passed);
    source.addEventListener("state", state);
  };
  document.addEventListener("visibilitychange", () => {
    if (source) source.close();
    source = null;
    if (!document.hidden) open();
  });
  if (!document.hidden) open();
})();
