// Reads JSON as strictly as the server does and knows where everything stands, so that what is wrong
// can be named by line and column; checks it against the JSON Schema that the server gives.
"use strict";

const HoldfastJson = (() => {
  class Wrong extends Error {
    constructor(message, at) {
      super(message);
      this.at = at;
    }
  }

  // --- reading -------------------------------------------------------------------------------

  class Reader {
    constructor(text) {
      this.text = text;
      this.at = 0;
    }

    whole() {
      const node = this.value();
      this.space();
      if (this.at < this.text.length) throw new Wrong("there is something after the end", this.at);
      if (node.kind !== "object") throw new Wrong("it must be an object: { … }", node.at);
      return node;
    }

    space() {
      const { text } = this;
      while (this.at < text.length && " \t\n\r".includes(text[this.at])) this.at++;
      if (text.startsWith("//", this.at) || text.startsWith("/*", this.at) || text[this.at] === "#") {
        throw new Wrong("JSON has no comments; remove this one", this.at);
      }
    }

    value() {
      this.space();
      const at = this.at;
      const sign = this.text[at];
      if (sign === undefined) throw new Wrong("it ends too early", at);
      if (sign === "{") return this.object(at);
      if (sign === "[") return this.array(at);
      if (sign === '"') return { kind: "string", at, value: this.string() };
      if (sign === "'") throw new Wrong("text stands in double quotes in JSON", at);
      return this.word(at);
    }

    word(at) {
      const found = /^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.])/.exec(this.text.slice(at, at + 5000));
      if (!found) throw new Wrong("a value is expected here", at);
      this.at += found[0].length;
      const kinds = { true: "boolean", false: "boolean", null: "null" };
      const kind = kinds[found[0]] || "number";
      if (kind === "number" && !Number.isFinite(Number(found[0]))) throw new Wrong("this number is too large", at);
      const isWhole = /^-?[0-9]+$/.test(found[0]);
      return { kind, at, isWhole, value: JSON.parse(found[0]) };
    }

    string() {
      const start = this.at;
      const { text } = this;
      for (let at = start + 1; at < text.length; at++) {
        const sign = text[at];
        if (sign === "\\") at++;
        else if (sign === '"') {
          this.at = at + 1;
          try {
            return JSON.parse(text.slice(start, this.at));
          } catch {
            throw new Wrong("this text has a \\ that means nothing", start);
          }
        } else if (sign < " ") throw new Wrong("this text does not end on its line", start);
      }
      throw new Wrong("this text does not end", start);
    }

    array(at) {
      const items = [];
      this.at++;
      this.space();
      if (this.text[this.at] === "]") {
        this.at++;
        return { kind: "array", at, items };
      }
      for (;;) {
        items.push(this.value());
        if (this.isOver("]")) return { kind: "array", at, items };
      }
    }

    object(at) {
      const members = new Map();
      this.at++;
      this.space();
      if (this.text[this.at] === "}") {
        this.at++;
        return { kind: "object", at, members };
      }
      for (;;) {
        this.space();
        const keyAt = this.at;
        if (this.text[keyAt] !== '"') throw new Wrong("a key in double quotes is expected here", keyAt);
        const key = this.string();
        if (members.has(key)) throw new Wrong(`the key ${JSON.stringify(key).slice(0, 80)} appears twice in one object`, keyAt);
        this.space();
        if (this.text[this.at] !== ":") throw new Wrong("a colon is expected here", this.at);
        this.at++;
        members.set(key, { keyAt, node: this.value() });
        if (this.isOver("}")) return { kind: "object", at, members };
      }
    }

    isOver(end) {
      this.space();
      const sign = this.text[this.at];
      if (sign !== "," && sign !== end) throw new Wrong(`a comma or ${end} is expected here`, this.at);
      const at = this.at++;
      if (sign === end) return true;
      this.space();
      if (this.text[this.at] === end) throw new Wrong(`there is a comma too many before this ${end}`, at);
      return false;
    }
  }

  // --- the schema: the words that ours uses ---------------------------------------------------

  function isOfType(node, type) {
    return type === "integer" ? node.kind === "number" && node.isWhole : node.kind === type;
  }

  function* faults(node, schema, where) {
    if (schema.type && !isOfType(node, schema.type)) {
      yield { at: node.at, message: `${where} must be ${schema.type === "object" ? "an object" : schema.type === "array" ? "a list" : `a ${schema.type}`}` };
      return;
    }
    if (schema.enum && !schema.enum.includes(node.value)) {
      yield { at: node.at, message: `${where} must be one of ${schema.enum.join(", ")}` };
    }
    if (node.kind === "array" && schema.items) {
      for (const [number, item] of node.items.entries()) yield* faults(item, schema.items, `${where}/${number}`);
    }
    if (node.kind !== "object") return;
    for (const key of schema.required || []) {
      if (!node.members.has(key)) yield { at: node.at, message: `${where || "the whole"} needs the key ${key}` };
    }
    for (const [key, { node: inner }] of node.members) {
      const known = schema.properties && Object.hasOwn(schema.properties, key);
      const inside = known ? schema.properties[key] : schema.additionalProperties;
      if (inside && typeof inside === "object") yield* faults(inner, inside, where ? `${where}/${key}` : key);
    }
  }

  function place(text, at) {
    const before = text.slice(0, at);
    const line = before.split("\n").length;
    return { line, column: at - before.lastIndexOf("\n") };
  }

  function check(text, schema) {
    try {
      const node = new Reader(text).whole();
      const found = schema ? [...faults(node, schema, "")] : [];
      return { parses: true, faults: found.map(({ at, message }) => ({ at, message, ...place(text, at) })) };
    } catch (error) {
      if (error instanceof RangeError) return { parses: false, faults: [{ at: 0, line: 1, column: 1, message: "it is nested too deep" }] };
      if (!(error instanceof Wrong)) throw error;
      return { parses: false, faults: [{ at: error.at, message: error.message, ...place(text, error.at) }] };
    }
  }

  return { check, place };
})();
