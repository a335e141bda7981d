// Keeps a page as it is on the server: when something changed it is asked for again, and what
// differs is put in place. Stored text never passes through a parser of ours: the server escaped it,
// and here it only moves as nodes and text.
"use strict";

(() => {
  // A page rests between two looks, and the longer the more a look costs the server.
  const REST_MS = 700;
  const REST_FOR_LOOK = 4;
  const live = document.getElementById("live");
  const topic = document.body.dataset.live;

  // --- times --------------------------------------------------------------------------------

  function ago(at) {
    const seconds = (Date.now() - at) / 1000;
    if (seconds < 10) return "just now";
    for (const [size, word] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= size) return `${Math.floor(seconds / size)} ${word} ago`;
    }
    return `${Math.floor(seconds)} s ago`;
  }

  function tellTimes() {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const at = Date.parse(time.getAttribute("datetime"));
      if (!Number.isNaN(at) && time.textContent !== ago(at)) time.textContent = ago(at);
    }
  }

  // --- taking over what changed --------------------------------------------------------------

  const keyOf = (node) =>
    node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") || node.id || "" : "";
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  function takeOver(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.nodeName === "TIME" && old.getAttribute("datetime") === fresh.getAttribute("datetime")) return;
    for (const { name } of [...old.attributes]) {
      // What somebody unfolded or chose stays so.
      if (!fresh.hasAttribute(name) && !["open", "checked", "class"].includes(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (["open", "checked"].includes(name)) continue;
      if (name === "value" && old.nodeName === "INPUT" && old.type !== "hidden") continue;
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    takeOverChildren(old, fresh);
  }

  function takeOverChildren(old, fresh) {
    const known = new Map();
    for (const child of old.childNodes) if (keyOf(child)) known.set(keyOf(child), child);
    let at = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const key = keyOf(wanted);
      const found = key && known.get(key);
      if (found && alike(found, wanted)) {
        if (found !== at) old.insertBefore(found, at);
        else at = at.nextSibling;
        takeOver(found, wanted);
      } else if (at && !keyOf(at) && !key && alike(at, wanted)) {
        takeOver(at, wanted);
        at = at.nextSibling;
      } else {
        const added = document.importNode(wanted, true);
        if (key && added.classList) added.classList.add("fresh");
        old.insertBefore(added, at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      old.removeChild(at);
      at = next;
    }
  }

  function pageNow() {
    return new Promise((resolve, reject) => {
      // Parsed by the browser as a document in which no script runs.
      const request = new XMLHttpRequest();
      request.open("GET", location.href);
      request.responseType = "document";
      request.onload = () => {
        if (request.responseURL && new URL(request.responseURL).pathname === "/login") location.reload();
        else if (request.status === 200 && request.response) resolve(request.response);
        else reject(new Error(String(request.status)));
      };
      request.onerror = () => reject(new Error("no answer"));
      request.send();
    });
  }

  let isAsking = false;
  let isWanted = false;
  let restUntil = 0;

  async function refresh() {
    isWanted = true;
    if (isAsking) return;
    isAsking = true;
    while (isWanted) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, restUntil - Date.now())));
      isWanted = false;
      const begun = Date.now();
      try {
        const fresh = (await pageNow()).getElementById("main");
        if (fresh) takeOver(document.getElementById("main"), fresh);
        tellTimes();
      } catch {
        say("off");
      }
      restUntil = Date.now() + Math.max(REST_MS, REST_FOR_LOOK * (Date.now() - begun));
    }
    isAsking = false;
  }

  // --- listening -----------------------------------------------------------------------------

  let source = null;

  function say(state) {
    live.hidden = false;
    live.className = `live ${state}`;
    const word = live.querySelector(".word");
    const said = state === "on" ? "Live" : "Not connected";
    if (word.textContent !== said) word.textContent = said;
  }

  function listen() {
    if (source || document.visibilityState === "hidden") return;
    source = new EventSource("/live");
    source.addEventListener("hello", () => {
      say("on");
      // Something may have happened while nobody listened.
      refresh();
    });
    source.addEventListener("look", refresh);
    source.addEventListener("changed", (event) => {
      if (topic === "*" || JSON.parse(event.data).includes(topic)) refresh();
    });
    source.onerror = () => {
      say("off");
      if (source && source.readyState === EventSource.CLOSED) {
        stop();
        setTimeout(listen, 2000);
      }
    };
  }

  function stop() {
    if (source) source.close();
    source = null;
  }

  tellTimes();
  setInterval(tellTimes, 5000);
  if (topic) {
    listen();
    // Browsers allow six connections to one server: a page that nobody sees gives its own up.
    document.addEventListener("visibilitychange", () =>
      document.visibilityState === "hidden" ? stop() : listen());
    // A claim may run out without anything being written.
    setInterval(refresh, 30000);
  }
})();
