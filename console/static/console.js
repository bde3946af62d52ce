// The console in the browser: it puts in place what the server has drawn, and nothing else. Without it, the pages work and do not move.
"use strict";
const trusted = window.trustedTypes ? trustedTypes.createPolicy("superstep", { createHTML: (s) => s }) : { createHTML: (s) => s };
const say = (text) => { document.getElementById("said").textContent = text; };

// element makes the one element that a piece of HTML from this server is.
function element(html) {
  const t = document.createElement("template");
  t.innerHTML = trusted.createHTML(html);
  return t.content.firstElementChild;
}

// put replaces or adds what has changed. A form that somebody is filling in stays as it is, and so does what is unfolded.
function put(frame) {
  const fresh = {};
  for (const [id, html] of Object.entries(frame.html || {})) {
    const next = element(html), was = document.getElementById(id);
    if (!next) continue;
    fresh[id] = next;
    if (!was) continue;
    const busy = document.activeElement;
    if (was.contains(busy) && busy.matches("input:not([type=checkbox]),textarea,select") && was.isConnected) { was.dataset.late = "1"; continue; }
    was.querySelectorAll("details").forEach((d, i) => { const n = next.querySelectorAll("details")[i]; if (n) n.open = d.open; });
    was.querySelectorAll("input[type=checkbox]").forEach((c) => { const n = next.querySelector(`input[type=checkbox][value="${CSS.escape(c.value)}"]`); if (n) n.checked = c.checked; });
    const focus = was.contains(busy) && busy.id !== id ? focusable(was).indexOf(busy) : -1;
    was.replaceWith(next);
    if (focus >= 0) focusable(next)[focus]?.focus({ preventScroll: true });
    dress(next);
  }
  for (const [id, order] of Object.entries(frame.order || {})) {
    const box = document.getElementById(id);
    if (!box) continue;
    let at = box.firstElementChild;
    for (const key of order) {
      const el = document.getElementById(key) || fresh[key];
      if (!el) continue;
      if (el === at) { at = at.nextElementSibling; continue; }
      box.insertBefore(el, at);
      dress(el);
      if (el.matches(".ask")) say("A question waits for you: " + el.querySelector("h2").textContent);
    }
    while (at) { const next = at.nextElementSibling; at.remove(); at = next; }
  }
  const last = fresh["last-record"]?.value, scrub = last && document.querySelector("[data-scrub]");
  if (scrub) { // the slider reaches as far as the run, and follows it if it is at its end
    const range = scrub.elements.at, end = range.value === range.max;
    range.max = last;
    if (end) { range.value = last; scrub.querySelector("output").textContent = last; }
  }
}
const focusable = (el) => [...el.querySelectorAll("a,button,input,select,textarea,summary,[tabindex]")];

// claim gives one of four streams to a page, and what frees it; null if all are taken. A browser has six connections to a console for all of its tabs.
function claim() {
  return new Promise((has) => {
    const take = (i) => navigator.locks.request("stream-" + i, { ifAvailable: true }, (lock) => lock ? new Promise((free) => { has(free); }) : void (i < 3 ? take(i + 1) : has(null)));
    if (navigator.locks) take(0); else has(() => {});
  });
}

// follow opens the stream of the page while it is visible, and continues it where it was. Without a stream, it asks every two seconds.
function follow() {
  const { stream, since } = document.body.dataset;
  if (!stream) return;
  let source = null, free = null, busy = false, last = since;
  const link = document.getElementById("link");
  const tell = (text) => { link.hidden = !text; link.textContent = text; };
  const address = (more) => stream + (stream.includes("?") ? "&" : "?") + more + "since=" + encodeURIComponent(last);
  const take = (id, data) => { last = id || last; put(JSON.parse(data)); };
  const reload = () => {
    close();
    if (![...document.querySelectorAll("textarea,input[type=text]")].some((x) => x.value && x.value !== x.defaultValue)) location.reload();
    else tell("reload to go on");
  };
  const close = () => { source?.close(); free?.(); source = free = null; };
  const ask = async () => {
    const r = await fetch(address("once=1&")), text = r.ok ? await r.text() : "";
    if (text.startsWith("event: reload")) return reload();
    const m = /^id: (.*)\ndata: (.*)/.exec(text);
    if (m) take(m[1], m[2]);
    tell(m ? "" : "connecting…");
    setTimeout(open, 2000);
  };
  const open = async () => {
    if (source || busy || document.hidden) return;
    busy = true;
    free = await claim();
    busy = false;
    if (document.hidden) return close();
    if (!free) return ask().catch(() => { tell("connecting…"); setTimeout(open, 2000); });
    source = new EventSource(address(""));
    source.onopen = () => tell("");
    source.onmessage = (e) => take(e.lastEventId, e.data);
    source.addEventListener("reload", reload);
    source.onerror = () => {
      tell("connecting…");
      if (source?.readyState === EventSource.CLOSED) { close(); setTimeout(open, 2000); }
    };
  };
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  open();
}

