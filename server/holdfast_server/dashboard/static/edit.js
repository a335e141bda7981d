// The editor: checks while one types, saves what was seen, and merges when somebody was faster.
"use strict";

(() => {
  const editor = document.querySelector(".editor");
  const text = document.getElementById("text");
  const gutter = editor.querySelector(".gutter");
  const problems = document.getElementById("problems");
  const meanwhile = document.getElementById("meanwhile");
  const saved = document.getElementById("saved");
  const save = document.getElementById("save");
  const merge = document.getElementById("merge");
  const reset = document.getElementById("reset");

  let tag = editor.dataset.tag;
  let original = text.value;
  let schema = null;
  let wrongLines = new Set();
  let lineCount = 0;

  function element(name, content, className) {
    const made = document.createElement(name);
    made.textContent = content;
    if (className) made.className = className;
    return made;
  }

  // --- checking as one types -------------------------------------------------------------------

  function showLines() {
    const count = text.value.split("\n").length;
    const key = [...wrongLines].join();
    if (count === lineCount && gutter.dataset.wrong === key) return;
    lineCount = count;
    gutter.dataset.wrong = key;
    const lines = [];
    for (let line = 1; line <= count; line++) {
      lines.push(wrongLines.has(line) ? element("span", String(line), "wrong") : document.createTextNode(String(line)), document.createTextNode("\n"));
    }
    gutter.replaceChildren(...lines);
    gutter.scrollTop = text.scrollTop;
  }

  function goTo(at) {
    text.focus();
    text.setSelectionRange(at, Math.min(at + 1, text.value.length));
  }

  function tellFaults(found) {
    if (!found.length) {
      problems.replaceChildren(element("span", "Valid JSON that fits the schema.", "fine"));
      return;
    }
    const list = document.createElement("ul");
    for (const fault of found.slice(0, 5)) {
      const item = document.createElement("li");
      const where = element("button", `line ${fault.line}, column ${fault.column}`, "quiet");
      where.type = "button";
      where.addEventListener("click", () => goTo(fault.at));
      item.append(where, element("span", fault.message));
      list.append(item);
    }
    problems.replaceChildren(list);
  }

  function check() {
    const { parses, faults } = HoldfastJson.check(text.value, schema);
    wrongLines = new Set(faults.slice(0, 5).map((fault) => fault.line));
    showLines();
    tellFaults(faults);
    save.disabled = merge.disabled = !parses;
    return parses;
  }

  let timer = 0;
  text.addEventListener("input", () => {
    showLines();
    clearTimeout(timer);
    timer = setTimeout(check, text.value.length > 200000 ? 600 : 120);
    saved.textContent = "";
  });
  text.addEventListener("scroll", () => {
    gutter.scrollTop = text.scrollTop;
  });

  // --- saving ------------------------------------------------------------------------------------

  async function send(match) {
    if (!check()) return;
    save.disabled = merge.disabled = true;
    saved.textContent = "Saving…";
    try {
      const answer = await fetch(location.href, {
        method: "PUT",
        body: text.value,
        headers: {
          "accept": "application/json",
          "content-type": "application/json",
          "if-match": match,
          "x-holdfast-proof": editor.dataset.proof,
        },
      });
      await take(answer);
    } catch {
      saved.textContent = "Not saved: the server does not answer. Your text is still here.";
    }
    save.disabled = merge.disabled = false;
  }

  async function take(answer) {
    const told = await answer.json();
    if (answer.status === 200) return takeSaved(told, answer.headers.get("etag"));
    saved.textContent = `Not saved: ${told.problem || told.hint || answer.status}`;
    if (answer.status === 412) tellMeanwhile(told.changes);
    if (told.line) tellFaults([{ at: placeOf(told.line, told.column), line: told.line, column: told.column, message: told.problem }]);
  }

  function placeOf(line, column) {
    return text.value.split("\n").slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
  }

  function takeSaved(told, newTag) {
    const { scrollTop, selectionStart } = text;
    tag = newTag;
    original = text.value = told.text;
    text.setSelectionRange(selectionStart, selectionStart);
    text.scrollTop = scrollTop;
    check();
    saved.textContent = told.changed ? `Saved as revision ${told.revision}.` : "Nothing was changed.";
    merge.hidden = true;
    save.hidden = false;
    const notes = [
      ...told.warnings,
      ...told.conflicts.map((lost) => `${lost.path || "the whole file"}: another value is kept in ${lost.file}`),
    ];
    listIn(meanwhile, notes.length ? "Saved, and this is worth knowing:" : "", notes);
  }

  function tellMeanwhile(changes) {
    const lines = changes.map((each) => [each.by, each.verb, each.what, each.more.join(", ")].filter(Boolean).join(" "));
    listIn(meanwhile, "Somebody saved while you were editing. Merge: both changes stand, and where they are about the same value, yours does.", lines.slice(0, 10));
    merge.hidden = false;
    save.hidden = true;
    merge.focus();
  }

  function listIn(place, title, lines) {
    const list = document.createElement("ul");
    list.append(...lines.map((line) => element("li", line)));
    place.replaceChildren(element("p", title), list);
    place.hidden = !title;
  }

  save.addEventListener("click", () => send(tag));
  merge.addEventListener("click", () => send("*"));
  reset.addEventListener("click", () => location.reload());
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
      event.preventDefault();
      send(merge.hidden ? tag : "*");
    }
  });
  window.addEventListener("beforeunload", (event) => {
    if (text.value !== original) event.preventDefault();
  });

  fetch("/schema.json").then((answer) => answer.json()).then((found) => {
    schema = found;
    check();
  });
  check();
})();