// tick counts the times that grow.
function tick() {
  const now = Date.now();
  for (const t of document.querySelectorAll("time.ticks")) {
    const s = Math.max(0, Math.round((now - Date.parse(t.dataset.since)) / 1000));
    const text = s < 60 ? s + "s" : s < 3600 ? Math.floor(s / 60) + "m " + (s % 60) + "s" : Math.floor(s / 3600) + "h " + Math.floor((s % 3600) / 60) + "m";
    if (t.textContent !== text) t.textContent = text;
  }
}

// The list of runs as it was filtered last is where "Runs" leads back to.
if (location.pathname === "/runs") sessionStorage.setItem("runs", location.search);

// dress makes new elements work.
function dress(root) {
  const all = (sel) => [...(root.matches?.(sel) ? [root] : []), ...root.querySelectorAll(sel)];
  for (const g of all("[data-graph]")) graph(g);
  for (const a of all('a.back[href="/runs"]')) a.href = "/runs" + (sessionStorage.getItem("runs") || "");
  for (const f of all("[data-into]")) f.addEventListener("change", async () => {
    const to = f.form.elements[f.dataset.into];
    to.value = await f.files[0].text(); to.dispatchEvent(new Event("input", { bubbles: true })); f.value = "";
  });
  for (const f of all("form[data-armed]")) { // nothing is answered by a click or a key that was meant for what was there before
    f.inert = true;
    setTimeout(() => { f.inert = false; }, 400);
  }
}

document.addEventListener("submit", async (e) => {
  const form = e.target;
  if (!form.matches("[data-send]") || e.submitter?.hasAttribute("formaction")) return;
  e.preventDefault();
  const by = e.submitter, sure = by?.dataset.sure;
  if (sure && !confirm(sure)) return;
  const data = new URLSearchParams(new FormData(form, by));
  data.set("once", form.dataset.once ||= crypto.randomUUID());
  form.querySelectorAll(".problem.sent").forEach((p) => p.remove());
  if (by) by.disabled = true;
  try {
    const r = await fetch(form.action, { method: "POST", body: data, headers: { "Superstep-Fragment": "1" } });
    if (!r.ok) throw new Error((await r.text()).trim() || r.statusText);
    delete form.dataset.once;
    say("Done.");
    const to = new URL(r.headers.get("Superstep-Location") || "", location.href);
    if (to.pathname !== location.pathname) location.href = to;
    else if (document.body.dataset.stream) form.reset();
    else location.reload();
  } catch (err) {
    delete form.dataset.once;
    const p = document.createElement("p");
    p.className = "problem sent"; p.setAttribute("role", "alert"); p.textContent = err.message;
    form.append(p);
  } finally { if (by) by.disabled = false; }
});

// graph lets a picture be moved, enlarged, and walked through with the keyboard; a node leads to its task.
function graph(box) {
  const svg = box.querySelector("svg");
  if (!svg || box.dataset.dressed) return;
  box.dataset.dressed = "1";
  svg.setAttribute("role", "group"); // its nodes can be chosen
  const whole = svg.viewBox.baseVal, kept = graph.kept;
  let v = kept && kept.w === whole.width && kept.h === whole.height ? kept.v : { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
  const w0 = whole.width, h0 = whole.height;
  const show = () => { svg.setAttribute("viewBox", `${v.x} ${v.y} ${v.width} ${v.height}`); graph.kept = { w: w0, h: h0, v }; };
  const zoom = (f, cx = v.x + v.width / 2, cy = v.y + v.height / 2) => {
    const k = Math.min(Math.max(f, 40 / v.width), Math.max(1, 4 * w0 / v.width));
    v = { x: cx - (cx - v.x) * k, y: cy - (cy - v.y) * k, width: v.width * k, height: v.height * k }; show();
  };
  box.style.height = Math.min(innerHeight * 0.55, Math.max(160, h0 * Math.min(1, box.clientWidth / w0 || 1))) + "px"; // as high as it is, if there is room
  svg.removeAttribute("width"); svg.removeAttribute("height");
  const bar = document.createElement("div");
  bar.className = "zoom";
  for (const [text, name, f] of [["+", "Enlarge", () => zoom(0.75)], ["−", "Reduce", () => zoom(1.33)], ["⤢", "Show all", () => { v = { x: 0, y: 0, width: w0, height: h0 }; show(); }]]) {
    const b = document.createElement("button");
    b.type = "button"; b.textContent = text; b.setAttribute("aria-label", name); b.addEventListener("click", f); bar.append(b);
  }
  box.append(bar);
  box.addEventListener("wheel", (e) => { if (e.ctrlKey || e.metaKey) { e.preventDefault(); const r = svg.getBoundingClientRect(); zoom(e.deltaY > 0 ? 1.1 : 0.9, v.x + (e.clientX - r.left) / r.width * v.width, v.y + (e.clientY - r.top) / r.height * v.height); } }, { passive: false });
  let from = null;
  svg.addEventListener("pointerdown", (e) => { from = { x: e.clientX, y: e.clientY, vx: v.x, vy: v.y }; });
  svg.addEventListener("pointermove", (e) => {
    if (!from || !(e.buttons & 1)) return;
    const r = svg.getBoundingClientRect(), k = Math.max(v.width / r.width, v.height / r.height);
    v = { ...v, x: from.vx - (e.clientX - from.x) * k, y: from.vy - (e.clientY - from.y) * k }; show();
  });
  const go = (n) => { const u = new URL(location.href); u.searchParams.set("task", n.dataset.path); location.href = u; };
  for (const n of svg.querySelectorAll(".node")) {
    n.setAttribute("tabindex", "0"); n.setAttribute("role", "link");
    n.addEventListener("click", (e) => { if (!from || Math.hypot(e.clientX - from.x, e.clientY - from.y) < 5) go(n); });
    n.addEventListener("keydown", (e) => { if (e.key === "Enter") go(n); });
  }
  show();
}

// scrub shows another record while its slider moves.
for (const form of document.querySelectorAll("[data-scrub]")) {
  let timer;
  const range = form.elements.at, out = form.querySelector("output");
  range.addEventListener("input", () => {
    out.textContent = range.value;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const u = new URL(location.href);
      u.searchParams.set("at", range.value);
      const r = await fetch(u, { redirect: "error" }).catch(() => null);
      if (!r || !r.ok) return;
      const next = new DOMParser().parseFromString(trusted.createHTML(await r.text()), "text/html");
      for (const id of ["head", "why", "asks", "graph", "detail", "parts", "timeline", "tasks", "todos"]) {
        const a = document.getElementById(id), b = next.getElementById(id);
        if (a && b) { a.replaceChildren(...b.children); dress(a); }
      }
      history.replaceState(null, "", u);
    }, 80);
  });
}

// The keyboard: j and k walk through a list, / searches, g and a letter goes to a page.
let before = "";
document.addEventListener("keydown", (e) => {
  const area = e.target.closest("form[data-send] textarea"); // Enter sends a message, and Ctrl+Enter any text
  if (area && e.key === "Enter" && !e.isComposing && (e.ctrlKey || e.metaKey || (!e.shiftKey && area.closest(".composer")))) {
    e.preventDefault();
    area.form.requestSubmit();
    return;
  }
  if (e.target.matches("input,textarea,select") || e.ctrlKey || e.metaKey || e.altKey) return;
  const rows = [...document.querySelectorAll("tbody a, .lane")].filter((a) => a.closest("tr")?.querySelector("a") === a || a.matches(".lane"));
  const at = rows.indexOf(document.activeElement);
  if (e.key === "j" || e.key === "k") rows[Math.max(0, Math.min(rows.length - 1, at + (e.key === "j" ? 1 : -1)))]?.focus();
  else if (e.key === "/") { const s = document.querySelector("input[type=search]"); if (s) { e.preventDefault(); s.focus(); } }
  else if (before === "g") { const to = { r: "/runs", c: "/chats", w: "/workflows", a: "/agents", t: "/tools", s: "/settings" }[e.key]; if (to) location.href = to; }
  before = e.key;
});

dress(document.body);
follow();
setInterval(tick, 1000);

// lint checks a recipe while it is typed.
for (const area of document.querySelectorAll("[data-lint]")) {
  let timer;
  area.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const r = await fetch("/lint", { method: "POST", body: new URLSearchParams({ name: area.dataset.name, text: area.value }) });
      const t = document.createElement("template");
      t.innerHTML = trusted.createHTML(await r.text());
      document.getElementById("lint").replaceChildren(t.content);
      area.rows = area.value.split("\n").length + 1;
    }, 250);
  });
  document.getElementById("lint").addEventListener("click", (e) => { // to the line of a problem
    const line = Number(e.target.dataset?.line);
    if (!line) return;
    e.preventDefault();
    const lines = area.value.split("\n"), from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.focus(); area.setSelectionRange(from, from + (lines[line - 1] || "").length);
    document.getElementById("line-" + line)?.scrollIntoView({ block: "center" });
  });
  document.querySelector("[data-download]")?.addEventListener("click", (e) => {
    e.target.href = URL.createObjectURL(new Blob([area.value], { type: "application/yaml" }));
    e.target.download = e.target.dataset.download;
  });
}

// The command that does what a form does.
for (const form of document.querySelectorAll("[data-run]")) {
  const quote = (s) => /^[\w./:@%+=,-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'";
  form.addEventListener("input", () => {
    let text = form.dataset.run;
    for (const [k, v] of new FormData(form)) {
      if (!v) continue;
      if (k.startsWith("in.")) text += " -i " + quote(k.slice(3) + "=" + v);
      else if (k === "model") text += " --model " + quote(v);
      else if (k === "json") text = "echo " + quote(v) + " | " + form.dataset.run + " --inputs -";
    }
    form.querySelector("[data-command]").textContent = text;
  });
}
